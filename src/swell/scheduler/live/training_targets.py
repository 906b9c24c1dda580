"""Keeps the targets of elastic roles in the snapshot, those being lowered included.

A role's target is what the job's status says, or less while the scheduler lowers it: from the
decision on until the status shows it or the write has failed.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from swell.api.aitrainingjob import AITrainingJob
from swell.api.meta import Key, Uid
from swell.scheduler.live.informers import SchedulerInformers
from swell.scheduler.live.objects import job_facts
from swell.scheduler.model.elastic import last_save, trainers_key
from swell.scheduler.model.snapshot import SchedulerSnapshot


class TrainingTargets:
    """Handlers of the informers of both kinds of training jobs."""

    def __init__(
        self,
        informers: SchedulerInformers,
        snapshot: SchedulerSnapshot,
        wake: Callable[[], None],
    ) -> None:
        self._informers = informers
        self._snapshot = snapshot
        self._wake = wake
        # Targets that are being lowered and are not confirmed yet, with the UID of the job.
        self._lowered: dict[str, tuple[Uid, dict[str, int]]] = {}
        # What was last taken of each job, so that other changes of its status cost nothing.
        self._facts: dict[str, tuple[object, ...]] = {}

    @property
    def lowered(self) -> tuple[str, ...]:
        """The jobs of which a target is being lowered."""
        return tuple(self._lowered)

    def clear(self) -> None:
        """Forget what was taken, because the snapshot is emptied; what is assumed stays."""
        self._facts.clear()

    def assume_shrunk(self, job: AITrainingJob, targets: dict[str, int]) -> None:
        """Keep the lower targets of a job, whatever the informer says, until `forget_shrunk`."""
        self._lowered[str(job.metadata.key)] = (job.metadata.uid, targets)

    def forget_shrunk(self, key: Key) -> None:
        """Go back to the targets in the status of a job: they are written, or will not be."""
        if self._lowered.pop(str(key), None) is not None:
            self._facts.pop(str(key), None)
            self.take_job(key)

    def take_job(self, key: Key) -> None:
        found, text = self._informers.jobs.get(key), str(key)
        if found is None:
            self._snapshot.remove_training_job(text)
            self._lowered.pop(text, None)
            self._facts.pop(text, None)
        else:
            # A save makes its job a cheaper victim, but is no reason for a cycle.
            self._snapshot.roles.note_save(text, last_save(found))
            facts = job_facts(found)
            if self._facts.get(text) == facts:
                return
            self._facts[text] = facts
            self._snapshot.put_training_job(self._with_lowered(found))
        self._targets_changed(text)

    def take_trainers(self, key: Key) -> None:
        found, text = self._informers.trainer_jobs.get(key), trainers_key(str(key))
        if found is None:
            self._snapshot.remove_training_job(text)
            self._facts.pop(text, None)
        else:
            facts = (found.spec.trainer, found.status.trainer_target)
            if self._facts.get(text) == facts:
                return
            self._facts[text] = facts
            self._snapshot.put_trainers(found)
        self._targets_changed(text)

    def _targets_changed(self, training_job: str) -> None:
        if any(self._snapshot.roles.of(training_job)):  # a job without pods needs no decision
            self._wake()

    def _with_lowered(self, job: AITrainingJob) -> AITrainingJob:
        """Returns the job with the smaller of both targets for each role that is being shrunk."""
        uid, lowered = self._lowered.get(str(job.metadata.key), ("", {}))
        if uid != job.metadata.uid or not lowered:
            return job
        targets = dict(job.status.target_replicas)
        for role, target in lowered.items():
            targets[role] = min(targets.get(role, target), target)
        status = msgspec.structs.replace(job.status, target_replicas=targets)
        return msgspec.structs.replace(job, status=status)
