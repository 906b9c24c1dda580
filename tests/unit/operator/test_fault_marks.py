"""The marks and the taint of a node, as a plan."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.core import Node, NodeSpec, Taint
from swell.api.meta import Body, ObjectMeta, Uid
from swell.api.node_faults import FaultMark, FaultRecord, read_faults, written_faults
from swell.api.times import format_time
from swell.cli.objects.node_faults import with_fault_columns
from swell.cli.output import aligned
from swell.operator.framework.fault_marks import NodeCensus, plan_marks
from swell.operator.framework.settings import OperatorSettings
from swell.runtime.plan import EmitEvent, PatchObject, Plan

NOW = 1_800_000_000.0
CORDON = OperatorSettings(cordon_suspects=True)


def mark(job: str, ago_s: float = 0.0) -> FaultMark:
    time = format_time(NOW - ago_s)
    return FaultMark(job=f"team/{job}", time=time, reason="NodeLost", message="node a is lost")


def a_node(*marks: FaultMark) -> Node:
    meta = ObjectMeta(name="a", uid=Uid("u"), resource_version="7")
    if marks:
        meta = replace(meta, annotations=written_faults(FaultRecord(marks=marks)))
    return Node(metadata=meta, spec=NodeSpec(taints=(Taint(key="gpu", effect="NoSchedule"),)))


def patch_of(plan: Plan) -> Body:
    (write,) = (one for one in plan.each_action() if isinstance(one, PatchObject))
    assert isinstance(write.patch.body, dict)
    return write.patch.body


def events_of(plan: Plan) -> list[tuple[str, str]]:
    return [(one.reason, one.message) for one in plan.each_action() if isinstance(one, EmitEvent)]


def test_marks_are_added_with_the_version_that_was_read() -> None:
    """A mark that is there already costs no write."""
    plan = plan_marks(a_node(mark("a")), [mark("a"), mark("b")], OperatorSettings(), None, NOW)
    body = patch_of(plan)

    assert (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) == ("u", "7")
    assert read_faults(body["metadata"]["annotations"]).jobs(NOW) == ("team/a", "team/b")
    assert "spec" not in body
    assert events_of(plan) == [("FaultMarked", "team/b failed here: node a is lost")]
    assert plan_marks(a_node(mark("a")), [mark("a")], CORDON, None, NOW).actions == ()


def test_third_job_makes_a_suspect_which_is_tainted_only_on_request() -> None:
    """The other taints of the node stay, and events say why in words."""
    node, marks = a_node(mark("a"), mark("b")), [mark("c")]
    told = plan_marks(node, marks, OperatorSettings(), None, NOW)
    tainted = plan_marks(node, marks, CORDON, NodeCensus(5, 0), NOW)

    suspect = "3 jobs failed here: team/a, team/b, team/c; see: swell get nodes -o wide"
    assert "spec" not in patch_of(told)
    assert events_of(told)[1:] == [("SuspectNode", suspect)]
    assert patch_of(tainted)["spec"]["taints"] == [
        {"key": "gpu", "effect": "NoSchedule"},
        {"key": "elasticdeeplearning.ai/suspect", "value": "true", "effect": "NoSchedule"},
    ]
    assert events_of(tainted)[2] == (
        "SuspectCordoned",
        "no new pods go here, because 3 jobs failed on the node: team/a, team/b, team/c; taint "
        "elasticdeeplearning.ai/suspect, undone by: swell trust NODE",
    )


@pytest.mark.parametrize(("n_nodes", "n_tainted"), [(4, 0), (9, 1), (1, 0), (100, 20)])
def test_never_more_than_a_fifth_is_tainted(n_nodes: int, n_tainted: int) -> None:
    """The marks are written all the same, with the numbers that forbid the taint."""
    node, census = a_node(mark("a"), mark("b")), NodeCensus(n_nodes, n_tainted)
    plan = plan_marks(node, [mark("c")], CORDON, census, NOW)

    assert "spec" not in patch_of(plan)
    assert events_of(plan)[2] == (
        "SuspectNotCordoned",
        f"not tainted although 3 jobs failed here: {n_tainted} of {n_nodes} nodes are tainted as "
        "suspects, and one more would be more than 20%",
    )


def test_suspect_of_before_is_tainted_when_there_is_room() -> None:
    """It needs no new mark for that; one without a census is left as it is."""
    node = a_node(mark("a"), mark("b"), mark("c"))

    assert "spec" in patch_of(plan_marks(node, [], CORDON, NodeCensus(10, 1), NOW))
    assert plan_marks(node, [], CORDON, None, NOW).actions == ()
    assert plan_marks(node, [], CORDON, NodeCensus(10, 2), NOW).actions == ()


def test_columns_of_nodes() -> None:
    """The weight of the marks, and whether three jobs suspect the node."""
    marks = (mark("a"), mark("b", 3600), mark("c", 3600))
    bodies: list[Body] = [
        {"metadata": {"name": "a", "annotations": written_faults(FaultRecord(marks=marks))}},
        {"metadata": {"name": "b", "annotations": written_faults(FaultRecord(marks=marks[:1]))}},
        {"metadata": {"name": "c"}},
    ]
    shown = with_fault_columns([["NAME"], ["a"], ["b"], ["c"]], bodies, NOW)

    assert aligned(shown) == (
        "NAME   FAULTS   SUSPECT\n"
        "a      2.0      yes (3 jobs)\n"
        "b      1.0      no\n"
        "c      0        no"
    )
