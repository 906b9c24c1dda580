"""No role is raised beyond what its queue, an ancestor, or the nodes' other rules allow."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from swell.api.codec import convert
from swell.api.meta import Body
from swell.api.pod import Affinity, ContainerPort, Pod
from swell.autoscaler.policies.interface import RoleTarget, RoleTargets, SizeReason
from swell.scheduler.config import Config, PluginOption
from tests.autoscaler_cases import (
    Thing,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_role,
    a_stranger,
    decide,
    in_queue,
    look,
    sizes,
)

ROLE = a_role(1, 8, cpu="1", memory="1Gi")
NODE = a_node("n", cpu=100, memory="100Gi")
CAPACITY = Config(
    actions=("enqueue", "allocate"),
    tiers=((PluginOption("gang"), PluginOption("capacity", {"enableHierarchy": True})),),
)


def running(name: str, queue: str, n: int = 2, role: Body = ROLE) -> list[Thing]:
    """A running job in a queue, with its pods."""
    job = in_queue(a_job(name, targets={"t": n}, t=role), queue)
    return [job, *pods(name, n)]


def pods(name: str, n: int, node: str = "n") -> list[Pod]:
    return [a_pod(name, "t", index, node, cpu="1", memory="1Gi") for index in range(n)]


def the_target(targets: RoleTargets) -> RoleTarget:
    (target,) = targets.values()
    return target


@pytest.mark.parametrize("config", [None, CAPACITY], ids=["proportion", "capacity"])
def test_role_in_a_full_queue_stays_and_the_reason_has_the_numbers(config: Config | None) -> None:
    """A queue capped at what its role has allows no raise, by either plugin."""
    chosen = {} if config is None else {"scheduler": config}
    target = the_target(decide(look(NODE, a_queue("q", cpu=2), *running("a", "q"), **chosen)))

    assert (target.target, target.reason) == (2, SizeReason.QUEUE_REFUSES)
    assert target.message == "queue q is at its capability: cpu 2 of 2, 1 more asked for"


@pytest.mark.parametrize("amounts", [{"memory": "5Gi"}, {"cpu": "5"}, {"cpu": "5500m"}])
def test_role_grows_up_to_the_capability(amounts: dict[str, Any]) -> None:
    """A raise ends at the last replica that fits below the limit, and says why there."""
    target = the_target(decide(look(NODE, a_queue("q", **amounts), *running("a", "q"))))

    assert (target.target, target.reason) == (5, SizeReason.ROOM)
    assert "but not for 6: queue q is at its capability" in target.message


@pytest.mark.parametrize("name", ["gpu", "dongle"])
def test_devices_are_limited_as_well(name: str) -> None:
    """Limits of GPUs and other scalar resources count in whole devices."""
    one: dict[str, Any] = {name: 1}
    many: dict[str, Any] = {name: 50}
    few: dict[str, Any] = {name: 3}
    role = a_role(1, 8, cpu="1", **one)
    node = a_node("n", cpu=100, memory="100Gi", **many)
    own = [a_pod("a", "t", 0, "n", cpu="1", **one)]
    job = in_queue(a_job("a", targets={"t": 1}, t=role), "q")

    assert sizes(decide(look(node, a_queue("q", **few), job, *own))) == {"a/t": 3}


def test_every_ancestor_counts_with_all_below_it() -> None:
    """The limit of a queue two levels up counts, and what a sibling holds counts against it."""
    tree = [a_queue("top", cpu=6), a_queue("mid", parent="top"), a_queue("q", parent="mid")]
    sibling = [a_queue("other", parent="top"), *running("b", "other", 2, a_role(2, 3, edl="Never"))]
    found = decide(look(NODE, *tree, *sibling, *running("a", "q")))

    assert sizes(found) == {"a/t": 4}


@pytest.mark.parametrize("state", ["Closed", "Closing"])
@pytest.mark.parametrize("shut", ["q", "top"])
def test_queue_that_is_not_open_gets_nothing(state: str, shut: str) -> None:
    """A closed or closing queue, or one with such an ancestor, allows no raise."""
    queues = [
        a_queue("top", state=state if shut == "top" else ""),
        a_queue("q", parent="top", state=state if shut == "q" else ""),
    ]
    target = the_target(decide(look(NODE, *queues, *running("a", "q"))))

    assert (target.target, target.message) == (2, f"queue {shut} is not open")


def test_queue_that_does_not_exist_gets_nothing() -> None:
    """The scheduler places no pod of an unknown queue. The default queue is always there."""
    target = the_target(decide(look(NODE, *running("a", "gone"))))

    assert (target.target, target.message) == (2, "there is no queue gone")
    assert sizes(decide(look(NODE, *running("a", "default")))) == {"a/t": 8}


def test_jobs_of_one_queue_count_against_each_other() -> None:
    """Two roles raised in one pass share what the queue has left."""
    found = sizes(decide(look(NODE, a_queue("q", cpu=7), *running("a", "q"), *running("b", "q"))))

    assert found == {"a/t": 4, "b/t": 3}


def test_pods_that_wait_in_the_queue_count() -> None:
    """Room of a queue that pending pods are going to take is not given to a raise."""
    gang = in_queue(a_job("g", phase="Pending", t=a_role(3, 3, edl="Never", cpu="1")), "q")
    found = decide(look(NODE, a_queue("q", cpu=7), *running("a", "q"), gang))

    assert sizes(found) == {"a/t": 4}


def test_share_that_others_ask_for_is_theirs() -> None:
    """Proportion keeps the share of a queue for its pods even if those find no node."""
    node = a_node("n", cpu=12, memory="100Gi")
    # It can never start, so it does not press; but its queue asks for its share.
    hopeless = in_queue(a_job("g", phase="Pending", t=a_role(20, 20, edl="Never", cpu="1")), "b")
    asking = [a_pod("g", "t", index, cpu="1", memory="1Gi") for index in range(20)]
    queues = [a_queue("a"), a_queue("b")]
    found = decide(look(node, *queues, *running("a", "a", 2), hopeless, *asking))

    assert sizes(found) == {"a/t": 6}


def test_node_takes_no_more_pods_than_it_says() -> None:
    """Pod slots are counted, also those of other pods."""
    node = a_node("n", cpu=100, memory="100Gi", pods=5)

    assert sizes(decide(look(node, *running("a", "default"), a_stranger("s", "n")))) == {"a/t": 4}


def test_host_port_is_free_once_on_each_node() -> None:
    """A role with a host port gets one replica on each node at most."""
    role = a_role(1, 8, cpu="1")
    role["template"]["spec"]["containers"][0]["ports"] = [{"hostPort": 7000}]
    nodes = [a_node(f"n{n}", cpu=10, memory="100Gi") for n in range(3)]
    job = a_job("a", targets={"t": 1}, t=role)
    pod = a_pod("a", "t", 0, "n0", cpu="1")
    found = decide(look(*nodes, job, with_ports(pod, 7000)))

    assert sizes(found) == {"a/t": 3}
    assert sizes(decide(look(*nodes, a_job("a", targets={"t": 1}, t=role)))) == {"a/t": 3}


def with_ports(pod: Pod, port: int) -> Pod:
    (container,) = pod.spec.containers
    ported = replace(container, ports=(ContainerPort(host_port=port),))
    return replace(pod, spec=replace(pod.spec, containers=(ported,)))


def labelled(labels: Body, spec: Body) -> Body:
    role = a_role(1, 8, cpu="1", spec=spec)
    role["template"]["metadata"] = {"labels": labels}
    return role


def test_anti_affinity_of_own_and_of_other_pods_is_kept() -> None:
    """Replicas that keep apart get a node each; those that another pod keeps away get the rest."""
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [a_node(f"n{n}", cpu=10, memory="9Gi", labels={"host": f"n{n}"}) for n in range(3)]
    apart = a_job("a", targets={"t": 1}, t=labelled({"app": "x"}, {"affinity": required}))

    assert sizes(decide(look(*nodes, apart))) == {"a/t": 3}

    guard = a_stranger("guard", "n0", cpu="1")
    guard = replace(guard, spec=replace(guard.spec, affinity=convert(required, Affinity)))
    plain = a_job("b", targets={"t": 1}, t=labelled({"app": "x"}, {}))
    small = [a_node(f"n{n}", cpu=3, memory="9Gi", labels={"host": f"n{n}"}) for n in range(3)]
    # Two nodes of three cpus beside the one there is: the third has a pod that keeps it away.
    grown = sizes(decide(look(*small, plain, guard), "1"))["b/t"]

    assert grown == 7


def test_hard_topology_spread_is_kept() -> None:
    """A role does not grow into a zone that would be ahead of the other by more than the skew."""
    spread = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ]
    }
    nodes = [
        a_node("n0", cpu=10, memory="9Gi", labels={"zone": "a"}),
        a_node("n1", cpu=1, memory="9Gi", labels={"zone": "b"}),
    ]
    job = a_job("a", targets={"t": 1}, t=labelled({"app": "x"}, spread))
    found = sizes(decide(look(*nodes, job), "1"))

    # One in each zone, and one ahead: the small node is full.
    assert found == {"a/t": 3}
