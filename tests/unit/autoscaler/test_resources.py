"""What counts, where, and how much: the cluster's resources."""

from __future__ import annotations

import pytest

from swell.api.codec import convert
from swell.api.core import Node
from swell.api.meta import Body, Key
from swell.api.pod import Pod, PodSpec
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.job_state import REFUSED_FOR_QUEUE
from swell.autoscaler.needs import NeedsReader
from swell.autoscaler.plan import inquiry_resource
from swell.scheduler.model.reasons import WaitReason as SchedulerReason
from tests.autoscaler_cases import (
    GI,
    a_group,
    a_job,
    a_node,
    a_pod,
    a_role,
    a_stranger,
    a_trainer,
    a_training_job,
    idle_on,
    look,
    objects_of,
)

NODE = a_node("n", cpu=8, memory="8Gi")
ROLE = a_role(1, 4, cpu="1", memory="1Gi")


def cpu(snapshot: AutoscalerSnapshot) -> tuple[int, int]:
    """Requested in all, and idle on node n."""
    return snapshot.cluster.of("cpu").requested, idle_on(snapshot.cluster, "n")["cpu"]


def test_totals_and_units() -> None:
    """Cpu in thousandths, memory in bytes, devices by number; pods a node takes are no amount."""
    node = a_node("n", cpu="1500m", memory="2Gi", gpu=2, pods=110)
    cluster = look(node, a_stranger("s", "n", cpu="250m", memory="1Gi", gpu=1)).cluster

    assert cluster.node_count == 1
    assert cluster.of("cpu").total == 1500
    assert (cluster.of("memory").total, cluster.of("memory").requested) == (2 * GI, GI)
    assert (cluster.gpu.total, cluster.gpu.limited) == (2, 1)
    assert idle_on(cluster, "n") == {"cpu": 1250, "memory": GI, "nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    "node", [a_node("n", ready=False, cpu=8), a_node("n", cordoned=True, cpu=8)]
)
def test_node_that_does_not_count_takes_its_pods_with_it(node: Node) -> None:
    """Not ready or cordoned: neither its amounts nor the pods bound to it count."""
    cluster = look(node, a_stranger("s", "n", cpu="1")).cluster

    assert cluster.node_count == 0
    assert (cluster.of("cpu").total, cluster.of("cpu").requested) == (0, 0)


def test_unbound_pod_counts_as_requested() -> None:
    """A pod that has no node yet presses on the cluster, and on no node."""
    assert cpu(look(NODE, a_stranger("s", cpu="2"))) == (2000, 8000)


@pytest.mark.parametrize(
    "pod",
    [
        a_stranger("s", "n", phase="Succeeded", cpu="2"),
        a_stranger("s", "n", phase="Failed", cpu="2"),
        a_stranger("s", "n", leaving=True, cpu="2"),
    ],
    ids=["succeeded", "failed", "leaving"],
)
def test_other_pods_count_unless_finished_or_leaving(pod: Pod) -> None:
    """Pods without a job count until they end or go."""
    assert cpu(look(NODE, pod)) == (0, 8000)


@pytest.mark.parametrize(
    ("pods", "restart", "expected"),
    [
        ([], "Never", (2000, 8000)),
        ([a_pod("a", "t", 0, "n", cpu="1")], "Never", (2000, 7000)),
        ([a_pod("a", "t", 0, cpu="1")], "Never", (2000, 8000)),
        ([a_pod("a", "t", 0, "n", leaving=True, cpu="1")], "Never", (2000, 8000)),
        ([a_pod("a", "t", 0, "gone", cpu="1")], "Never", (2000, 8000)),
        ([a_pod("a", "t", 0, "n", phase="Succeeded", cpu="1")], "Never", (1000, 8000)),
        ([a_pod("a", "t", 0, "n", phase="Failed", cpu="1")], "Never", (1000, 8000)),
        ([a_pod("a", "t", 0, "n", phase="Failed", cpu="1")], "OnFailure", (2000, 8000)),
        ([a_pod("a", "t", 5, "n", cpu="1")], "Never", (2000, 8000)),
        ([a_pod("a", "t", 0, "n", uid="another", cpu="1")], "Never", (3000, 7000)),
    ],
    ids=[
        "missing",
        "bound",
        "unbound",
        "leaving",
        "node does not count",
        "succeeded",
        "failed for good",
        "to be restarted",
        "above the target",
        "of a namesake",
    ],
)
def test_every_index_of_a_live_job_counts_once(
    pods: list[Pod], restart: str, expected: tuple[int, int]
) -> None:
    """At its node, or as an unbound pod, or not at all; never twice, whatever its pod does."""
    job = a_job("a", targets={"t": 2}, t=a_role(1, 4, cpu="1", restart=restart))

    assert cpu(look(NODE, job, *pods)) == expected


@pytest.mark.parametrize(
    ("status", "meta"),
    [
        ({"phase": "Succeed"}, {}),
        ({"phase": "Running"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ({"phase": "Terminating", "ending": {"phase": "Failed"}}, {}),
    ],
    ids=["final", "deleting", "ending"],
)
def test_pods_of_a_job_that_is_over_are_pods_like_others(status: Body, meta: Body) -> None:
    """Its missing replicas do not count; what still runs does."""
    body = {
        "metadata": {"name": "a", "namespace": "ns", "uid": "uid-a", **meta},
        "spec": {"replicaSpecs": {"t": a_role(3, 5, cpu="1")}},
        "status": {**status, "targetReplicas": {"t": 3}},
    }
    objects = objects_of(NODE, a_pod("a", "t", 0, "n", cpu="1"))
    objects.training_jobs.append(convert(body, type(a_job("x", t=ROLE))))

    assert cpu(inquiry_resource(objects)) == (1000, 7000)


@pytest.mark.parametrize(
    ("meta", "requested"),
    [({"deletionTimestamp": "2026-01-01T00:00:00Z"}, 1000), ({}, 3000)],
    ids=["deleting", "live"],
)
def test_pods_without_a_node_ask_for_nothing_once_their_job_is_deleted(
    meta: Body, requested: int
) -> None:
    """The garbage collector comes a moment later; the one that runs still holds its room."""
    body = {
        "metadata": {"name": "a", "namespace": "ns", "uid": "uid-a", **meta},
        "spec": {"replicaSpecs": {"t": a_role(3, 5, cpu="1")}},
        "status": {"phase": "Running", "targetReplicas": {"t": 3}},
    }
    pods = [a_pod("a", "t", 0, "n", cpu="1"), *(a_pod("a", "t", at, cpu="1") for at in (1, 2))]
    objects = objects_of(NODE, *pods)
    objects.training_jobs.append(convert(body, type(a_job("x", t=ROLE))))

    assert cpu(inquiry_resource(objects)) == (requested, 7000)


def test_pod_of_a_job_without_owner_is_known_by_its_labels() -> None:
    """A pod that names its job in labels only stands for its replica all the same."""
    pod = convert(
        {
            "metadata": {
                "name": "a-t-0",
                "namespace": "ns",
                "labels": {
                    "TrainingJobName": "a",
                    "TrainingJobReplicaName": "t",
                    "TrainingJobReplicaIndex": "0",
                },
            },
            "spec": {
                "nodeName": "n",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
            "status": {"phase": "Running"},
        },
        Pod,
    )

    assert cpu(look(NODE, a_job("a", t=a_role(1, 4, cpu="1")), pod)) == (1000, 7000)


def test_training_job_counts_its_three_roles() -> None:
    """Trainers by index; pserver and master by number, here still missing."""
    job = a_training_job("o", 1, 4, target=2, cpu="1")
    pods = [
        a_trainer("o", 0, "n", cpu="1"),
        a_trainer("o", 1, "n", phase="Failed", cpu="1"),
        a_trainer("o", 1, cpu="1"),
        a_trainer("o", 3, "n", cpu="1"),
    ]

    assert cpu(look(NODE, job, *pods)) == (2100, 7000)


def test_training_job_is_pending_while_a_pod_has_no_node() -> None:
    """An empty phase, or Creating with an unscheduled pod."""
    creating = a_training_job("o", phase="Creating", cpu="1")
    bound = look(NODE, creating, a_trainer("o", 0, "n", cpu="1"))
    unbound = look(NODE, creating, a_trainer("o", 0, cpu="1"))

    assert [job.is_pending for job in bound.jobs] == [False]
    assert [job.is_pending for job in unbound.jobs] == [True]
    assert [job.is_pending for job in look(NODE, a_training_job("o", phase="")).jobs] == [True]


# -- what a pod asks for --------------------------------------------------------------------------


def needs(**spec: object) -> dict[str, int]:
    return dict(NeedsReader().of(convert(spec, PodSpec)).requests)


def test_request_is_the_effective_one() -> None:
    """Containers together, init containers before them, sidecars beside both, overhead on top."""
    init = {"name": "i", "resources": {"requests": {"cpu": "3"}}}
    side = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    main = {"name": "m", "resources": {"requests": {"cpu": "1"}}}

    assert needs(containers=[main, main]) == {"cpu": 2000}
    assert needs(containers=[main], initContainers=[init]) == {"cpu": 3000}
    assert needs(containers=[main], initContainers=[side, init]) == {"cpu": 4000}
    assert needs(containers=[main], overhead={"cpu": "250m"}) == {"cpu": 1250}


def test_missing_request_is_the_limit() -> None:
    """A container that only states a limit asks for it."""
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}

    assert needs(containers=[{"name": "m", "resources": resources}]) == {
        "cpu": 1000,
        "memory": GI,
    }


def test_gpus_are_limits_summed_over_makes() -> None:
    """Of GPUs the limit counts, over all resources that are GPUs."""
    limits = {"nvidia.com/gpu": 1, "amd.com/gpu": 2, "example.com/gpu": 4}
    container = {"name": "m", "resources": {"limits": limits}}
    found = NeedsReader().of(convert({"containers": [container]}, PodSpec))
    other = NeedsReader(["example.com/gpu"]).of(convert({"containers": [container]}, PodSpec))

    assert (found.gpus, other.gpus) == (3, 4)


# -- hopeless jobs ------------------------------------------------------------------------------


def waiting(**role: object) -> AutoscalerSnapshot:
    job = a_job("w", phase="Pending", t=a_role(2, 4, **role))  # type: ignore[arg-type]
    return look(NODE, a_node("m", cpu=8, memory="8Gi"), job, a_pod("w", "t", 0, cpu="1"))


def test_pending_job_that_could_fit_presses() -> None:
    """Its minimum is within the totals and one replica fits an empty node."""
    snapshot = waiting(cpu="8")

    assert [(job.is_pending, job.is_hopeless) for job in snapshot.jobs] == [(True, False)]
    assert snapshot.cluster.of("cpu").requested == 1000 + 8000


@pytest.mark.parametrize(
    "role",
    [
        {"cpu": "9"},
        {"cpu": "6", "memory": "9Gi"},
        {"gpu": 1},
        {"cpu": "1", "spec": {"nodeSelector": {"zone": "nowhere"}}},
    ],
    ids=["no node is so big", "memory beyond any node", "no GPUs at all", "no node is accepted"],
)
def test_job_that_fits_nowhere_presses_on_nobody(role: Body) -> None:
    """Hopeless: its unbound and missing pods do not count, nor does it count as pending."""
    snapshot = waiting(**role)

    assert [(job.is_pending, job.is_hopeless) for job in snapshot.jobs] == [(False, True)]
    assert snapshot.cluster.of("cpu").requested == 0


def test_job_with_a_minimum_beyond_the_total_is_hopeless() -> None:
    """Rigid roles with all their replicas, elastic ones with their minimum."""
    rigid = a_job("r", phase="Pending", t=a_role(9, 9, edl="Never", cpu="1"))
    large = a_job("l", phase="Pending", t=a_role(8, 99, cpu="1"))

    assert [job.is_hopeless for job in look(NODE, rigid).jobs] == [True]
    assert [job.is_hopeless for job in look(NODE, large).jobs] == [False]


@pytest.mark.parametrize(
    ("reason", "hopeless"),
    [
        ("QueueClosed", True),
        ("QueueNotFound", True),
        ("QueueQuotaExceeded", True),
        ("QueueTreeInvalid", True),
        # The job starts when another one ends.
        ("ClusterFull", False),
        ("NotEnoughResources", False),
        ("", False),
    ],
)
def test_job_refused_for_its_queue_is_hopeless(reason: str, hopeless: bool) -> None:
    """Room made by others does not open a queue."""
    job = a_job("w", phase="Pending", t=ROLE)

    assert [j.is_hopeless for j in look(NODE, job, a_group("w", reason=reason)).jobs] == [hopeless]


def test_refusal_is_over_with_the_first_bound_pod() -> None:
    """The scheduler writes that later than it binds: the others are about to take room."""
    job = a_job("w", phase="Pending", t=a_role(2, 4, cpu="1"))
    group = a_group("w", reason="QueueQuotaExceeded")
    snapshot = look(NODE, job, group, a_pod("w", "t", 0, "n", cpu="1"), a_pod("w", "t", 1, cpu="1"))

    assert [one.is_hopeless for one in snapshot.jobs] == [False]
    assert snapshot.cluster.of("cpu").requested == 2000


def test_reasons_of_refusal_are_the_schedulers() -> None:
    """The names are those the scheduler writes."""
    assert {reason.value for reason in SchedulerReason} >= REFUSED_FOR_QUEUE


def test_group_of_a_job_that_runs_does_not_wait() -> None:
    """The job decides, not its PodGroup; for groups without a job the group decides."""
    node = a_node("n", cpu=8)
    late = look(node, a_job("a", t=a_role()), a_group("a"), a_group("other", phase=""))
    restarting = look(node, a_job("a", phase="Restarting", t=a_role()), a_group("a"))
    pending = look(node, a_job("a", phase="Pending", t=a_role(cpu="1")), a_group("a", phase=""))

    assert late.waiting_groups == {Key("ns", "other")}
    assert restarting.waiting_groups == pending.waiting_groups == {Key("ns", "a")}


def test_bound_pods_of_a_hopeless_job_count() -> None:
    """What it has, it uses."""
    job = a_job("w", phase="Pending", t=a_role(9, 9, edl="Never", cpu="1"))

    assert cpu(look(NODE, job, a_pod("w", "t", 0, "n", cpu="1"))) == (1000, 7000)


def test_running_job_is_never_hopeless() -> None:
    """Only who waits can wait in vain."""
    assert [job.is_hopeless for job in look(a_job("a", t=ROLE)).jobs] == [False]


def test_job_with_a_malformed_template_is_left_out() -> None:
    """A job that cannot be read is reported by the operator, and hides no other job."""
    broken = a_job("b", t=a_role(cpu="much"))

    assert [job.view.id.name for job in look(NODE, broken, a_job("a", t=ROLE)).jobs] == ["a"]


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_only_what_a_pod_requires_of_others_matters_to_its_size(kind: str) -> None:
    """A preference keeps a replica from no node, so that nothing has to be tried for it."""
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}}
    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    reader = NeedsReader()

    assert not reader.of(convert({"affinity": {kind: preferred}}, PodSpec)).is_peculiar
    assert reader.of(convert({"affinity": {kind: {**preferred, **required}}}, PodSpec)).is_peculiar


@pytest.mark.parametrize(("rule", "matters"), [("ScheduleAnyway", False), ("DoNotSchedule", True)])
def test_only_a_binding_spread_matters_to_a_size(rule: str, *, matters: bool) -> None:
    """ScheduleAnyway is a preference, too."""
    spread = {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": rule}
    spec = convert({"topologySpreadConstraints": [spread]}, PodSpec)

    assert NeedsReader().of(spec).is_peculiar is matters
