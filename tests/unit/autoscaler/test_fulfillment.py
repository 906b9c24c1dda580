"""The fulfillment policy, sentence by sentence."""

from __future__ import annotations

from fractions import Fraction

import pytest

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Node
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.policies.dry_run import (
    CandidateRole,
    elastic,
    need_gpu,
    scale_all_jobs_dry_run,
    scale_dry_run,
    sorted_jobs,
)
from swell.autoscaler.policies.fulfillment import (
    find_jobs_that_might_be_rescheduled,
    find_pending_job,
    search_assignable_node,
)
from swell.autoscaler.policies.interface import MaxLoadError, SizeReason, parse_max_load
from swell.autoscaler.policies.room import Room
from tests.autoscaler_cases import (
    a_job,
    a_node,
    a_pod,
    a_role,
    a_stranger,
    a_training_job,
    decide,
    look,
    sizes,
)

FULL = Fraction(1)


def roles_of(snapshot: AutoscalerSnapshot) -> list[CandidateRole]:
    return [CandidateRole.of(job, state) for job in snapshot.jobs for state in job.roles]


def one_step(
    node: Node, role: Body, target: int, *others: Pod, down: bool = False, load: Fraction = FULL
) -> int:
    """What one step does to a running job that has one role."""
    snapshot = look(
        node, a_job("a", targets={"t": target}, t=role), *running(target, role), *others
    )
    room = Room(snapshot.cluster, load)
    return scale_dry_run(room, roles_of(snapshot)[0], 0, scale_down=down)


def running(n: int, role: Body, job: str = "a", node: str = "n") -> list[Pod]:
    requests = role["template"]["spec"]["containers"][0]["resources"]["requests"]
    amounts = {"gpu" if "gpu" in name else name: value for name, value in requests.items()}
    return [a_pod(job, "t", index, node, **amounts) for index in range(n)]


# -- the seed's table -------------------------------------------------------------------------

CPU = a_role(1, 3, cpu="1", memory="100Mi")
GPU = a_role(1, 3, cpu="1", memory="100Mi", gpu=1)


def test_satisfied_job_stays() -> None:
    """A role at its maximum is not changed in either direction while there is room."""
    node = a_node("n", cpu=10, memory="10Gi")

    assert one_step(node, CPU, 3) == 0
    assert one_step(node, CPU, 3, down=True) == 0


def test_more_cpu_grows_by_one() -> None:
    """Idle cpu on a node gives one more."""
    assert one_step(a_node("n", cpu=3, memory="10Gi"), CPU, 1) == 1


def test_no_more_cpu_stays() -> None:
    """Without cpu for one more nothing grows."""
    assert one_step(a_node("n", cpu=1, memory="10Gi"), CPU, 1) == 0


def test_more_gpu_grows_by_one() -> None:
    """A free GPU gives one more."""
    assert one_step(a_node("n", cpu=8, memory="10Gi", gpu=2), GPU, 1) == 1


def test_no_more_gpu_stays() -> None:
    """Without a free GPU nothing grows, however much cpu there is."""
    assert one_step(a_node("n", cpu=8, memory="10Gi", gpu=1), GPU, 1) == 0


def test_over_maximum_goes_down_by_one_or_to_maximum() -> None:
    """Above the maximum a step down takes one; the plan as a whole ends at the maximum."""
    node = a_node("n", cpu=20, memory="10Gi")
    snapshot = look(node, a_job("a", targets={"t": 8}, t=CPU), *running(8, CPU))

    assert one_step(node, CPU, 8, down=True) == -1
    assert one_step(node, CPU, 8) == -5
    assert sizes(decide(snapshot)) == {"a/t": 3}


def test_over_committed_cluster_shrinks_to_minimum_and_not_below() -> None:
    """However much too much is asked for, no role falls below its minimum."""
    role = a_role(2, 5, cpu="1", memory="100Mi")
    others = [a_stranger(f"s{n}", cpu="4") for n in range(10)]
    node = a_node("n", cpu=4, memory="10Gi")
    snapshot = look(node, a_job("a", targets={"t": 5}, t=role), *running(4, role), *others)

    assert sizes(decide(snapshot)) == {"a/t": 2}


def test_no_more_memory_stays() -> None:
    """Without memory for one more nothing grows."""
    assert one_step(a_node("n", cpu=8, memory="150Mi"), CPU, 1) == 0


@pytest.mark.parametrize(
    ("cpu", "current", "load", "change"),
    [(4, 1, "1", 2), (3, 1, "0.8", 1), (3, 3, "0.8", -1)],
    ids=["room for two", "room below the load", "above the load"],
)
def test_whole_plan_of_one_job(cpu: int, current: int, load: str, change: int) -> None:
    """One job of 1 to 3 that runs alone takes what the desired load leaves."""
    node = a_node("n", cpu=cpu, memory="10Gi")
    snapshot = look(node, a_job("a", targets={"t": current}, t=CPU), *running(current, CPU))
    planned = scale_all_jobs_dry_run(roles_of(snapshot), Room(snapshot.cluster, Fraction(load)))

    assert list(planned.values()) == [change]


# -- order --------------------------------------------------------------------------------------


def order(*jobs: AITrainingJob) -> list[str]:
    return [role.id.job.name for role in sorted_jobs(roles_of(look(*jobs)), elastic)]


def test_order_is_by_fulfillment() -> None:
    """Who is least fulfilled comes first, exactly: 1/3 before 34/100."""
    third = a_job("z", targets={"t": 2}, t=a_role(1, 4))
    more = a_job("a", targets={"t": 35}, t=a_role(1, 101))
    full = a_job("b", targets={"t": 2}, t=a_role(1, 2))

    assert order(full, more, third) == ["z", "a", "b"]


def test_order_among_equals_is_by_demand_then_by_name() -> None:
    """GPU limit, cpu request, memory request of one replica, all ascending, then the names."""
    jobs = [
        a_job("a", t=a_role(gpu=1)),
        a_job("b", t=a_role(cpu="2")),
        a_job("c", t=a_role(cpu="1", memory="2Gi")),
        a_job("f", t=a_role(cpu="1", memory="1Gi")),
        a_job("e", t=a_role(cpu="1", memory="1Gi")),
        a_job("d", namespace="zz", t=a_role(cpu="1", memory="1Gi")),
    ]

    assert order(*jobs) == ["e", "f", "d", "c", "b", "a"]


def test_filters_choose_who_is_ordered() -> None:
    """Only those that pass every filter are in the order: elastic ones that need GPUs."""
    roles = roles_of(
        look(a_job("a", t=a_role(gpu=1)), a_job("b", t=a_role()), a_job("c", t=a_role(2, 2, gpu=1)))
    )

    assert [role.id.job.name for role in sorted_jobs(roles, elastic, need_gpu)] == ["a"]
    assert [need_gpu(role) for role in roles] == [True, False, True]
    assert [elastic(role) for role in roles] == [True, True, False]


def test_order_is_computed_once_a_round() -> None:
    """Every candidate gets one before anybody gets a second, the least fulfilled first."""
    node = a_node("n", cpu=6, memory="10Gi")
    role = a_role(1, 9, cpu="1")
    jobs = [a_job(name, t=role) for name in ("a", "b")]
    pods = [*running(1, role, "a"), *running(1, role, "b")]

    assert sizes(decide(look(node, *jobs, *pods), "0.9")) == {"a/t": 3, "b/t": 2}


def test_shrinking_takes_from_the_most_fulfilled_first() -> None:
    """In reverse order: the most fulfilled and most demanding gives first."""
    node = a_node("n", cpu=8, memory="10Gi")
    role = a_role(1, 9, cpu="1")
    big, small = a_job("big", targets={"t": 7}, t=role), a_job("small", targets={"t": 3}, t=role)
    pods = [*running(7, role, "big"), *running(3, role, "small")]

    assert sizes(decide(look(node, big, small, *pods), "1")) == {"big/t": 6, "small/t": 2}


# -- going up -------------------------------------------------------------------------------------


def test_gpus_may_be_used_fully() -> None:
    """The desired load bounds cpu and memory; GPUs are bounded by their number."""
    node = a_node("n", cpu=100, memory="100Gi", gpu=3)
    role = a_role(1, 9, cpu="1", gpu=1)
    snapshot = look(node, a_job("a", t=role), *running(1, role))

    assert sizes(decide(snapshot, "0.5")) == {"a/t": 3}


def test_thresholds_are_exact() -> None:
    """The threshold is the floor of an exact product: 0.29 of 100 is 29, which a float misses."""
    role = a_role(1, 40, cpu="1m")
    snapshot = look(a_node("n", cpu="100m", memory="1Gi"), a_job("a", t=role), *running(1, role))

    assert int(100 * 0.29) == 28
    assert sizes(decide(snapshot, "0.29")) == {"a/t": 29}


def test_no_single_node_with_room_stays() -> None:
    """Room that is spread over nodes is no room."""
    nodes = [a_node(f"n{n}", cpu="1500m", memory="1Gi") for n in range(4)]
    role = a_role(1, 9, cpu="2")

    assert sizes(decide(look(*nodes, a_job("a", phase="Running", t=role)), "1")) == {"a/t": 1}


def test_first_node_by_name_is_taken_and_filled() -> None:
    """The first fitting node by name gets the replica, until it has no room."""
    nodes = [a_node("b", cpu=1, memory="1Gi"), a_node("a", cpu=2, memory="1Gi")]
    snapshot = look(*nodes, a_job("j", t=a_role(1, 9, cpu="1")))
    room = Room(snapshot.cluster, FULL)
    role = roles_of(snapshot)[0]
    found = []
    for _ in range(4):
        found.append(search_assignable_node(room, role))
        at = room.find(role.needs)
        if at >= 0:
            room.place(role.needs, at)

    assert found == ["a", "a", "b", ""]


@pytest.mark.parametrize(
    ("spec", "grows"),
    [
        ({}, False),
        ({"nodeSelector": {"zone": "a"}}, False),
        ({"tolerations": [{"key": "only", "operator": "Exists"}]}, True),
        (
            {"nodeSelector": {"zone": "b"}, "tolerations": [{"key": "only", "operator": "Exists"}]},
            False,
        ),
        (
            {
                "tolerations": [{"operator": "Exists"}],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "zone", "operator": "In", "values": ["a"]}
                                    ]
                                }
                            ]
                        }
                    }
                },
            },
            True,
        ),
    ],
)
def test_node_must_be_acceptable(spec: Body, grows: bool) -> None:
    """Selector, affinity and taints are respected when a node is looked for."""
    taint = {"key": "only", "value": "x", "effect": "NoSchedule"}
    node = a_node("n", cpu=8, memory="8Gi", labels={"zone": "a"}, taints=[taint])
    role = a_role(1, 2, spec=spec, cpu="1")

    assert sizes(decide(look(node, a_job("a", t=role)))) == {"a/t": 2 if grows else 1}


def test_below_minimum_is_raised_at_once_room_or_not() -> None:
    """A role below its minimum gets there, even on a full cluster."""
    role = a_role(4, 9, cpu="1")
    targets = decide(look(a_node("n", cpu=1, memory="1Gi"), a_job("a", targets={"t": 1}, t=role)))

    assert sizes(targets) == {"a/t": 4}
    assert [one.reason for one in targets.values()] == [SizeReason.BELOW_MINIMUM]


def test_extended_resources_bound_by_node_only() -> None:
    """A resource without a threshold still has to be there on a node."""
    node = a_node("n", cpu=8, memory="8Gi", dongle=2)
    role = a_role(1, 9, cpu="1", dongle=1)
    pod = a_pod("a", "t", 0, "n", cpu="1", dongle=1)

    assert sizes(decide(look(node, a_job("a", t=role), pod))) == {"a/t": 2}


# -- going down --------------------------------------------------------------------------------


def test_only_roles_that_ask_for_it_shrink() -> None:
    """Who asks nothing of an over-committed resource cannot help and stays."""
    node = a_node("n", cpu=4, memory="64Gi")
    cpu, memory = a_role(1, 5, cpu="2"), a_role(1, 5, memory="1Gi")
    jobs = [a_job("c", targets={"t": 3}, t=cpu), a_job("m", targets={"t": 3}, t=memory)]
    pods = [*running(3, cpu, "c"), *running(3, memory, "m")]

    assert sizes(decide(look(node, *jobs, *pods), "1")) == {"c/t": 2, "m/t": 5}


def test_idle_of_nodes_does_not_grow_by_shrinking() -> None:
    """Which pod will go is not known, so the same plan does not count on its room."""
    node = a_node("n", cpu=4, memory="64Gi")
    big, small = a_role(1, 5, cpu="3"), a_role(1, 5, cpu="1")
    jobs = [a_job("b", targets={"t": 2}, t=big), a_job("s", targets={"t": 1}, t=small)]
    pods = [a_pod("b", "t", 0, "n", cpu="3"), a_pod("s", "t", 0, "n", cpu="1")]

    assert sizes(decide(look(node, *jobs, *pods), "1")) == {"b/t": 1, "s/t": 1}


def test_enormous_target_is_planned_at_once() -> None:
    """A hostile size costs no more than a usual one."""
    node = a_node("n", cpu=4, memory="64Gi")
    role = a_role(1, 2_000_000_000, cpu="1")
    jobs = [
        a_job("a", targets={"t": 1_500_000_000}, t=role),
        a_job("b", targets={"t": 3}, t=a_role(1, 5, cpu="1")),
        a_job("c", t=a_role(1, 2_000_000_000)),
    ]

    assert sizes(decide(look(node, *jobs), "1")) == {"a/t": 3, "b/t": 1, "c/t": 2_000_000_000}


def test_tiny_replicas_are_planned_at_once() -> None:
    """Millions of replicas that ask for next to nothing cost no more than a few."""
    nodes = [a_node(f"n{n}", cpu=64, memory="64Gi") for n in range(3)]
    tiny, other = a_role(1, 2_000_000_000, memory="1"), a_role(1, 10**9, cpu="1m", memory="2")
    jobs = [a_job("a", t=tiny), a_job("b", t=other), a_job("c", t=a_role(1, 5, cpu="1"))]

    assert sizes(decide(look(*nodes, *jobs), "1")) == {
        "a/t": 2_000_000_000,
        "b/t": 192_000 - 5_000,
        "c/t": 5,
    }


# -- who is considered ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "considered"),
    [
        (a_job("a", t=a_role(1, 2)), True),
        (a_job("a", t=a_role(1, 2, edl="Manual")), False),
        (a_job("a", t=a_role(1, 2, edl="Never")), False),
        (a_job("a", t=a_role(2, 2)), False),
        (a_job("a", phase="Failed", t=a_role(1, 2)), False),
    ],
    ids=["auto", "manual", "never", "rigid", "final"],
)
def test_roles_considered(job: AITrainingJob, considered: bool) -> None:
    """Auto roles with something to choose, of jobs that are not over."""
    assert bool(decide(look(job))) == considered


def test_role_with_a_succeeded_pod_is_not_considered() -> None:
    """The last pods of a finishing role are not followed by new ones."""
    node = a_node("n", cpu=8, memory="8Gi")
    done = a_pod("a", "t", 0, "n", phase="Succeeded", cpu="1")

    assert decide(look(node, a_job("a", t=a_role(1, 4, cpu="1")), done)) == {}


def test_candidates_are_running_jobs_unless_somebody_waits() -> None:
    """Restarting jobs are left alone, until a pending job needs everybody's help."""
    node = a_node("n", cpu=8, memory="8Gi")
    resting = a_job("r", phase="Restarting", targets={"t": 7}, t=a_role(1, 9, cpu="1"))
    waiting = a_job("w", phase="Pending", t=a_role(3, 3, cpu="1", edl="Never"))

    assert sizes(decide(look(node, resting), "1")) == {"r/t": 7}
    assert sizes(decide(look(node, resting, waiting), "1")) == {"r/t": 5}


def test_role_that_is_no_candidate_keeps_a_target_outside_its_bounds() -> None:
    """Nothing is corrected while the job is not a candidate."""
    job = a_job("a", phase="Creating", targets={"t": 9}, t=a_role(1, 3))

    assert sizes(decide(look(a_node("n", cpu=1), job))) == {"a/t": 9}


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_job_is_pending_by_its_phase(phase: str) -> None:
    """An empty phase or Pending, and nothing else is looked at."""
    snapshot = look(a_node("n", cpu=8), a_job("a", phase=phase, t=a_role(cpu="1")))
    pending = find_pending_job(snapshot.jobs)

    assert pending is not None
    assert pending.view.id.name == "a"
    assert find_jobs_that_might_be_rescheduled(snapshot.jobs, have_pending=False) == []
    assert len(find_jobs_that_might_be_rescheduled(snapshot.jobs, have_pending=True)) == 1


def test_current_target_is_replicas_before_there_is_one() -> None:
    """Without a target in status the size is what the spec says."""
    job = a_job("a", phase="Creating", t=a_role(1, 9, replicas=4))
    fresh = look(a_node("n", cpu=1), job)
    trainer = look(a_node("n", cpu=1), a_training_job("o", 2, 5, phase="Scaling"))

    assert sizes(decide(fresh)) == {"a/t": 4}
    assert sizes(decide(trainer)) == {"o/trainer": 2}


def test_training_job_grows_like_any_other() -> None:
    """The older interface takes part, under its own name."""
    node = a_node("n", cpu=4, memory="4Gi")
    targets = decide(look(node, a_training_job("o", 1, 5, cpu="1")), "1")

    assert {str(id_.job): one.target for id_, one in targets.items()} == {"TrainingJob/ns/o": 3}


def test_shrinking_for_a_pending_job_names_its_group() -> None:
    """A shrink names the group that gets the room."""
    node = a_node("n", cpu=4, memory="4Gi")
    role = a_role(1, 4, cpu="1")
    waiting = a_job("w", phase="Pending", t=a_role(2, 2, edl="Never", cpu="1"))
    snapshot = look(node, a_job("a", targets={"t": 4}, t=role), *running(4, role), waiting)
    target = next(iter(decide(snapshot, "1").values()))

    assert (target.target, target.reason, target.for_group) == (2, SizeReason.PENDING_JOB, "ns/w")


@pytest.mark.parametrize("text", ["x", "nan", "1.01", "-1", ""])
def test_max_load_must_be_a_share(text: str) -> None:
    """A load is a number from 0 to 1."""
    with pytest.raises(MaxLoadError):
        parse_max_load(text)
