"""Failures that are blamed on a node, and the nodes that new pods avoid for them."""

from __future__ import annotations

from dataclasses import replace as changed

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob, NodeFault
from swell.api.meta import Body, ObjectMeta
from swell.api.pod import ContainerState, ContainerStatus, PodPhase, StateTerminated
from swell.api.times import format_time
from swell.operator.aitrainingjob.decide import decide
from swell.operator.aitrainingjob.node_faults import roles_with_alternatives
from swell.operator.framework.fencing import NodeState
from swell.runtime.plan import CreateObject
from tests.unit.operator.scene import START, Scene, a_job, a_node, a_role, with_gpu

BAD = "node-of-fit-trainer-1"


def scene(**fields: object) -> Scene:
    again = {"restartPolicy": "Always", "restartScope": "Pod", **fields}
    return Scene(a_job({"trainer": a_role(replicas=3, **again)})).running()


def exits(scene: Scene, name: str, *, ran_s: float, ended_s: float = 0.0) -> None:
    """A pod fails after it ran for a while."""
    end = StateTerminated(
        exit_code=1,
        started_at=format_time(scene.now - ran_s),
        finished_at=format_time(scene.now + ended_s),
    )
    held = ContainerStatus(name="aitj-main", state=ContainerState(terminated=end))
    status = replace(scene.pods[name].status, phase=PodPhase.FAILED, container_statuses=(held,))
    scene.pods[name] = replace(scene.pods[name], status=status)


def comes_back(scene: Scene, node: str = BAD) -> None:
    scene.settle()
    scene.leavers_go().after(301).settle()
    for name, pod in scene.pods.items():
        if not pod.spec.node_name:
            scene.starts(name, node)
    scene.settle()


def faults(scene: Scene) -> list[tuple[str, str, bool]]:
    return [(one.node, one.reason, one.blamed) for one in scene.status.node_faults]


def test_second_early_exit_on_a_node_blames_it() -> None:
    """The first is evidence: programs fail for many reasons."""
    held = scene()
    exits(held, "fit-trainer-1", ran_s=20)
    comes_back(held)

    assert faults(held) == [(BAD, "PodFailed", False)]
    exits(held, "fit-trainer-1", ran_s=20)
    comes_back(held)

    assert faults(held) == [(BAD, "PodFailed", False), (BAD, "PodFailed", True)]


def test_exits_after_a_while_or_all_together_blame_nothing() -> None:
    """A program that trained, and a gang of which none ran on, fail by themselves."""
    held = scene()
    exits(held, "fit-trainer-1", ran_s=61)
    comes_back(held)
    assert faults(held) == []

    for name in list(held.pods):
        exits(held, name, ran_s=20)
    held.settle()
    assert faults(held) == []


def test_first_of_a_gang_is_evidence_if_the_others_followed() -> None:
    """They ran when it failed, and so the failure is its node's or its own."""
    held = scene(restartScope="All")
    for name, ended_s in (("fit-trainer-0", 3.0), ("fit-trainer-1", 0.0), ("fit-trainer-2", 4.0)):
        exits(held, name, ran_s=20, ended_s=ended_s)
    held.settle()

    assert faults(held) == [(BAD, "PodFailed", False)]


def test_lost_node_is_blamed_once_for_all_its_pods() -> None:
    """One failure of a node strikes several pods; a node that was taken away is no bad one."""
    held = Scene(a_job({"trainer": a_role(replicas=3, restartPolicy="Always")})).settle()
    for name in list(held.pods):
        held.starts(name, "a" if name != "fit-trainer-2" else "b")
    held.settle()
    held.nodes["a"] = NodeState(a_node("a"), unready_since=held.now - 60)
    held.nodes["b"] = NodeState(None)
    held.settle()

    assert faults(held) == [("a", "NodeLost", True)]


def test_job_that_ends_by_its_node_blames_it() -> None:
    """The fault is in the same write as the ending."""
    held = Scene(a_job({"trainer": a_role(replicas=2, restartPolicy="Never")})).running()
    held.nodes[BAD] = NodeState(a_node(BAD), unready_since=held.now - 60)
    held.look()
    held.settle()

    assert faults(held) == [(BAD, "NodeLost", True)]


def test_images_are_blamed_on_a_node_only_if_another_runs_them() -> None:
    """A wrong image fails everywhere; a container that cannot be created is the node's."""
    for reason, others_run, expected in (
        ("ImagePullBackOff", True, True),
        ("ImagePullBackOff", False, False),
        ("CreateContainerError", False, True),
        ("CreateContainerConfigError", True, False),
    ):
        held = scene() if others_run else Scene(a_job({"trainer": a_role(replicas=3)})).settle()
        held.binds("fit-trainer-1", BAD)
        held.waits("fit-trainer-1", reason)
        held.after(901).settle()

        assert [one.blamed for one in held.status.node_faults] == [True] * expected, reason


def test_broken_gpu_is_blamed_and_avoided_at_once() -> None:
    """As before, new pods keep away from the node for a time."""
    job = a_job({"trainer": with_gpu(a_role(replicas=2, restartPolicy="Always"))})
    held = Scene(job).running()
    held.nodes[BAD] = NodeState(a_node(BAD, taint="nvidia.com/gpu-unhealthy"))
    held.settle()

    assert faults(held) == [(BAD, "GPUFault", True)]
    assert [one.name for one in held.status.avoid_nodes] == [BAD]


def made(scene: Scene, n_faults: int, *, has_alternative: bool, trusted: str = "") -> Body:
    """The node affinity of the next pod of a job that has failed so often on one node."""
    at = format_time(START)
    fault = NodeFault(node=BAD, time=at, reason="NodeLost", blamed=True)
    status = replace(scene.status, node_faults=(fault,) * n_faults)
    scene.job = replace(scene.job, status=status)
    scene.goes("fit-trainer-1")
    for _ in range(3):
        snapshot = changed(
            scene.snapshot,
            trusted={BAD: trusted} if trusted else {},
            has_alternative=frozenset({"trainer"} if has_alternative else ()),
        )
        plan = decide(snapshot, scene.now)
        pods = [
            one
            for one in plan.each_action()
            if isinstance(one, CreateObject) and one.resource.plural == "pods"
        ]
        if pods:
            return dict(pods[0].body["spec"].get("affinity", {}).get("nodeAffinity", {}))
        for action in plan.each_action():
            scene.apply(action)
    raise AssertionError("no pod is made")


HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


def test_node_is_disliked_after_two_faults_and_excluded_after_three() -> None:
    """Excluded only while the role has another one, and neither when the node is trusted."""
    term = {"key": "metadata.name", "operator": "NotIn", "values": [BAD]}

    assert made(scene(), 1, has_alternative=True) == {}
    assert made(scene(), 2, has_alternative=True) == {
        SOFT: [{"weight": 100, "preference": {"matchFields": [term]}}]
    }
    assert made(scene(), 3, has_alternative=True) == {
        HARD: {"nodeSelectorTerms": [{"matchFields": [term]}]}
    }
    assert SOFT in made(scene(), 3, has_alternative=False)
    assert made(scene(), 3, has_alternative=True, trusted=format_time(START)) == {}
    assert made(scene().after(3 * 3600), 3, has_alternative=True) == {}


def test_alternative_is_a_node_that_pods_could_use() -> None:
    """Ready, not cordoned, with the right labels; the nodes on which it failed often are none."""
    role = a_role(replicas=1)
    role["template"]["spec"]["nodeSelector"] = {"pool": "a"}
    fault = NodeFault(node="bad", time=format_time(START), reason="NodeLost", blamed=True)
    job: AITrainingJob = a_job({"Trainer": role})
    job = replace(job, status=replace(job.status, node_faults=(fault,) * 3))

    def named(name: str, pool: str = "a", *, cordoned: bool = False, ready: bool = True) -> object:
        node = a_node(name, ready=ready)
        spec = replace(node.spec, unschedulable=cordoned)
        return replace(node, metadata=ObjectMeta(name=name, labels={"pool": pool}), spec=spec)

    for node, expected in (
        (named("good"), {"trainer"}),
        (named("bad"), set()),
        (named("good", "b"), set()),
        (named("good", cordoned=True), set()),
        (named("good", ready=False), set()),
    ):
        assert roles_with_alternatives(job, lambda node=node: [node]) == expected  # type: ignore[misc]
