"""D1 and D3 for TrainingJobs: they begin after others, and have the size that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.kinds import JOBS, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import Key, Uid
from swell.api.trainingjob import FINAL_PHASES, TrainingJob, TrainingJobPhase
from swell.cluster.embedded.storage import Commit
from swell.operator.framework.orphans import OnlyMetadata
from swell.sim.observation import states
from swell.sim.world import SimulatedWorld
from tests.sim.wiping import SoundHistory


@dataclass
class AfterOthers:
    """D1: a job has no workloads before all jobs that it comes after have succeeded."""

    world: SimulatedWorld
    history: SoundHistory[TrainingJob]
    name: str = "D1 begun after others"
    _succeeded: set[Key] = field(default_factory=set)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, job = states(commit, TRAINING_JOBS)
        if job is not None and job.status.phase is TrainingJobPhase.SUCCEED:
            self._succeeded.add(job.metadata.key)
        if commit.collection not in {str(JOBS), str(REPLICA_SETS)}:
            return
        if commit.before or not commit.after or not self.world.is_subject(commit.actor):
            return
        controller = commit.after.typed(OnlyMetadata).metadata.controller
        owner = self.history.when_sent(commit, "create", controller.uid if controller else Uid(""))
        for name in owner.spec.after if owner is not None else ():
            if Key(commit.key.namespace, name) not in self._succeeded:
                yield f"{commit.key} created before {name} had succeeded"


@dataclass
class ScaledAsAsked:
    """D3: a status about the newest spec has the target that `scale` asks for."""

    world: SimulatedWorld
    name: str = "D3 scaled as asked"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, job = states(commit, TRAINING_JOBS)
        if job is None or not self.world.is_subject(commit.actor):
            return
        asked, status = job.spec.scaled_trainers, job.status
        if asked is None or status.phase in FINAL_PHASES or not status.phase.value:
            return
        is_current = status.observed_generation == job.metadata.generation
        if is_current and status.trainer_target != asked:
            yield f"{commit.key} has a target of {status.trainer_target}, {asked} is asked for"
