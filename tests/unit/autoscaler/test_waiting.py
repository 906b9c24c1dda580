"""Roles shrink for a waiting job only if it can start then, and by as little as that takes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.policy import PriorityClass
from swell.api.training import TrainingSave, TrainingStatus
from swell.autoscaler.policies.fulfillment import WAITING_TRIED_MAX
from swell.autoscaler.policies.interface import SizeReason
from tests.autoscaler_cases import (
    Thing,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_role,
    decide,
    in_queue,
    look,
    sizes,
)


def elastic(
    name: str, n: int, minimum: int, node: str = "n", queue: str = "default"
) -> list[Thing]:
    role = a_role(minimum, 8, cpu="1")
    job = in_queue(a_job(name, targets={"t": n}, t=role), queue)
    return [job, *(a_pod(name, "t", index, node, cpu="1") for index in range(n))]


def gang(name: str, n: int, cpu: str = "1", queue: str = "default", priority: str = "") -> Thing:
    role = a_role(n, n, edl="Never", cpu=cpu)
    return in_queue(a_job(name, phase="Pending", t=role), queue, priority)


@pytest.mark.parametrize(("n_gang", "size"), [(4, 3), (3, 1)])
def test_nobody_shrinks_for_a_gang_that_cannot_start_even_then(n_gang: int, size: int) -> None:
    """Of four cpus a role keeps one at least: three can come free, and four cannot."""
    found = decide(look(a_node("n", cpu=4, memory="9Gi"), *elastic("a", 3, 1), gang("g", n_gang)))

    assert sizes(found) == {"a/t": size}


def test_elastic_job_that_cannot_start_says_why() -> None:
    """The reason of a blocked job has the numbers of its gang."""
    node = a_node("n", cpu=4, memory="9Gi")
    waiting = a_job("g", phase="Pending", t=a_role(4, 8, cpu="1"))
    found = {
        id_.job.name: one for id_, one in decide(look(node, *elastic("a", 3, 1), waiting)).items()
    }

    assert found["g"].reason is SizeReason.HOPELESS
    assert found["g"].message == (
        "the job cannot start now: even with every elastic role at its minimum there is room for "
        "3 of its 4 pods"
    )
    assert found["a"].target == 3


def test_pod_that_needs_a_whole_node_gets_one() -> None:
    """Room is freed where the gang can use it, not a little everywhere."""
    nodes = [a_node(f"n{n}", cpu=4, memory="9Gi") for n in range(2)]
    jobs = [*elastic("a", 4, 0, "n0"), *elastic("b", 4, 0, "n1")]
    found = sizes(decide(look(*nodes, *jobs, gang("g", 1, cpu="4")), "1"))

    assert sorted(found.values()) == [0, 4]


def test_role_whose_room_does_not_help_is_spared() -> None:
    """Only pods on nodes that the gang accepts make room for it."""
    nodes = [
        a_node("n0", cpu=4, memory="9Gi"),
        a_node("n1", cpu=4, memory="9Gi", labels={"disk": "ssd"}),
    ]
    role = a_role(2, 2, edl="Never", cpu="1", spec={"nodeSelector": {"disk": "ssd"}})
    waiting = a_job("g", phase="Pending", t=role)
    jobs = [*elastic("a", 4, 1, "n0"), *elastic("b", 3, 1, "n1")]
    found = sizes(decide(look(*nodes, *jobs, waiting), "1"))

    assert found == {"a/t": 4, "b/t": 2}


def test_gang_that_its_queue_refuses_makes_nobody_shrink() -> None:
    """A gang larger than its queue may become presses on no other."""
    node = a_node("n", cpu=4, memory="9Gi")
    things = [node, a_queue("q", cpu=1), *elastic("a", 4, 1), gang("g", 2, queue="q")]

    assert sizes(decide(look(*things), "1")) == {"a/t": 4}


def test_quota_is_freed_within_the_queue() -> None:
    """Where the waiting gang lacks quota, the role in its own queue makes room for it."""
    node = a_node("n", cpu=20, memory="90Gi")
    jobs = [*elastic("a", 4, 1, queue="q"), *elastic("b", 4, 1)]
    found = decide(look(node, a_queue("q", cpu=4), *jobs, gang("g", 2, queue="q")))
    target = next(one for id_, one in found.items() if id_.job.name == "a")

    assert (target.target, target.for_group) == (2, "ns/g")
    assert sizes(found)["b/t"] >= 4


def test_gangs_are_served_in_the_order_of_the_scheduler() -> None:
    """What can come free is for the more important gang; nothing more is freed for the other."""
    node = a_node("n", cpu=4, memory="9Gi")
    high = convert({"metadata": {"name": "high"}, "value": 10}, PriorityClass)
    jobs = [*elastic("a", 4, 2), gang("aa", 2), gang("zz", 2, priority="high")]
    found = decide(look(node, high, *jobs), "1")
    (target,) = found.values()

    assert (target.target, target.for_group) == (2, "ns/zz")


def test_room_is_kept_for_the_gang_that_waits() -> None:
    """While a gang waits for room to come free, no role grows into the room it is going to take."""
    nodes = [a_node("n0", cpu=4, memory="9Gi"), a_node("n1", cpu=4, memory="9Gi")]
    big = a_role(1, 2, cpu="2")
    other: list[Thing] = [a_job("b", targets={"t": 1}, t=big), a_pod("b", "t", 0, "n1", cpu="2")]
    found = sizes(
        decide(look(*nodes, *elastic("a", 4, 1, "n0"), *other, gang("g", 1, cpu="2")), "1")
    )

    assert found == {"a/t": 4, "b/t": 1}


def test_node_of_the_gang_that_waits_is_kept_where_there_is_room_elsewhere() -> None:
    """The sums have room for a replica; the one node that takes it is promised to the gang."""
    nodes = [a_node(f"n{n}", cpu=cpu, memory="9Gi") for n, cpu in enumerate((4, 1, 1))]
    role = a_role(1, 2, cpu="2")
    job: list[Thing] = [a_job("b", targets={"t": 1}, t=role), a_pod("b", "t", 0, "n0", cpu="2")]

    assert sizes(decide(look(*nodes, *job), "1")) == {"b/t": 2}
    assert sizes(decide(look(*nodes, *job, gang("g", 1, cpu="2")), "1")) == {"b/t": 1}


def test_only_the_first_of_very_many_waiting_jobs_are_tried() -> None:
    """What roles shrink for is decided by those; one far behind says how many are before it."""
    node = a_node("n", cpu=4, memory="9Gi")
    # Each could start alone, if the role shrank to one.
    gangs = [gang(f"g{n:03}", 3) for n in range(WAITING_TRIED_MAX)]
    last = a_job("h", phase="Pending", t=a_role(3, 8, cpu="1"))
    found = decide(look(node, *elastic("a", 4, 1), *gangs, last), "1")
    by_name = {id_.job.name: one for id_, one in found.items()}

    assert by_name["a"].target == 1
    assert by_name["h"].message == (
        f"the job cannot start now: {WAITING_TRIED_MAX} jobs wait before it"
    )


def test_waiting_jobs_are_not_tried_where_nothing_is_elastic() -> None:
    """No size can change, so nothing is decided."""
    assert decide(look(a_node("n", cpu=4, memory="9Gi"), gang("g", 3), gang("h", 3))) == {}


@pytest.mark.parametrize("cheap", ["a", "b"])
def test_role_of_the_job_that_saved_last_shrinks(cheap: str) -> None:
    """Of roles that are equally fulfilled, that with the least unsaved work gives up a replica."""
    jobs: list[Thing] = []
    for name in ("a", "b"):
        job, *pods = elastic(name, 2, 1)
        assert isinstance(job, AITrainingJob)
        time = "2026-01-01T05:00:00Z" if name == cheap else "2026-01-01T04:00:00Z"
        training = TrainingStatus(last_save=TrainingSave(step=1, time=time))
        status = replace(job.status, training=training)
        jobs += [replace(job, status=status), *pods]
    found = sizes(decide(look(a_node("n", cpu=4, memory="9Gi"), *jobs, gang("g", 1)), "1"))

    assert found == {"a/t": 2, "b/t": 2} | {f"{cheap}/t": 1}
