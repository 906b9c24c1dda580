"""The bugs that can be planted in the history that an operator keeps."""

from __future__ import annotations

from dataclasses import replace

from swell.api.meta import Key
from swell.api.pod import Pod
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


def records_before_it_looks_at_pods(operator: Operator) -> None:
    """A job that has ended is recorded at the first of its pods, before that one is looked at."""
    keeper = operator.history
    if keeper is None:
        return

    def end_and_look(key: Key, now: float) -> None:
        keeper._end_replaced = end_replaced  # type: ignore[method-assign]
        end_replaced(key, now)
        if key not in keeper._tracked:
            look_at_job(key, now)

    end_replaced, look_at_job = keeper._end_replaced, keeper._look_at_job
    look_at_pod = keeper._look_at_pod

    def look_at_pod_late(key: Key, pod: Pod, now: float) -> None:
        keeper._end_replaced = end_and_look  # type: ignore[method-assign]
        look_at_pod(key, pod, now)
        keeper._end_replaced = end_replaced  # type: ignore[method-assign]

    keeper._look_at_pod = look_at_pod_late  # type: ignore[method-assign]


PLANTED: dict[str, Flaw] = {
    "history lets jobs go unrecorded": lets_jobs_go_unrecorded,
    "history records anew": records_anew,
    "history records before it looks at pods": records_before_it_looks_at_pods,
}
