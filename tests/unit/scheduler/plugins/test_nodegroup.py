"""The plugin nodegroup: the groups of nodes that a queue uses, prefers, and may fill."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swell.api import codec
from swell.api.core import Node
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.scheduler.config import Config, PluginOption
from swell.scheduler.config_file import parse
from swell.scheduler.cycle import KNOWN, run_cycle
from swell.scheduler.plan import SchedulerObjects
from swell.scheduler.plugins import PLUGINS
from swell.scheduler.plugins.nodegroup import GROUP_LABEL, LIMITS_ANNOTATION
from swell.scheduler.session import Session

Body = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node(name: str, group: str | None, cpu: str = "8") -> Node:
    labels = {} if group is None else {GROUP_LABEL: group}
    body: Body = {
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return codec.convert(body, Node)


def queue(name: str = "q", notes: Body | None = None, parent: str = "", **lists: Any) -> Queue:
    affinity: Body = {}
    if lists:
        affinity["nodeGroupAffinity"] = {
            REQUIRED: lists.get("required", []),
            PREFERRED: lists.get("preferred", []),
        }
        affinity["nodeGroupAntiAffinity"] = {
            REQUIRED: lists.get("forbidden", []),
            PREFERRED: lists.get("avoided", []),
        }
    spec: Body = {"affinity": affinity} if lists else {}
    meta = {"name": name, "annotations": notes or {}}
    return codec.convert({"metadata": meta, "spec": {**spec, "parent": parent}}, Queue)


def pods(n: int, on: str = "", prefix: str = "p", queue_name: str = "q") -> tuple[Any, list[Pod]]:
    group = {"metadata": {"name": prefix, "namespace": "ns"}}
    spec = {"minMember": 1, "queue": queue_name}
    phase = {"phase": "Running" if on else "Inqueue"}
    made = [
        codec.convert(
            {
                "metadata": {
                    "name": f"{prefix}-{at}",
                    "namespace": "ns",
                    "annotations": {"scheduling.k8s.io/group-name": prefix},
                },
                "spec": {
                    "schedulerName": "swell",
                    "nodeName": on,
                    "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
                },
                "status": {"phase": "Running" if on else "Pending"},
            },
            Pod,
        )
        for at in range(n)
    ]
    return codec.convert({**group, "spec": spec, "status": phase}, PodGroup), made


def config(**settings: Any) -> Config:
    switches = {name: value for name, value in settings.items() if name == "enableHierarchy"}
    arguments = {name: value for name, value in settings.items() if name not in switches}
    row: Body = {"name": "nodegroup", **switches, "arguments": arguments}
    plugins = [{"name": "gang"}, {"name": "predicates"}, {"name": "nodeorder"}, row]
    parsed = parse({"actions": "allocate", "tiers": [{"plugins": plugins}]}, KNOWN)
    assert parsed.warnings == ()
    return parsed.config


def cluster(nodes: list[Node], queues: list[Queue], *jobs: tuple[Any, list[Pod]]) -> Any:
    return SchedulerObjects(
        nodes=nodes,
        queues=queues,
        groups=[group for group, _ in jobs],
        pods=[pod for _, made in jobs for pod in made],
    )


NO_GROUP, OTHER = None, "other"


@pytest.mark.parametrize(
    ("lists", "group", "strict", "allowed"),
    [
        ({}, NO_GROUP, True, False),
        ({}, NO_GROUP, False, True),
        ({}, "g", True, False),
        ({}, "g", False, False),
        ({"required": ["g"]}, NO_GROUP, True, False),
        ({"required": ["g"]}, NO_GROUP, False, False),
        ({"required": ["g"]}, "g", True, True),
        ({"preferred": ["g"]}, "g", True, True),
        ({"preferred": ["g"]}, OTHER, True, False),
        ({"required": ["g"], "forbidden": ["g"]}, "g", True, False),
        ({"preferred": ["g"], "forbidden": ["g"]}, "g", True, False),
        ({"forbidden": ["g"]}, OTHER, True, False),
        ({"avoided": ["g"]}, "g", True, True),
        ({"avoided": ["g"]}, OTHER, True, False),
        ({"forbidden": ["g"], "avoided": ["g"]}, "g", True, True),
    ],
)
def test_a_queue_uses_the_groups_of_its_lists(
    lists: Body, group: str | None, strict: bool, allowed: bool
) -> None:
    """Later lists win; a node without a group is for queues without lists, and if not strict."""
    objects = cluster([node("n", group)], [queue(**lists)], pods(1))
    plan = run_cycle(objects.snapshot(), config(strict=strict))
    message = plan.groups["ns/p"].refusal

    assert len(plan.binds) == allowed
    assert allowed or (message is not None and "of a node group" in message.message)


@pytest.mark.parametrize(
    ("lists", "ordered", "expected"),
    [
        ({"required": ["a"]}, False, [100, 0, 0]),
        ({"required": ["a"], "preferred": ["a", "b"]}, False, [150, 50, 0]),
        ({"preferred": ["a", "b"]}, True, [50, 25, 0]),
        ({"required": ["a"], "preferred": ["b", "a"]}, True, [125, 50, 0]),
        ({"required": ["a"], "preferred": ["a"], "avoided": ["a"]}, False, [-1, 0, 0]),
        ({}, False, None),
    ],
)
def test_scores_of_groups(lists: Body, ordered: bool, expected: list[float] | None) -> None:
    """100 for required, up to 50 more for preferred, and -1 for one to keep away from."""
    nodes = [node("a", "a"), node("b", "b"), node("c", None)]
    snapshot = cluster(nodes, [queue(**lists)], pods(1)).snapshot()
    option = config(enablePreferredOrder=ordered).tiers[0][-1]
    hooks = PLUGINS["nodegroup"](Session(snapshot, config(), PLUGINS), option)
    assert hooks.queue_score is not None
    found = hooks.queue_score(snapshot.queues["q"])

    assert (None if found is None else found.tolist()) == expected


@pytest.mark.parametrize(("hierarchy", "places"), [(True, {"n"}), (False, set())])
def test_affinity_is_inherited_in_a_tree(hierarchy: bool, places: set[str]) -> None:
    """A queue without lists takes those of its nearest ancestor that has some."""
    queues = [
        queue("root", required=["other"]),
        queue("top", parent="root", required=["g"]),
        queue("middle", parent="top"),
        queue("q", parent="middle"),
    ]
    objects = cluster([node("n", "g"), node("o", "other")], queues, pods(1))

    plan = run_cycle(objects.snapshot(), config(enableHierarchy=hierarchy))

    assert set(plan.binds.values()) == places


def limits(**amounts: str) -> Body:
    return {LIMITS_ANNOTATION: json.dumps({"gold": {"cpu": amounts["gold"]}})}


def test_what_exceeds_the_limit_of_a_group_goes_to_the_next() -> None:
    """What runs, and what the session has placed, counts; the other group has no limit."""
    gold = [node("gold", "gold"), node("gold-2", "gold")]
    owner = queue(notes=limits(gold="3"), required=["gold"], preferred=["tin"])
    objects = cluster([*gold, node("tin", "tin")], [owner], pods(1, "gold", "old"), pods(4))
    plan = run_cycle(objects.snapshot(), config())

    assert sorted(plan.binds.values()).count("tin") == 2
    assert sum(place.startswith("gold") for place in plan.binds.values()) == 2


def test_a_gang_that_exceeds_the_limit_waits_and_says_why() -> None:
    """The amounts are in the reason; a limit of an ancestor does not count for its children."""
    owner = queue(notes=limits(gold="2"), required=["gold"])
    group, made = pods(3)
    gang = codec.convert({**codec.to_body(group), "spec": {"minMember": 3, "queue": "q"}}, PodGroup)
    plan = run_cycle(cluster([node("n", "gold")], [owner], (gang, made)).snapshot(), config())
    refusal = plan.groups["ns/p"].refusal

    assert not plan.binds
    assert refusal is not None
    parent = queue("top", notes=limits(gold="2"), required=["gold"])
    queues = [parent, queue("q", parent="top")]
    objects = cluster([node("n", "gold")], queues, (gang, made))
    assert len(run_cycle(objects.snapshot(), config(enableHierarchy=True)).binds) == 3


def test_one_more_pod_than_the_limit_names_the_amounts() -> None:
    """The reason says what the queue holds of the group, and how much it may."""
    owner = queue(notes=limits(gold="1"), required=["gold"])
    objects = cluster([node("n", "gold")], [owner], pods(1, "n", "old"), pods(1))
    refusal = run_cycle(objects.snapshot(), config()).groups["ns/p"].refusal

    assert refusal is not None
    assert "where the queue is at its limit: gold (cpu 1 of 1)" in refusal.message


@pytest.mark.parametrize("text", ["{", '["gold"]', '{"gold": {"cpu": "much"}}'])
def test_a_queue_with_an_unreadable_limit_is_refused_everywhere(text: str) -> None:
    """Nobody knows what it may have; the reason names the annotation."""
    owner = queue(notes={LIMITS_ANNOTATION: text}, required=["gold"])
    plan = run_cycle(cluster([node("n", "gold")], [owner], pods(1)).snapshot(), config())
    refusal = plan.groups["ns/p"].refusal

    assert not plan.binds
    assert refusal is not None
    assert LIMITS_ANNOTATION in refusal.message


def test_pods_of_one_shape_in_two_queues_go_to_the_groups_of_each() -> None:
    """Scores are remembered by shape, and must not be those of another queue's pods."""
    queues = [queue("q", required=["a"]), queue("r", required=["b"])]
    nodes = [node("a", "a"), node("b", "b")]
    objects = cluster(nodes, queues, pods(3), pods(3, prefix="o", queue_name="r"))
    plan = run_cycle(objects.snapshot(), config())
    found = {(task.key[3], place) for task, place in plan.binds.items()}

    assert found == {("p", "a"), ("o", "b")}
    assert len(plan.binds) == 6


def test_nodes_that_change_their_group_are_seen() -> None:
    """The masks are made anew with the labels of the nodes."""
    snapshot = cluster([node("n", "a")], [queue(required=["b"])], pods(1)).snapshot()
    assert not run_cycle(snapshot, config()).binds
    snapshot.put_node(node("n", "b"))

    assert len(run_cycle(snapshot, config()).binds) == 1


def test_options_are_read_from_the_configuration() -> None:
    """Strict by default, without order."""
    option = PluginOption("nodegroup")
    snapshot = cluster([node("n", None)], [queue()], pods(1)).snapshot()
    hooks = PLUGINS["nodegroup"](Session(snapshot, config(), PLUGINS), option)
    assert hooks.queue_filter is not None
    found = hooks.queue_filter(snapshot.queues["q"])

    assert found is not None
    assert not found.any()
