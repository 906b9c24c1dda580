"""The bugs that can be planted in the history that an operator keeps."""

from __future__ import annotations

from dataclasses import replace

from swell.history.life import JobLife
from swell.history.shards import ShardWrite, split_key
from tests.sim.operator.subject import Flaw, Operator


def lets_jobs_go_unrecorded(operator: Operator) -> None:
    """A deleted job goes at once: a crash then loses its record for ever."""
    if operator.history is not None:
        operator.history.is_kept = lambda *_: True  # type: ignore[method-assign]


def records_anew(operator: Operator) -> None:
    """Keys have the time of writing, and what was kept before is not looked at."""
    keeper = operator.history
    if keeper is None:
        return
    shelf, put = keeper._ended, keeper._ended.put_shard

    async def load_nothing() -> list[JobLife]:
        return []

    async def put_under_new_keys(write: ShardWrite) -> None:
        now = int(keeper._clock.now())
        texts = {f"{now}.{split_key(key)[1]}": text for key, text in write.texts.items()}
        await put(replace(write, texts=texts))

    shelf.load = load_nothing  # type: ignore[method-assign]
    shelf.put_shard = put_under_new_keys  # type: ignore[method-assign]


PLANTED: dict[str, Flaw] = {
    "history lets jobs go unrecorded": lets_jobs_go_unrecorded,
    "history records anew": records_anew,
}
