"""A job and its surroundings as plain values, on which plans are carried out by hand.

A test says what the world is like (`a_job`, `Scene.running`, `Scene.fails`), looks once
(`Scene.look`) and asserts on the plan; or lets things take their course (`Scene.settle`).
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase, AITrainingJobStatus
from swell.api.codec import convert, to_body
from swell.api.core import ConfigMap, Node, NodeSpec, NodeStatus, Service, Taint
from swell.api.kinds import CONFIG_MAPS, NATIVE_GROUPS, POD_GROUPS, PODS, SERVICES
from swell.api.meta import Body, Condition, ObjectMeta, Uid
from swell.api.native_groups import NativeGroup
from swell.api.pod import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodPhase,
    PodStatus,
    StateTerminated,
    StateWaiting,
)
from swell.api.scheduling import PodGroup
from swell.api.times import format_time
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.decide import decide
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.mass_failure import MassFailure
from swell.operator.framework.reports import ReceivedReport
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


def a_role(**fields: object) -> Body:
    """A replica spec with one container of ours, which has one port."""
    container: Body = {
        "name": "aitj-main",
        "image": "local",
        "ports": [{"name": "aitj-2222", "containerPort": 2222}],
        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
    }
    return {**fields, "template": {"spec": {"containers": [container]}}}


def with_gpu(role: Body) -> Body:
    role["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    return role


def with_ports(role: Body, *ports: int) -> Body:
    named = [{"name": f"aitj-{port}", "containerPort": port} for port in ports]
    role["template"]["spec"]["containers"][0]["ports"] = named
    return role


def a_job(roles: dict[str, Body] | None = None, /, **spec: object) -> AITrainingJob:
    """A job `fit` in namespace `team`, as the API server hands it over."""
    body: Body = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {
            "name": "fit",
            "namespace": "team",
            "uid": UID,
            "resourceVersion": "1",
            "generation": 1,
            "finalizers": [labels.FINALIZER],
        },
        "spec": {"replicaSpecs": roles or {"trainer": a_role(replicas=2)}, **spec},
    }
    return convert(body, AITrainingJob)


class Scene:
    """See the module's docstring. Times are seconds after the job's submission."""

    def __init__(self, job: AITrainingJob, **settings: object) -> None:
        self.job = job
        self.now = START
        self.pods: dict[str, Pod] = {}
        self.unread: frozenset[str] = frozenset()
        self.services: dict[str, Service] = {}
        self.group: PodGroup | None = None
        self.native_groups: dict[str, NativeGroup] = {}
        self.native_served = False
        self.members: ConfigMap | None = None
        self.nodes: dict[str, NodeState] = {}
        self.problems: tuple[str, ...] = ()
        self.priority_class_found = True
        self.gang_served = True
        self.refused = ""
        self.no_pods_before = 0.0
        self.settings = AITrainingJobSettings(**settings)  # type: ignore[arg-type]
        self.secrets: set[str] = set()
        self.report: ReceivedReport | None = None
        self.mass_failure: MassFailure | None = None
        self._n_made = 0

    # -- looking -----------------------------------------------------------------------------

    @property
    def status(self) -> AITrainingJobStatus:
        return self.job.status

    @property
    def snapshot(self) -> AITrainingJobSnapshot:
        return AITrainingJobSnapshot(
            job=self.job,
            pods=tuple(self.pods.values()),
            unread=self.unread,
            services=tuple(self.services.values()),
            group=self.group,
            members=self.members,
            nodes=self.nodes,
            problems=self.problems,
            priority_class_found=self.priority_class_found,
            gang_served=self.gang_served,
            native_groups=tuple(self.native_groups.values()),
            native_served=self.native_served,
            report=self.report,
            mass_failure=self.mass_failure,
            refused=self.refused,
            no_pods_before=self.no_pods_before,
            settings=self.settings,
        )

    def look(self) -> Plan:
        return decide(self.snapshot, self.now)

    def settle(self) -> Scene:
        """Carry out plans until there is nothing left to do."""
        for _ in range(20):
            plan = self.look()
            writes = [a for a in plan.each_action() if not isinstance(a, EmitEvent)]
            if not writes:
                return self
            for action in writes:
                self.apply(action)
        raise AssertionError(f"never settles: {self.look()}")

    # -- the course of things ----------------------------------------------------------------

    def running(self) -> Scene:
        """Every pod is created, bound to a node of its own number, and runs."""
        self.settle()
        for name in self.pods:
            self.starts(name)
        return self.settle()

    def after(self, seconds: float) -> Scene:
        self.now += seconds
        return self

    def binds(self, name: str, node: str = "") -> None:
        pod = self.pods[name]
        host = node or f"node-of-{name}"
        self.nodes.setdefault(host, NodeState(a_node(host)))
        at = Condition(
            type="PodScheduled", status="True", last_transition_time=format_time(self.now)
        )
        self.pods[name] = replace(
            pod,
            spec=replace(pod.spec, node_name=host),
            status=replace(pod.status, conditions=(at,)),
        )

    def starts(self, name: str, node: str = "") -> None:
        if not self.pods[name].spec.node_name:
            self.binds(name, node)
        self._set(name, phase=PodPhase.RUNNING)

    def succeeds(self, *names: str) -> Scene:
        for name in names:
            self._ends(name, PodPhase.SUCCEEDED, {"aitj-main": 0})
        return self

    def fails(self, *names: str, codes: dict[str, int] | None = None, **status: object) -> Scene:
        for name in names:
            self._ends(name, PodPhase.FAILED, codes or {"aitj-main": 1}, **status)
        return self

    def waits(self, name: str, reason: str) -> None:
        """A container of the pod cannot be created."""
        state = ContainerState(waiting=StateWaiting(reason=reason, message="oh"))
        held = (ContainerStatus(name="aitj-main", state=state),)
        self._set(name, phase=PodPhase.PENDING, container_statuses=held)

    def leaves(self, name: str) -> None:
        """Somebody deletes the pod; it is still there."""
        meta = replace(self.pods[name].metadata, deletion_timestamp=format_time(self.now))
        self.pods[name] = replace(self.pods[name], metadata=meta)

    def goes(self, *names: str) -> Scene:
        for name in names:
            del self.pods[name]
        return self

    def leavers_go(self) -> Scene:
        """Every pod that is being deleted is gone now."""
        gone = [n for n, pod in self.pods.items() if pod.metadata.deletion_timestamp]
        return self.goes(*gone)

    def annotate(self, key: str, text: str) -> Scene:
        meta = replace(self.job.metadata, annotations={**self.job.metadata.annotations, key: text})
        self.job = replace(self.job, metadata=meta)
        return self

    def edit(self, **spec: object) -> Scene:
        """Change the spec, as a user does."""
        meta = replace(self.job.metadata, generation=self.job.metadata.generation + 1)
        changed = convert(_merged(to_body(self.job.spec), spec), type(self.job.spec))
        self.job = replace(self.job, metadata=meta, spec=changed)
        return self

    def edit_role(self, role: str, **fields: object) -> Scene:
        return self.edit(replicaSpecs={role: fields})

    def target(self, role: str, size: int) -> Scene:
        """As the autoscaler writes it."""
        status = replace(self.status, target_replicas={**self.status.target_replicas, role: size})
        self.job = replace(self.job, status=status)
        return self

    def delete(self) -> Scene:
        meta = replace(self.job.metadata, deletion_timestamp=format_time(self.now))
        self.job = replace(self.job, metadata=meta)
        return self

    # -- carrying out ------------------------------------------------------------------------

    def apply(self, action: Action) -> None:
        match action:
            case CreateObject(dry_run=True):
                return
            case CreateObject():
                self._create(action)
            case PatchStatus(status=change):
                merged = _merged(to_body(self.job.status), change)
                self._write_job(status=convert(merged, AITrainingJobStatus))
            case PatchObject(resource, _, patch):
                body = patch.body
                assert isinstance(body, dict)
                self._patch(resource.plural, body)
            case DeleteObject():
                self._delete(action)
            case IssueSecret():
                name = action.secret["metadata"]["name"]
                assert name not in self.secrets, f"{name} is there"
                self.secrets.add(name)
                self._patch("", {"metadata": {"annotations": {action.annotation: "token"}}})
            case DeleteSecret(key=key):
                self.secrets.discard(key.name)

    def _create(self, action: CreateObject) -> None:
        self._n_made += 1
        body = _merged(
            action.body,
            {
                "metadata": {
                    "uid": f"uid-{self._n_made}",
                    "resourceVersion": "1",
                    "creationTimestamp": format_time(self.now),
                }
            },
        )
        name = action.key.name
        if action.resource.group == NATIVE_GROUPS.group:
            assert name not in self.native_groups, f"{name} is there"
            self.native_groups[name] = convert(body, NativeGroup)
            return
        match action.resource.plural:
            case PODS.plural:
                assert name not in self.pods, f"{name} is there"
                self.pods[name] = convert(body, Pod)
            case SERVICES.plural:
                self.services[name] = convert(body, Service)
            case POD_GROUPS.plural:
                self.group = convert(body, PodGroup)
            case CONFIG_MAPS.plural:
                self.members = convert(body, ConfigMap)

    def _patch(self, plural: str, body: Body) -> None:
        if plural == POD_GROUPS.plural:
            self.group = convert(_merged(to_body(self.group), body), PodGroup)
        elif plural == CONFIG_MAPS.plural:
            self.members = convert(_merged(to_body(self.members), body), ConfigMap)
        elif plural == PODS.plural:
            uid = body["metadata"]["uid"]
            found = next(pod for pod in self.pods.values() if pod.metadata.uid == uid)
            meta = convert(_merged(to_body(found.metadata), body["metadata"]), ObjectMeta)
            self.pods[meta.name] = replace(found, metadata=meta)
        else:
            merged = _merged(to_body(self.job.metadata), body["metadata"])
            self._write_job(metadata=convert(merged, ObjectMeta))

    def _delete(self, action: DeleteObject) -> None:
        name = action.key.name
        if action.resource.group == NATIVE_GROUPS.group:
            del self.native_groups[name]
            return
        match action.resource.plural:
            case PODS.plural:
                pod = self.pods[name]
                assert pod.metadata.uid == action.uid
                lives = pod.spec.node_name and pod.status.phase in {
                    PodPhase.RUNNING,
                    PodPhase.PENDING,
                }
                if lives and action.grace_s is None:
                    self.leaves(name)
                else:
                    del self.pods[name]
            case SERVICES.plural:
                del self.services[name]
            case POD_GROUPS.plural:
                self.group = None
            case CONFIG_MAPS.plural:
                self.members = None

    def _write_job(self, **changes: object) -> None:
        job = msgspec.structs.replace(self.job, **changes)
        meta = replace(job.metadata, resource_version=str(int(job.metadata.resource_version) + 1))
        self.job = replace(job, metadata=meta)

    def _ends(self, name: str, phase: PodPhase, codes: dict[str, int], **status: object) -> None:
        held = tuple(
            ContainerStatus(
                name=container,
                state=ContainerState(
                    terminated=StateTerminated(
                        exit_code=code,
                        reason="Error" if code else "Done",
                        finished_at=format_time(self.now),
                    )
                ),
            )
            for container, code in codes.items()
        )
        self._set(name, phase=phase, container_statuses=held, **status)

    def _set(self, name: str, **status: object) -> None:
        pod = self.pods[name]
        changed: PodStatus = msgspec.structs.replace(pod.status, **status)
        self.pods[name] = replace(pod, status=changed)


def a_node(name: str, *, ready: bool = True, condition: str = "", taint: str = "") -> Node:
    conditions = [Condition(type="Ready", status="True" if ready else "Unknown")]
    if condition:
        conditions.append(Condition(type=condition, status="True"))
    taints = (Taint(key=taint, effect="NoExecute"),) if taint else ()
    return Node(spec=NodeSpec(taints=taints), status=NodeStatus(conditions=tuple(conditions)))


def created(plan: Plan, plural: str = "pods") -> list[str]:
    """Names of what a plan creates, in order."""
    return [
        a.key.name
        for a in plan.each_action()
        if isinstance(a, CreateObject) and a.resource.plural == plural and not a.dry_run
    ]


def deleted(plan: Plan, plural: str = "pods") -> list[str]:
    return [
        a.key.name
        for a in plan.each_action()
        if isinstance(a, DeleteObject) and a.resource.plural == plural
    ]


def forced(plan: Plan) -> list[str]:
    return [
        a.key.name for a in plan.each_action() if isinstance(a, DeleteObject) and a.grace_s == 0
    ]


def recorded(plan: Plan) -> Body:
    """The status a plan writes; empty when it writes none."""
    return next((a.status for a in plan.each_action() if isinstance(a, PatchStatus)), {})


def reported(plan: Plan) -> list[str]:
    """Reasons of the events a plan emits."""
    return [a.reason for a in plan.each_action() if isinstance(a, EmitEvent)]


def body_of(plan: Plan, plural: str, name: str = "") -> Body:
    """What a plan creates of a kind, under a name if there are several."""
    return next(
        a.body
        for a in plan.each_action()
        if isinstance(a, CreateObject)
        and a.resource.plural == plural
        and not a.dry_run
        and (not name or a.key.name == name)
    )


def phases(scene: Scene) -> list[AITrainingJobPhase]:
    return [record.phase for record in scene.status.phase_history]


def _merged(old: Body, change: Body) -> Body:
    """A JSON merge patch."""
    result = dict(old)
    for name, value in change.items():
        held = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = _merged(held if isinstance(held, dict) else {}, value)
        else:
            result[name] = value
    return result
