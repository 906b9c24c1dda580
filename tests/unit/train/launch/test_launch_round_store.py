"""The store of a round of torchrun's agents: nobody waits in it for a member that has died."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from swell.train.launch.round_store import ASSIGNED_RANKS, ROLE_INFO, RoundOverError, RoundStore


class FakeStore:
    """Keeps values as torch's stores do; `on_ask` is called before each answer."""

    def __init__(self, on_ask: Callable[[], None] = lambda: None) -> None:
        self.timeout = timedelta(seconds=300)
        self.values: dict[str, bytes] = {}
        self._on_ask = on_ask

    def set(self, key: str, value: str | bytes) -> None:
        self._on_ask()
        self.values[key] = value.encode() if isinstance(value, str) else value

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def get(self, key: str) -> bytes:
        self._on_ask()
        return self.values[key]

    def check(self, keys: list[str]) -> bool:
        self._on_ask()
        return self.values.keys() >= set(keys)

    def add(self, key: str, amount: int) -> int:
        self._on_ask()
        return amount


class Round:
    """A round of three agents: whether it is over, and how often that was told."""

    def __init__(self, store: FakeStore, size: int = 3) -> None:
        self.is_over = False
        self.n_told = 0
        self.store = RoundStore(
            store,
            size,
            lambda: self.is_over,
            self._end,
        )

    def _end(self) -> None:
        self.n_told += 1

    def rank_of(self, agent: int, n_local: int) -> list[int]:
        """What torch's agent asks for after a meeting, and what it learns."""
        info = {"role": "default", "rank": agent, "local_world_size": n_local}
        self.store.set(f"{ROLE_INFO}{agent}", json.dumps(info).encode())
        if agent == 0:
            sizes = [
                json.loads(one)["local_world_size"]
                for one in self.store.multi_get([f"{ROLE_INFO}{i}" for i in range(3)])
            ]
            ranks = [json.dumps([sum(sizes[:i]), sum(sizes)] * 2) for i in range(3)]
            self.store.multi_set([f"{ASSIGNED_RANKS}{i}" for i in range(3)], ranks)
        found: list[int] = json.loads(self.store.get(f"{ASSIGNED_RANKS}{agent}"))
        return found


def lose() -> None:
    raise RuntimeError("Connection reset by peer")


def test_agents_of_a_round_that_lasts_hear_each_other() -> None:
    """Also where members have different numbers of workers."""
    shared = FakeStore()
    shared.values = {
        f"{ROLE_INFO}{rank}": json.dumps({"local_world_size": n}).encode()
        for rank, n in ((1, 4), (2, 1))
    }
    first, last = Round(shared), Round(shared)

    assert first.rank_of(0, n_local=2) == [0, 7, 0, 7]
    assert last.rank_of(2, n_local=1) == [6, 7, 6, 7]
    assert (first.n_told, last.n_told) == (0, 0)


@pytest.mark.parametrize("agent", [0, 1, 2])
def test_who_waits_for_a_dead_agent_gets_ranks_when_the_round_is_over(agent: int) -> None:
    """The agent goes on to where it asks whether the group changes."""
    asked = 0

    def over_soon() -> None:
        nonlocal asked
        asked += 1
        if asked == 5:
            one.is_over = True

    one = Round(FakeStore(over_soon))

    assert one.rank_of(agent, n_local=2) == [2 * agent, 6, 2 * agent, 6]


@pytest.mark.parametrize("agent", [0, 1, 2])
def test_agents_outlive_the_store_of_a_round(agent: int) -> None:
    """The member that keeps it has died: the group is told, if it does not know."""
    one = Round(FakeStore(lose))

    assert one.rank_of(agent, n_local=1) == [agent, 3, agent, 3]
    assert one.n_told == 1


def test_what_is_no_rank_has_no_value_when_the_round_is_over() -> None:
    """The address of the first worker is not guessed, and no barrier is waited at."""
    one = Round(FakeStore())
    one.is_over = True
    one.store.set("own", "said")

    assert one.store.get("own") == b"said"
    with pytest.raises(RoundOverError, match="over"):
        one.store.get("MASTER_ADDR")
    with pytest.raises(RoundOverError, match="over"):
        one.store.wait(["last"])


def test_waiting_ends_by_the_timeout_of_the_store() -> None:
    """Then the round has failed."""
    one = Round(FakeStore())

    with pytest.raises(RoundOverError, match="nobody has said a, b in time"):
        one.store.wait(["a", "b"], timedelta(0))
    assert one.n_told == 1


def test_all_else_is_the_store_of_torch() -> None:
    assert Round(FakeStore()).store.add("n", 2) == 2
