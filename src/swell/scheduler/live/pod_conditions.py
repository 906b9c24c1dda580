"""Writes to waiting pods why they have no node, and which node is nominated for them.

A reason is written after it has lasted for a moment, so that pods that are placed at once cost no
write. While only its numbers change, it is written periodically. The cycle gives reasons and nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from swell.api.impossible import CANNOT_EVER_FIT
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
from swell.scheduler.live.status_updater import bounded
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.tasks import Task, TaskStatus

log = get_logger(__name__)

# A new reason is written after this time; the same reason with new numbers only this often.
SETTLE_S: Final = 1.0
NUMBERS_S: Final = 30.0
_CONDITION = "PodScheduled"
_UNSCHEDULABLE = "Unschedulable"
_WORKERS = 4
_WAITING = frozenset({TaskStatus.PENDING, TaskStatus.PIPELINED})


@dataclass(slots=True)
class _PodReport:
    """The reason to write on a pod, in a name and a text, and the name last written."""

    key: Key
    reason: str = ""
    text: str = ""
    reported_reason: str = ""
    reported_at: float = float("-inf")


class PodConditions:
    """Writes the PodScheduled condition and the nominated node of waiting pods."""

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
        self._reports: dict[Uid, _PodReport] = {}

    def refuse(self, refusals: Mapping[Task, Refusal], never: str = "") -> None:
        """Queue the reasons why pods wait. `never` is why their gang can never start, if so.

        That says more than why a pod has no node now; a pod that is held back says so itself.
        """
        now = self._clock.monotonic()
        for task, refusal in refusals.items():
            report = self._report_of(task)
            if refusal.reason is WaitReason.GATED:
                report.reason = report.text = ""  # the API server writes this condition itself
                continue
            is_never = never and refusal.reason is not WaitReason.UNREADABLE
            report.reason = CANNOT_EVER_FIT if is_never else refusal.reason.value
            report.text = bounded(f"{report.reason}: {never if is_never else refusal.message}")
            delay_s = SETTLE_S
            if report.reported_reason == report.reason:
                delay_s = max(SETTLE_S, report.reported_at + NUMBERS_S - now)
            if not _has_reported(task.pod, report.text):
                self._queue.add_after(task.pod.metadata.uid, delay_s)

    def nominate(self, tasks: list[Task]) -> None:
        """Queue the nominated nodes of pods; a pod without one loses its nomination."""
        for task in tasks:
            self._report_of(task)
            self._queue.add(task.pod.metadata.uid)

    async def run(self) -> None:
        await asyncio.gather(*(self._queue.serve(self._write) for _ in range(_WORKERS)))

    def stop(self) -> None:
        self._queue.close()

    def forget_missing(self) -> None:
        """Drop the reports of pods that no longer wait."""
        for uid, report in list(self._reports.items()):
            task = self._cache.task_of(report.key, uid)
            if task is None or task.status not in _WAITING:
                del self._reports[uid]

    def _report_of(self, task: Task) -> _PodReport:
        uid = task.pod.metadata.uid
        report = self._reports.get(uid)
        if report is None:
            report = self._reports[uid] = _PodReport(task.pod.metadata.key)
        return report

    async def _write(self, uid: Uid) -> None:
        report = self._reports.get(uid)
        task = self._cache.task_of(report.key, uid) if report is not None else None
        if report is None or task is None or task.status not in _WAITING:
            return
        reason, text = report.reason, report.text  # the report may change during the write
        change = self._change(task, text)
        if not change:
            return
        body: Body = {"metadata": {"uid": uid}, "status": change}
        write = PatchObject(PODS.status, report.key, Patch(PatchKind.STRATEGIC, body))
        failure = (await self._executor.execute(Plan((write,)))).worst
        if failure is None:
            self._queue.forget(uid)
            if text:
                report.reported_reason, report.reported_at = reason, self._clock.monotonic()
        # A rejected write is dropped: the next cycle reports again.
        elif failure.kind is not FailureKind.REFUSED:
            log.info("pod condition not written", pod=str(report.key), why=failure.message)
            self._queue.retry(uid, failure.retry_after_s)

    def _change(self, task: Task, text: str) -> Body:
        change: Body = {}
        nominated = ""
        if task.status is TaskStatus.PIPELINED:
            nominated = self._cache.snapshot.nodes.names[task.node]
        if nominated != task.pod.status.nominated_node_name:
            change["nominatedNodeName"] = nominated or None
        if text and not _has_reported(task.pod, text):
            change["conditions"] = [
                {
                    "type": _CONDITION,
                    "status": "False",
                    "reason": _UNSCHEDULABLE,
                    "message": text,
                    "lastTransitionTime": format_time(self._clock.now()),
                }
            ]
        return change


def _has_reported(pod: Pod, text: str) -> bool:
    return any(
        c.type == _CONDITION and c.status == "False" and c.message == text
        for c in pod.status.conditions
    )
