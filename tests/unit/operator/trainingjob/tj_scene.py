"""A TrainingJob and its surroundings as plain values, on which plans are carried out by hand.

A test says what the world is like (`a_job`, `Scene.running`, `Scene.ends`), looks once
(`Scene.look`) and asserts on the plan; or lets things take their course (`Scene.settle`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from swell.api.codec import convert, to_body
from swell.api.core import ConfigMap
from swell.api.kinds import (
    CONFIG_MAPS,
    JOBS,
    NATIVE_GROUPS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    TRAINING_JOBS,
)
from swell.api.meta import Body, Condition, Key, Uid
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup
from swell.api.trainingjob import TrainingJob, TrainingJobPhase, TrainingJobStatus
from swell.api.workloads import Job, ReplicaSet
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.reports import ReceivedReport
from swell.operator.trainingjob.decide import decide
from swell.operator.trainingjob.kind import problems_of
from swell.operator.trainingjob.labels import COMPLETION_INDEX, FINALIZER
from swell.operator.trainingjob.settings import TrainingJobSettings
from swell.operator.trainingjob.snapshot import TrainingJobSnapshot
from swell.runtime.plan import (
    Action,
    CreateObject,
    DeleteObject,
    DeleteSecret,
    EmitEvent,
    IssueSecret,
    PatchObject,
    PatchStatus,
    Plan,
)

T = TypeVar("T")
START = 1_800_000_000.0
UID = Uid("job-uid")
STRUCTS: dict[str, type[msgspec.Struct]] = {
    str(REPLICA_SETS): ReplicaSet,
    str(JOBS): Job,
    str(POD_GROUPS): PodGroup,
    str(NATIVE_GROUPS): NativeGroup,
    str(PODS): Pod,
    str(CONFIG_MAPS): ConfigMap,
    str(TRAINING_JOBS): TrainingJob,
}


def a_job(**spec: object) -> TrainingJob:
    """A job `fit` in namespace `team`, as the API server hands it over."""
    whole: Body = {"image": "paddle", "trainer": {"min-instance": 2}, **spec}
    meta: Body = {
        "name": "fit",
        "namespace": "team",
        "uid": UID,
        "resourceVersion": "1",
        "generation": 1,
        "finalizers": [FINALIZER],
    }
    kind = {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob"}
    return convert({**kind, "metadata": meta, "spec": whole}, TrainingJob)


def elastic(least: int = 1, most: int = 4, **spec: object) -> TrainingJob:
    trainer = {"min-instance": least, "max-instance": most}
    return a_job(fault_tolerant=True, trainer=trainer, **spec)


@dataclass
class Scene:
    """See the module's docstring."""

    job: TrainingJob
    settings: TrainingJobSettings = field(default_factory=TrainingJobSettings)
    now: float = START
    gang_served: bool = True
    native_served: bool = False
    priority_class_found: bool = True
    refused: str = ""
    report: ReceivedReport | None = None
    nodes: dict[str, NodeState] = field(default_factory=dict)
    held: dict[tuple[str, str], Any] = field(default_factory=dict)
    n_made: int = 0
    secrets: list[IssueSecret] = field(default_factory=list)

    # -- looking -----------------------------------------------------------------------------

    @property
    def status(self) -> TrainingJobStatus:
        return self.job.status

    @property
    def snapshot(self) -> TrainingJobSnapshot:
        return TrainingJobSnapshot(
            job=self.job,
            master=self.held.get((str(REPLICA_SETS), "fit-master")),
            pserver=self.held.get((str(REPLICA_SETS), "fit-pserver")),
            trainer=self.held.get((str(JOBS), "fit-trainer")),
            group=self.held.get((str(POD_GROUPS), "fit")),
            native_group=self.held.get((str(NATIVE_GROUPS), "fit")),
            addresses=self.held.get((str(CONFIG_MAPS), "fit-addresses")),
            members=self.held.get((str(CONFIG_MAPS), "fit-members")),
            pods=tuple(self.pods()),
            nodes=self.nodes,
            problems=problems_of(self.job),
            priority_class_found=self.priority_class_found,
            gang_served=self.gang_served,
            native_served=self.native_served,
            refused=self.refused,
            report=self.report,
            settings=self.settings,
        )

    def look(self) -> Plan:
        return decide(self.snapshot, self.now)

    def pods(self, prefix: str = "") -> list[Pod]:
        kinds = [
            found
            for (kind, name), found in self.held.items()
            if kind == str(PODS) and name.startswith(prefix)
        ]
        return sorted(kinds, key=lambda pod: str(pod.metadata.name))

    @property
    def trainer(self) -> Job:
        found: Job = self.held[str(JOBS), "fit-trainer"]
        return found

    # -- the course of things ----------------------------------------------------------------

    def settle(self) -> Scene:
        """Carry out plans until there is nothing left to do."""
        for _ in range(20):
            actions = writes(self.look())
            if not actions:
                return self
            for action in actions:
                self.apply(action)
        raise AssertionError(f"never settles: {self.look()}")

    def running(self) -> Scene:
        """Every workload has its pods, all of them ready, and the job knows."""
        self.settle().populate()
        self.settle()
        assert self.status.phase is TrainingJobPhase.RUNNING
        return self

    def populate(self) -> Scene:
        """What the workload controllers and the nodes would do."""
        for name in ("fit-master", "fit-pserver"):
            found: ReplicaSet | None = self.held.get((str(REPLICA_SETS), name))
            if found is not None:
                self._populate_set(found)
        if (str(JOBS), "fit-trainer") in self.held:
            self._populate_job(self.trainer)
        return self

    def ends(self, index: int, phase: str, *, disrupted: bool = False) -> Scene:
        """A trainer ends so, and its record stays."""
        name = f"fit-trainer-{index}"
        conditions = [{"type": "DisruptionTarget", "status": "True"}] if disrupted else []
        ended = {"terminated": {"exitCode": 0 if phase == "Succeeded" else 3, "reason": "Error"}}
        self.change(
            PODS,
            name,
            {
                "spec": {"nodeName": "node-7"},
                "status": {
                    "phase": phase,
                    "conditions": conditions,
                    "containerStatuses": [{"name": "trainer", "state": ended}],
                },
            },
        )
        return self

    def job_says(self, *conditions: str, **status: object) -> Scene:
        """What the Job controller writes into the trainer Job."""
        held = [Condition(type=kind, status="True", reason=f"Job{kind}") for kind in conditions]
        self.held[str(JOBS), "fit-trainer"] = replace(
            self.trainer, status=replace(self.trainer.status, conditions=tuple(held), **status)
        )
        return self

    def deleted(self) -> Scene:
        meta = replace(self.job.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        self.job = replace(self.job, metadata=meta)
        return self

    def targets(self, target: int) -> Scene:
        """As the autoscaler does."""
        self.job = replace(self.job, status=replace(self.status, trainer_target=target))
        return self

    def pod(self, name: str, like: str, **meta: object) -> None:
        """Another pod of a workload, `like` one of its pods."""
        found: Pod = self.held[str(PODS), like]
        labels = {k: v for k, v in found.metadata.labels.items() if not k.endswith("-idx")}
        fresh = replace(found.metadata, name=name, uid=Uid(name), **{"labels": labels, **meta})
        self.held[str(PODS), name] = replace(found, metadata=fresh)

    def remove(self, resource: object, name: str) -> Scene:
        del self.held[str(resource), name]
        return self

    def change(self, resource: object, name: str, patch: Body) -> None:
        kind = STRUCTS[str(resource)]
        found = to_body(self.held[str(resource), name])
        self.held[str(resource), name] = convert(_merged(found, patch), kind)

    # -- writes ------------------------------------------------------------------------------

    def apply(self, action: Action) -> None:
        match action:
            case CreateObject(resource, body):
                self.n_made += 1
                meta = {**body["metadata"], "uid": f"uid-{self.n_made}", "resourceVersion": "1"}
                made = convert({**body, "metadata": meta}, STRUCTS[str(resource)])
                self.held[str(resource), action.key.name] = made
            case PatchStatus(_, _, _, status):
                self.job = convert(_merged(to_body(self.job), {"status": status}), TrainingJob)
            case PatchObject(resource, key, patch):
                assert isinstance(patch.body, dict)
                if str(resource) == str(TRAINING_JOBS):
                    self.job = convert(_merged(to_body(self.job), patch.body), TrainingJob)
                else:
                    self.change(resource, key.name, patch.body)
            case DeleteObject(resource, key):
                del self.held[str(resource), key.name]
            case IssueSecret():
                self.secrets.append(action)
                token = {"metadata": {"annotations": {action.annotation: "token"}}}
                self.job = convert(_merged(to_body(self.job), token), TrainingJob)
            case DeleteSecret():
                self.secrets.clear()
            case EmitEvent():
                return

    def _populate_set(self, found: ReplicaSet) -> None:
        name, size = found.metadata.name, found.spec.replicas
        for number in range(size):
            self._pod(found, f"{name}-{number}", {})
        for pod in self.pods(f"{name}-")[size:]:
            self.remove(PODS, pod.metadata.name)
        counts = {"replicas": size, "readyReplicas": size}
        self.change(REPLICA_SETS, name, {"status": counts})

    def _populate_job(self, found: Job) -> None:
        size = found.spec.parallelism
        for index in range(size):
            name = f"fit-trainer-{index}"
            if (str(PODS), name) not in self.held:
                self._pod(found, name, {COMPLETION_INDEX: str(index)})
        for pod in self.pods("fit-trainer-"):
            if int(pod.metadata.name.rpartition("-")[2]) >= size:
                self.remove(PODS, pod.metadata.name)
        self.change(JOBS, "fit-trainer", {"status": {"active": size, "ready": size}})

    def _pod(self, owner: ReplicaSet | Job, name: str, annotations: dict[str, str]) -> None:
        template = owner.spec.template
        reference = {
            "kind": owner.kind,
            "name": owner.metadata.name,
            "uid": owner.metadata.uid,
            "controller": True,
        }
        body: Body = {
            "metadata": {
                "name": name,
                "namespace": "team",
                "uid": f"{name}-uid",
                "resourceVersion": "1",
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [reference],
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": template["spec"],
            "status": {"phase": "Running"},
        }
        self.held[str(PODS), name] = convert(body, Pod)


def writes(plan: Plan) -> list[Action]:
    return [action for action in plan.each_action() if not isinstance(action, EmitEvent)]


def reported(plan: Plan) -> dict[str, EmitEvent]:
    """Events by reason."""
    return {a.reason: a for a in plan.each_action() if isinstance(a, EmitEvent)}


def recorded(plan: Plan) -> Body:
    """What is written into the status."""
    return next((a.status for a in plan.each_action() if isinstance(a, PatchStatus)), {})


def created(plan: Plan) -> dict[str, Body]:
    """Bodies by kind and name."""
    return {
        f"{a.resource.kind} {a.key.name}": a.body
        for a in plan.each_action()
        if isinstance(a, CreateObject)
    }


def deleted(plan: Plan) -> list[str]:
    return [
        f"{a.resource.kind} {a.key.name}" for a in plan.each_action() if isinstance(a, DeleteObject)
    ]


def patched(plan: Plan) -> dict[str, Body]:
    found: dict[str, Body] = {}
    for action in plan.each_action():
        if isinstance(action, PatchObject):
            assert isinstance(action.patch.body, dict)
            found[f"{action.resource.kind} {action.key.name}"] = action.patch.body
    return found


def key(name: str) -> Key:
    return Key("team", name)


def _merged(old: Body, patch: Body) -> Body:
    made = dict(old)
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, dict):
            held = made.get(name)
            made[name] = _merged(held if isinstance(held, dict) else {}, value)
        else:
            made[name] = value
    return made
