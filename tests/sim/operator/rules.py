"""What the operator must never do: one class a rule, checked on every commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.aitrainingjob import (
    FINAL_PHASES,
    AITrainingJob,
    AITrainingJobPhase,
    AITrainingJobStatus,
    CleanPodPolicy,
    RestartScope,
)
from swell.api.injection import (
    FORMER_FILE,
    INSTANCES_FILE,
    RELEASE_ANNOTATION,
    SUCCEEDED_FILE,
)
from swell.api.kinds import AI_TRAINING_JOBS, CONFIG_MAPS, PODS, SERVICES
from swell.api.meta import Uid
from swell.api.pod import Pod, PodPhase
from swell.cluster.embedded.storage import Commit
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.endings import ASKED_FOR
from swell.operator.aitrainingjob.phases import TRANSITIONS, JobReason
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.aitrainingjob.snapshot import covers
from swell.sim.invariants import SafetyCheck
from swell.sim.observation import ENDED, owner_of, pod_states
from swell.sim.world import SimulatedWorld
from tests.sim.operator.departure_rules import SavedBeforeDeleted, was_asked
from tests.sim.operator.field_rules import ExpiredJobsOnly, ForeignUntouched, HeldWhileRunning
from tests.sim.operator.fleets import fleet_of
from tests.sim.operator.hang_rules import HangsCalledSo
from tests.sim.operator.node_rules import (
    ExclusionsEnd,
    FewSuspects,
    MarksOnRecord,
    MovedOnRequest,
)
from tests.sim.operator.observation import count_of, job_states, replica_of
from tests.sim.operator.story_rules import (
    AfterOthers,
    PreemptedQueueAtOnce,
    PreemptionsCounted,
    RestartsHeld,
    ScaledAsAsked,
)
from tests.sim.operator.training_rules import (
    HoldersStay,
    NumbersGrow,
    ReportsAreWrittenSeldom,
    SecretBeforePods,
)
from tests.sim.rules import NothingLeftBehind, OneLivePod, owned_by
from tests.sim.wiping import SoundHistory

# What was read from the server that long before a write counted as the present when it was sent.
PRESENT_S = 20.0


def safety(world: SimulatedWorld, settings: AITrainingJobSettings) -> list[SafetyCheck]:
    history = SoundHistory(world, AI_TRAINING_JOBS)
    return [
        OneLivePod(_place_of, "O1 one live pod"),
        ForcedOnlyWhenFenced(world, settings),
        CreatedForOwner(world, history),
        RestartsRecorded(world, history),
        PhasesMove(history),
        DeletedForReason(world, history),
        NothingLeftBehind(
            world,
            AI_TRAINING_JOBS,
            labels.FINALIZER,
            lambda uid: owned_by(world, (str(PODS), str(SERVICES)), uid),
            name="O6 nothing left behind",
        ),
        SpecUntouched(world),
        OneWorldAnEpoch(history),
        EndingsAreTrue(history),
        SecretBeforePods(world),
        NumbersGrow(world),
        ReportsAreWrittenSeldom(world),
        HoldersStay(world, history),
        SavedBeforeDeleted(world, history),
        AskedForReason(world, history),
        ExpiredJobsOnly(world),
        ForeignUntouched(world, AI_TRAINING_JOBS),
        HeldWhileRunning(world),
        MarksOnRecord(world),
        FewSuspects(world, settings),
        MovedOnRequest(world),
        ExclusionsEnd(world, settings),
        RestartsHeld(world, history),
        AfterOthers(world, history),
        PreemptionsCounted(world, history),
        PreemptedQueueAtOnce(world, history),
        ScaledAsAsked(world),
        HangsCalledSo(history),
    ]


def _place_of(pod: Pod) -> tuple[Uid, str, int] | None:
    return (owner_of(pod), *replica_of(pod)) if owner_of(pod) else None


@dataclass
class ForcedOnlyWhenFenced:
    """O1: a record is dropped only when the processes behind it certainly have ended."""

    world: SimulatedWorld
    settings: AITrainingJobSettings
    name: str = "O1 forced only when fenced"
    _sent_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.network.on_call.append(self._on_call)

    def _on_call(self, _: str, site: str) -> None:
        self._sent_s[site] = self.world.clock.monotonic()

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before is None or not self.world.is_subject(commit.actor):
            return
        # Of one with a finalizer the record stays, and goes with that, which is another rule's.
        was_forced = before.metadata.deletion_grace_period_seconds == 0
        is_forced = after is None or after.metadata.deletion_grace_period_seconds == 0
        if was_forced or not is_forced:
            return
        if not before.spec.node_name or before.status.phase in ENDED:
            return  # nothing runs behind it, so the server itself drops it at once
        sent_s = self._sent_s[f"{commit.actor} delete {PODS} {commit.key}"]
        if not any(self._was_fenced(before, sent_s - back_s) for back_s in (0.0, 5.0, PRESENT_S)):
            yield f"{commit.key} force-deleted on {before.spec.node_name}, which may run it"

    def _was_fenced(self, pod: Pod, at_s: float) -> bool:
        fleet, name = fleet_of(self.world), pod.spec.node_name
        grace_s = pod.spec.termination_grace_period_seconds or 0
        unready_s = fleet.was_unready_for(name, at_s)
        patience_s = grace_s + self.settings.node_fence_after_s
        return fleet.was_absent(name, at_s) or unready_s >= patience_s


@dataclass
class CreatedForOwner:
    """O2, S1: a pod is created only for a job that was neither ending, over nor suspended."""

    world: SimulatedWorld
    history: SoundHistory[AITrainingJob]
    name: str = "O2 created for its owner"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before or not after or not self.world.is_subject(commit.actor):
            return
        job = self.history.when_sent(commit, "create", owner_of(after))
        if sum(owner.controller for owner in after.metadata.owner_references) != 1:
            yield f"{commit.key} has not one controller"
        if job is None:
            yield f"{commit.key} created for no job"
        elif job.status.phase in FINAL_PHASES or job.status.ending:
            yield f"{commit.key} created for a job that is {job.status.phase.value}"
        elif job.status.suspension is not None:
            yield f"{commit.key} created for a job that is suspended"


@dataclass
class RestartsRecorded:
    """O3: counts never fall, stay within the limit, and are on record before they are used."""

    world: SimulatedWorld
    history: SoundHistory[AITrainingJob]
    name: str = "O3 restarts recorded"
    _made: dict[tuple[Uid, str], int] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before_pod, pod = pod_states(commit)
        if pod is not None and before_pod is None and self.world.is_subject(commit.actor):
            place = owner_of(pod), replica_of(pod)[0]
            self._made[place] = max(count_of(pod), self._made.get(place, 0))
            job = self.history.when_sent(commit, "create", owner_of(pod))
            recorded = job.status.restart_counts.get(replica_of(pod)[0], 0) if job else 0
            if count_of(pod) > recorded:
                yield f"{commit.key} is restart {count_of(pod)}, {recorded} are recorded"
        before, after = self.history.judged(commit)
        if before is None or after is None:
            return
        old, new = before.status, after.status
        # A count that no pod was created with may be lost with the status that had it.
        is_repair, uid = self.history.is_repair(commit), after.metadata.uid
        for role, count in old.restart_counts.items():
            floor = min(count, self._made.get((uid, role), 0)) if is_repair else count
            if new.restart_counts.get(role, 0) < floor:
                yield f"{commit.key} forgot restarts of {role}"
        if new.restart and (old.restart is None or old.restart.counts != new.restart.counts):
            yield from self._judge_new(commit, before, after)

    def _judge_new(
        self, commit: Commit, before: AITrainingJob, after: AITrainingJob
    ) -> Iterator[str]:
        record, old, new = after.status.restart, before.status, after.status
        if record is None or all(
            n <= old.restart_counts.get(r, 0) for r, n in record.counts.items()
        ):
            return  # none, or one that was begun before its record was lost
        role = record.role
        limit = {r.lower(): s for r, s in after.spec.replica_specs.items()}[role].restart_limit
        if new.uncharged.get(role, 0) > old.uncharged.get(role, 0) or limit is None:
            return
        charged = _charged(new if record.scope is RestartScope.POD else old, role)
        allowed = limit if record.scope is RestartScope.POD else limit - 1
        if charged > allowed:
            yield f"{commit.key} restarts {role} beyond its limit of {limit}"


def _charged(status: AITrainingJobStatus, role: str) -> int:
    return status.restart_counts.get(role, 0) - status.uncharged.get(role, 0)


@dataclass
class PhasesMove:
    """O4, O8: phases follow the table, final is final, generations are not undone."""

    history: SoundHistory[AITrainingJob]
    name: str = "O4 phases move by the table"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = self.history.judged(commit)
        if after is None:
            return
        new = after.status
        if new.observed_generation > after.metadata.generation:
            yield f"{commit.key} observed a generation of the future"
        if before is None:
            return
        old = before.status
        is_repair = self.history.is_repair(commit)
        allowed = TRANSITIONS[old.phase]
        if is_repair and old.phase in FINAL_PHASES:
            # Its way to the same end begins again; the record of that is judged below.
            allowed = frozenset({AITrainingJobPhase.TERMINATING})
        elif is_repair and old.phase is AITrainingJobPhase.PENDING:
            # Of a job that has nothing yet, no more is left than of one that was just submitted.
            allowed |= TRANSITIONS[AITrainingJobPhase.EMPTY]
        if new.phase is not old.phase and new.phase not in allowed:
            yield f"{commit.key} went from {old.phase.value} to {new.phase.value}"
        if new.observed_generation < old.observed_generation:
            yield f"{commit.key} observed an older generation"
        # Before its mark is on the job nothing is deleted for an ending, and it can be found again.
        is_known = not is_repair or labels.ENDING in before.metadata.annotations
        if is_known and old.ending and (not new.ending or new.ending.phase is not old.ending.phase):
            yield f"{commit.key} forgot how it ends"
        if new.phase in FINAL_PHASES and (not new.end_time or not new.ending):
            yield f"{commit.key} ended without a time or a record"


@dataclass
class DeletedForReason:
    """O5, O7: a pod is deleted only for a reason that was on record when the delete was sent."""

    world: SimulatedWorld
    history: SoundHistory[AITrainingJob]
    name: str = "O5 deleted for a reason"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before is None or not self.world.is_subject(commit.actor):
            return
        if after is not None and not after.metadata.deletion_timestamp:
            return
        if before.metadata.deletion_timestamp:
            return  # it was on its way; who may hurry it is another rule
        sent = self.history.version_when_sent(commit, "delete")
        job = self.history.at(owner_of(before), sent)
        if self.history.was_gone(owner_of(before), sent):
            return  # left behind: garbage
        if job is not None and not was_asked(before) and not _may_go(job, before):
            yield f"{commit.key} deleted without a recorded reason"
        if not owner_of(before):
            yield f"{commit.key} deleted, though it was none of ours"


@dataclass
class AskedForReason:
    """O5: a pod is asked to leave only for a reason that was on record when it was asked."""

    world: SimulatedWorld
    history: SoundHistory[AITrainingJob]
    name: str = "O5 asked for a reason"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before is None or after is None or not self.world.is_subject(commit.actor):
            return
        if RELEASE_ANNOTATION not in after.metadata.annotations or was_asked(before):
            return
        job = self.history.when_sent(commit, "patch", owner_of(before))
        if job is not None and not _may_go(job, before):
            yield f"{commit.key} asked to leave without a recorded reason"


def _may_go(job: AITrainingJob, pod: Pod) -> bool:
    role, index = replica_of(pod)
    status = job.status
    if job.metadata.deletion_timestamp is not None:
        return True
    if status.ending is not None:
        return _goes_at_end(job, pod)
    if status.suspension is not None:
        return True
    restart = status.restart
    if restart and covers(status, role, index) and count_of(pod) < restart.counts.get(role, 0):
        return True
    return index >= status.target_replicas.get(role, 0)


def _goes_at_end(job: AITrainingJob, pod: Pod) -> bool:
    end, policy = job.status.ending, job.spec.clean_pod_policy
    if end is None:
        return False
    if (
        end.phase not in {AITrainingJobPhase.SUCCEED, AITrainingJobPhase.FAILED}
        or end.reason in ASKED_FOR
    ):
        return True
    if policy is CleanPodPolicy.RUNNING:
        return pod.status.phase not in ENDED
    return policy is CleanPodPolicy.ALL


@dataclass
class SpecUntouched:
    """O8: the spec is the user's."""

    world: SimulatedWorld
    name: str = "O8 spec untouched"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = job_states(commit)
        if before and after and self.world.is_subject(commit.actor) and before.spec != after.spec:
            yield f"{commit.key}: the operator wrote its spec"


@dataclass
class OneWorldAnEpoch:
    """O9: pods of one epoch were told the same, the ConfigMap says it too, and epochs grow."""

    history: SoundHistory[AITrainingJob]
    name: str = "O9 one world an epoch"
    _reported: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    # The epochs that were written, each with the store's version.
    _written: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = self.history.judged(commit)
        # An epoch that was lost with its status may come again, if no pod could read it.
        is_repair = self.history.is_repair(commit)
        if before and after and not is_repair and after.status.epoch < before.status.epoch:
            yield f"{commit.key} went back to epoch {after.status.epoch}"
        if commit.after is None or (commit.before is not None and commit.collection == str(PODS)):
            return
        body = commit.after.body
        owners = body["metadata"].get("ownerReferences") or [{}]
        uid = owners[0].get("uid", "")
        if commit.collection == str(PODS) and uid:
            env = {e["name"]: e.get("value", "") for e in body["spec"]["containers"][0]["env"]}
            sizes = {k: v for k, v in env.items() if k.endswith("_INSTANCES_NUM")}
            # A former leader that stood still may send it late; its successor replaces the pod.
            known = self.history.version_when_sent(commit, "create")
            yield from self._compare(commit, (uid, env["TRAININGJOB_EPOCH"]), sizes, known)
        if commit.collection == str(CONFIG_MAPS) and uid and "epoch" in body.get("data", {}):
            sizes = {
                f"{role.upper().replace('-', '_')}_INSTANCES_NUM": str(len(text.splitlines()))
                for role, text in body["data"].items()
                if role not in {"epoch", INSTANCES_FILE, FORMER_FILE, SUCCEEDED_FILE}
            }
            yield from self._compare(commit, (uid, body["data"]["epoch"]), sizes, commit.version)

    def _compare(
        self, commit: Commit, key: tuple[str, str], sizes: dict[str, str], known: int
    ) -> Iterator[str]:
        """Compare with what was written up to the version that the writer could know."""
        written = self._written.setdefault(key[0], [])
        latest = max((epoch for version, epoch in written if version <= known), default=0)
        if int(key[1]) < latest:
            yield f"{commit.key} is of epoch {key[1]} after {latest}"
        written.append((commit.version, int(key[1])))
        reported = self._reported.setdefault(key, sizes)
        if reported != sizes:
            yield f"{commit.key}: epoch {key[1]} is {sizes} and was {reported}"


@dataclass
class EndingsAreTrue:
    """A job succeeds or fails by pods of its own, never by those of a namesake."""

    history: SoundHistory[AITrainingJob]
    name: str = "endings are true"
    _ended: dict[tuple[Uid, PodPhase], int] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, pod = pod_states(commit)
        if pod is not None and pod.status.phase in ENDED:
            self._ended[owner_of(pod), pod.status.phase] = 1
        before, after = self.history.judged(commit)
        if before is None or after is None or before.status.ending or not after.status.ending:
            return
        reason = after.status.ending.reason
        for why, phase in (
            (JobReason.ROLES_COMPLETED, PodPhase.SUCCEEDED),
            (JobReason.ROLES_FAILED, PodPhase.FAILED),
        ):
            if reason == why.value and (after.metadata.uid, phase) not in self._ended:
                yield f"{commit.key} is over, though no pod of its own has {phase.value}"
