"""The operator's invariants, checked on what was recorded and on what it sent. Pure.

Numbered as in the simulator, whose rules see every commit's author; here a proxy knows the author.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobPhase
from swell.api.meta import Body
from swell.operator.aitrainingjob.phases import TRANSITIONS
from tests.e2e.faults.proxy import Write
from tests.e2e.faults.recorder import Happening

_FINAL = frozenset(phase.value for phase in FINAL_PHASES)
_ASKED_FOR = frozenset({"EndedByAnnotation", "Stopped"})
_BY_POLICY = frozenset({AITrainingJobPhase.SUCCEED.value, AITrainingJobPhase.FAILED.value})


@dataclass
class Course:
    """The objects of a namespace as they are at one moment of a record."""

    jobs: dict[str, Body] = field(default_factory=dict)  # by UID
    owned: dict[tuple[str, str], Happening] = field(default_factory=dict)  # by kind and UID

    def take(self, one: Happening) -> None:
        if one.kind == "AITrainingJob":
            held = dict[str, Body](self.jobs)
            held.pop(one.uid, None)
            self.jobs = held if one.is_gone else {**held, one.uid: one.body}
        elif one.is_gone:
            self.owned.pop((one.kind, one.uid), None)
        else:
            self.owned[one.kind, one.uid] = one


def violations(record: Sequence[Happening], writes: Sequence[Write]) -> list[str]:
    """Everything that must not have happened."""
    deleted = {
        str(write.body.get("preconditions", {}).get("uid"))
        for write in writes
        if write.asked.verb == "DELETE" and write.asked.what == "pods"
    }
    course, found = Course(), [*_blind_deletes(writes)]
    for one in record:
        before = course.owned.get((one.kind, one.uid))
        if one.kind == "AITrainingJob":
            found += _of_job(course, one)
        elif one.kind == "Pod" and before is None and not one.is_gone:
            found += _of_birth(course, one)
        elif one.kind == "Pod" and one.uid in deleted and _is_begin_of_end(before, one):
            found += _of_delete(course, one)
        course.take(one)
    return [*found, *_of_the_end(course)]


def _blind_deletes(writes: Sequence[Write]) -> Iterator[str]:
    for write in writes:
        if write.asked.verb != "DELETE":
            continue
        if not write.body.get("preconditions", {}).get("uid"):
            yield f"O5 {write.asked} without a UID"
        if write.asked.what == "pods" and write.body.get("gracePeriodSeconds") == 0:
            yield f"O1 {write.asked} by force, though its node is well"


def _of_job(course: Course, one: Happening) -> Iterator[str]:
    before = course.jobs.get(one.uid)
    old = before.get("status", {}) if before else {}
    new = one.body.get("status", {})
    if one.is_gone:
        left = [f"{k} {h.name}" for (k, _), h in course.owned.items() if h.owner == one.uid]
        if left:
            yield f"O6 {one.name} is gone, and left {left}"
        return
    was, now = AITrainingJobPhase(old.get("phase", "")), AITrainingJobPhase(new.get("phase", ""))
    if was is not now and now not in TRANSITIONS[was]:
        yield f"O4 {one.name} went from {was} to {now}"
    for role, count in (old.get("restartCounts") or {}).items():
        if new.get("restartCounts", {}).get(role, 0) < count:
            yield f"O3 restarts of {one.name} {role} are forgotten"


def _of_birth(course: Course, one: Happening) -> Iterator[str]:
    job = course.jobs.get(one.owner)
    if job is None:
        yield f"O2 pod {one.name} was created for no job"
        return
    status = job.get("status", {})
    if status.get("ending") or status.get("phase") in _FINAL:
        yield f"O2 pod {one.name} was created for a job that ends"
    labels = one.body["metadata"]["labels"]
    recorded = (status.get("restartCounts") or {}).get(labels["PodRole"], 0)
    if int(labels["RestartCount"]) > recorded:
        yield f"O3 pod {one.name} is of a restart that was not recorded"
    twins = [
        h.name
        for (kind, _), h in course.owned.items()
        if kind == "Pod" and h.owner == one.owner and h.name == one.name
    ]
    if twins:
        yield f"O1 there are two of pod {one.name}"


def _is_begin_of_end(before: Happening | None, one: Happening) -> bool:
    was = before is not None and "deletionTimestamp" in before.body["metadata"]
    return not was and (one.is_gone or "deletionTimestamp" in one.body["metadata"])


def _of_delete(course: Course, one: Happening) -> Iterator[str]:
    """The operator deleted it: the job must have said so before."""
    job = course.jobs.get(one.owner)
    if job is None or "deletionTimestamp" in job["metadata"]:
        return
    status, labels = job.get("status", {}), one.body["metadata"]["labels"]
    policy = job["spec"].get("cleanPodPolicy", "All")
    ending = status.get("ending")
    if ending or status.get("phase") in _FINAL:
        by_policy = (ending or status).get("phase") in _BY_POLICY
        if policy == "None" and by_policy and (ending or {}).get("reason") not in _ASKED_FOR:
            yield f"O7 pod {one.name} was deleted against the clean policy"
        return
    role, index = labels["PodRole"], int(labels["TrainingJobReplicaIndex"])
    if index >= status.get("targetReplicas", {}).get(role, 0):
        return
    counts = (status.get("restart") or {}).get("counts") or {}
    if int(labels["RestartCount"]) >= counts.get(role, 0):
        yield f"O5 pod {one.name} was deleted without a recorded reason"


def _of_the_end(course: Course) -> Iterator[str]:
    for uid, job in course.jobs.items():
        phase = job.get("status", {}).get("phase", "")
        policy = job["spec"].get("cleanPodPolicy", "All")
        keeps = phase in _BY_POLICY and policy != "All"
        for (kind, _), held in course.owned.items():
            if phase in _FINAL and held.owner == uid and kind in {"Pod", "Service"} and not keeps:
                yield f"O7 {kind} {held.name} remains after {phase}"


def end_state(record: Sequence[Happening]) -> Body:
    """What became of everything, without what is different in every run."""
    course = Course()
    for one in record:
        course.take(one)
    jobs = {job["metadata"]["name"]: _masked(job) for job in course.jobs.values()}
    owned = sorted(f"{kind} {held.name}" for (kind, _), held in course.owned.items())
    # Kubernetes puts a ConfigMap of its own into every namespace, and the history of ended jobs is
    # written some time after them.
    others = ("kube-root-ca", "swell-history-")
    kept = [one for one in owned if not any(other in one for other in others)]
    return {"jobs": jobs, "owned": kept}


def _masked(job: Body) -> Body:
    status = job.get("status", {})
    kept = ("phase", "reason", "restartCounts", "uncharged", "targetReplicas", "restarts")
    return {name: status.get(name) for name in kept}
