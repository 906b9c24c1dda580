"""Admission to a full queue or cluster counts what the job could evict (`Claimable`)."""

from __future__ import annotations

from dataclasses import replace

from swell.api import codec
from swell.api.core import Node
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.scheduling import PodGroup, Queue
from swell.scheduler.config import DEFAULT, Config, PluginOption
from swell.scheduler.cycle import SchedulingPlan
from swell.scheduler.plan import SchedulerObjects, plan_schedule

# Both in one tier: a later tier is asked only if the first abstains.
BOTH = replace(DEFAULT, tiers=((PluginOption("overcommit"), *DEFAULT.tiers[0]), DEFAULT.tiers[1]))
AS_VOLCANO = replace(BOTH, action_arguments={})
BORN = "2026-01-01T00:00:00Z"


def _gang(name: str, queue: str, priority: str, *, node: str = "") -> tuple[PodGroup, list[Pod]]:
    """Returns two pods of two processors each, and a group as the operator creates it."""
    spec: Body = {
        "minMember": 2,
        "queue": queue,
        "priorityClassName": priority,
        "minResources": {"cpu": "4"},
    }
    meta = {"name": name, "namespace": "ns", "creationTimestamp": BORN}
    status = {"phase": "Running" if node else "Pending"}
    group: Body = {"metadata": meta, "spec": spec, "status": status}
    pods: list[Body] = [
        {
            "metadata": {
                "name": f"{name}-{index}",
                "namespace": "ns",
                "uid": f"{name}-{index}",
                "annotations": {"scheduling.k8s.io/group-name": name},
            },
            "spec": {
                "schedulerName": "swell",
                "nodeName": node,
                "containers": [{"name": "m", "resources": {"requests": {"cpu": "2"}}}],
            },
            "status": {"phase": status["phase"]},
        }
        for index in range(2)
    ]
    return codec.convert(group, PodGroup), [codec.convert(pod, Pod) for pod in pods]


def _plan(config: Config, waiting_in: str = "a", priority: str = "high") -> SchedulingPlan:
    """Plans for one node of four processors, held by a gang of queue `a`; another gang waits."""
    held, holders = _gang("held", "a", "low", node="n")
    waiting, preemptors = _gang("wanted", waiting_in, priority)
    allocatable = {"cpu": "4", "memory": "64Gi", "pods": "10"}
    ready = [{"type": "Ready", "status": "True"}]
    node = {"metadata": {"name": "n"}, "status": {"allocatable": allocatable, "conditions": ready}}
    objects = SchedulerObjects(
        nodes=[codec.convert(node, Node)],
        pods=[*holders, *preemptors],
        groups=[held, waiting],
        queues=[codec.convert({"metadata": {"name": name}}, Queue) for name in ("a", "b")],
        priority_classes=[
            codec.convert({"metadata": {"name": name}, "value": value}, PriorityClass)
            for name, value in (("low", 1), ("high", 1000))
        ],
    )
    return plan_schedule(objects, config)


def test_full_queue_admits_a_job_that_can_preempt() -> None:
    """A more important gang is admitted to a full queue, and gets its room."""
    for config in (DEFAULT, BOTH):
        plan = _plan(config)

        assert {eviction.task.key for eviction in plan.evictions} == {"ns/held-0", "ns/held-1"}


def test_full_queue_admits_no_job_of_equal_priority() -> None:
    """A job that could evict nothing waits to be admitted."""
    plan = _plan(DEFAULT, priority="low")

    assert plan.evictions == ()
    assert plan.groups["ns/wanted"].phase.value == "Pending"


def test_full_cluster_admits_a_job_that_can_reclaim() -> None:
    """A job of a queue below what it deserves is admitted to a cluster that others fill."""
    plan = _plan(BOTH, waiting_in="b", priority="low")

    assert plan.groups["ns/wanted"].phase.value == "Inqueue"


def test_without_the_argument_evictions_do_not_count() -> None:
    """A configuration that does not ask for it admits as Volcano does."""
    for queue in ("a", "b"):
        plan = _plan(AS_VOLCANO, waiting_in=queue)

        assert plan.evictions == ()
        assert plan.groups["ns/wanted"].phase.value == "Pending"
