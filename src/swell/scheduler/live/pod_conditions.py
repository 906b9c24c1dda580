"""Writes on pods that wait: why they have no node, and which node they are promised.

A reason is written when it has lasted for a moment, so that pods placed at once cost nothing;
while only numbers in it change, now and then. Decides nothing: reasons and nodes are given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from swell.api.kinds import PODS
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod
from swell.api.times import format_time
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Patch, PatchKind
from swell.runtime.executor import Executor, FailureKind, WriteMeter
from swell.runtime.logs import get_logger
from swell.runtime.plan import PatchObject, Plan
from swell.runtime.queue import WorkQueue
from swell.scheduler.live.cache import SchedulerCache
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.tasks import Task, TaskStatus

log = get_logger(__name__)

SETTLE_S: Final = 1.0
NUMBERS_S: Final = 30.0
MESSAGE_MAX: Final = 1024
_CONDITION = "PodScheduled"
_UNSCHEDULABLE = "Unschedulable"
_WORKERS = 4
_WAITING = frozenset({TaskStatus.PENDING, TaskStatus.PIPELINED})


@dataclass(slots=True)
class _PodReport:
    key: Key
    refusal: Refusal | None = None
    said: WaitReason | None = None
    said_at: float = float("-inf")


class PodConditions:
    """See the module's docstring. `run` does the writing; the rest only takes note."""

    def __init__(
        self,
        cluster: Cluster,
        cache: SchedulerCache,
        *,
        clock: Clock,
        random: Random,
        meter: WriteMeter | None = None,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._executor = Executor(cluster, informers=[cache.informers.pods], meter=meter)
        self._queue = WorkQueue[Uid](clock=clock, random=random)
        self._notes: dict[Uid, _PodReport] = {}

    def refuse(self, refusals: Mapping[Task, Refusal]) -> None:
        """Have pods say why they wait."""
        now = self._clock.monotonic()
        for task, refusal in refusals.items():
            note = self._note(task)
            note.refusal = refusal
            delay_s = SETTLE_S
            if note.said is refusal.reason:
                delay_s = max(SETTLE_S, note.said_at + NUMBERS_S - now)
            if not _says(task.pod, refusal):
                self._queue.add_after(task.pod.metadata.uid, delay_s)

    def nominate(self, tasks: list[Task]) -> None:
        """Have pods name the node they are promised, or none any more."""
        for task in tasks:
            self._note(task)
            self._queue.add(task.pod.metadata.uid)

    async def run(self) -> None:
        await asyncio.gather(*(self._queue.serve(self._write) for _ in range(_WORKERS)))

    def stop(self) -> None:
        self._queue.close()

    def forget_missing(self) -> None:
        """Drops what was noted of pods that wait no longer."""
        for uid, note in list(self._notes.items()):
            task = self._cache.task_of(note.key, uid)
            if task is None or task.status not in _WAITING:
                del self._notes[uid]

    def _note(self, task: Task) -> _PodReport:
        uid = task.pod.metadata.uid
        note = self._notes.get(uid)
        if note is None:
            note = self._notes[uid] = _PodReport(task.pod.metadata.key)
        return note

    async def _write(self, uid: Uid) -> None:
        note = self._notes.get(uid)
        task = self._cache.task_of(note.key, uid) if note is not None else None
        if note is None or task is None or task.status not in _WAITING:
            return
        change = self._change(task, note.refusal)
        if not change:
            return
        body: Body = {"metadata": {"uid": uid}, "status": change}
        write = PatchObject(PODS.status, note.key, Patch(PatchKind.STRATEGIC, body))
        failure = (await self._executor.execute(Plan((write,)))).worst
        if failure is None:
            self._queue.forget(uid)
            if note.refusal is not None:
                note.said, note.said_at = note.refusal.reason, self._clock.monotonic()
        elif failure.kind is not FailureKind.REFUSED:
            log.info("pod condition not written", pod=str(note.key), why=failure.message)
            self._queue.retry(uid, failure.retry_after_s)

    def _change(self, task: Task, refusal: Refusal | None) -> Body:
        change: Body = {}
        promised = ""
        if task.status is TaskStatus.PIPELINED:
            promised = self._cache.snapshot.nodes.names[task.node]
        if promised != task.pod.status.nominated_node_name:
            change["nominatedNodeName"] = promised or None
        if refusal is not None and not _says(task.pod, refusal):
            change["conditions"] = [
                {
                    "type": _CONDITION,
                    "status": "False",
                    "reason": _UNSCHEDULABLE,
                    "message": _text(refusal),
                    "lastTransitionTime": format_time(self._clock.now()),
                }
            ]
        return change


def _says(pod: Pod, refusal: Refusal) -> bool:
    if refusal.reason is WaitReason.GATED:
        return True  # the API server says so by itself
    return any(
        c.type == _CONDITION and c.status == "False" and c.message == _text(refusal)
        for c in pod.status.conditions
    )


def _text(refusal: Refusal) -> str:
    text = f"{refusal.reason.value}: {refusal.message}"
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 1] + "…"
