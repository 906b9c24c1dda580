"""Watches wake in slices, and what the log keeps of old states is bytes."""

from __future__ import annotations

import asyncio

from swell.api.meta import Body, Key
from swell.cluster.embedded.storage import WOKEN_AT_ONCE, Storage, StoredChange

N_WATCHES = 10 * WOKEN_AT_ONCE


def _change(storage: Storage, n: int = 0) -> None:
    key = Key("default", "a")
    body: Body = {"metadata": {"name": "a"}, "n": n}
    before = storage.get("things", key)
    storage.commit(StoredChange("things", key, before, body, "tester", "update"))


def test_watches_wake_in_slices() -> None:
    """Between two slices the loop has a turn, in which another request would be answered."""

    async def main() -> list[int]:
        storage, n_woken, seen = Storage(lambda: 0.0), 0, []

        async def watch() -> None:
            nonlocal n_woken
            await storage.follow("things", storage.version).wait()
            n_woken += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(N_WATCHES):
                group.create_task(watch())
            await asyncio.sleep(0)
            _change(storage)
            while n_woken < N_WATCHES:
                await asyncio.sleep(0)
                seen.append(n_woken)
        return seen

    seen = asyncio.run(main())
    steps = [after - before for before, after in zip([0, *seen], seen, strict=False)]

    assert seen[-1] == N_WATCHES
    assert max(steps) <= WOKEN_AT_ONCE


def test_cancelled_watches_are_forgotten() -> None:
    async def main() -> int:
        storage = Storage(lambda: 0.0)
        cursor = storage.follow("things", storage.version)
        waits = [asyncio.create_task(cursor.wait()) for _ in range(N_WATCHES)]
        await asyncio.sleep(0)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        return len(cursor._state.waiters)

    assert asyncio.run(main()) == 0


def test_old_states_are_kept_as_bytes() -> None:
    """An object that is read in decoded form after every write stays in memory decoded once."""
    storage = Storage(lambda: 0.0)
    for n in range(3):
        _change(storage, n)
        stored = storage.get("things", Key("default", "a"))
        assert stored is not None
        assert stored.body["n"] == n
    commits = storage.follow("things", 1).take()

    assert [commit.after._body for commit in commits[:-1] if commit.after] == [None, None]
