"""Pods that wait for nodes which they exclude come anew when these need not be avoided any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as changed

from msgspec.structs import replace

from swell.api.core import Node, Taint
from swell.api.meta import ObjectMeta
from swell.operator.aitrainingjob.decide import decide
from swell.operator.aitrainingjob.exclusions import held_off
from swell.operator.framework.fencing import NodeState
from swell.runtime.plan import EmitEvent, Plan
from tests.unit.operator.scene import Scene, a_job, a_node, a_role, with_gpu

T1 = "fit-trainer-1"
BAD = f"node-of-{T1}"


def waiting() -> Scene:
    """A job whose second pod has left a node with a broken GPU, and has no node yet."""
    role = with_gpu(a_role(replicas=2, restartPolicy="Always", restartScope="Pod"))
    scene = Scene(a_job({"trainer": role}), node_avoid_s=600.0).running()
    scene.nodes[BAD] = NodeState(a_node(BAD, condition="GPUUnhealthy"))
    scene.settle().leavers_go().settle()
    assert not scene.pods[T1].spec.node_name
    return scene


def named(name: str, *taints: Taint, ready: bool = True, cordoned: bool = False) -> Node:
    node = a_node(name, ready=ready)
    spec = replace(node.spec, taints=taints, unschedulable=cordoned)
    return replace(node, metadata=ObjectMeta(name=name), spec=spec)


def look(scene: Scene, nodes: Iterable[Node]) -> Plan:
    found = held_off(scene.job, scene.snapshot.pods, lambda: nodes)
    return decide(changed(scene.snapshot, held_off=found), scene.now)


def settle(scene: Scene, nodes: list[Node]) -> None:
    while writes := [a for a in look(scene, nodes).each_action() if not isinstance(a, EmitEvent)]:
        for action in writes:
            scene.apply(action)


def test_pod_without_another_node_comes_anew_when_the_avoidance_ends() -> None:
    """It is woken for that; the restart counts against no limit, and the others go on."""
    scene = waiting()
    first = scene.pods[T1].metadata.uid
    counts = dict(scene.status.uncharged)

    settle(scene, [named(BAD)])
    assert scene.pods[T1].metadata.uid == first
    assert look(scene.after(60), [named(BAD)]).wake_at == scene.now + 540
    settle(scene.after(541), [named(BAD)])
    settle(scene.after(300), [named(BAD)])

    assert scene.pods[T1].metadata.uid != first
    assert scene.pods[T1].spec.affinity is None
    assert scene.status.uncharged.get("trainer", 0) == counts.get("trainer", 0) + 1
    assert scene.pods["fit-trainer-0"].spec.node_name
    assert list(look(scene, [named(BAD)]).each_action()) == []


def test_clock_that_was_set_back_lengthens_no_avoidance() -> None:
    """A node that seems to be avoided for longer than nodes ever are is avoided no more."""
    scene = waiting()
    first = scene.pods[T1].metadata.uid
    scene.after(-2 * 3600)
    settle(scene, [named(BAD)])
    settle(scene.after(300), [named(BAD)])

    assert scene.pods[T1].metadata.uid != first
    assert scene.pods[T1].spec.affinity is None


def test_pod_with_another_node_stays() -> None:
    """It waits for room, and not for the node that it excludes."""
    scene = waiting()
    first = scene.pods[T1].metadata.uid
    settle(scene.after(601), [named(BAD), named("other")])

    assert scene.pods[T1].metadata.uid == first


def test_only_nodes_that_the_pod_could_use_count() -> None:
    """Ready, not cordoned, and without a taint that it does not tolerate."""
    scene = waiting()
    bad, taint = named(BAD), Taint(key="mine", effect="NoSchedule")

    for there, expected in (
        ([bad, named("other", ready=False)], {T1: {BAD}}),
        ([bad, named("other", taint)], {T1: {BAD}}),
        ([bad, named("other")], {}),
        ([named(BAD, cordoned=True)], {}),
        ([], {}),
    ):
        assert held_off(scene.job, scene.snapshot.pods, lambda there=there: there) == expected  # type: ignore[misc]
