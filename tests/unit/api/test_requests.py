"""The effective request of a pod, case by case as Kubernetes documents it."""

from __future__ import annotations

import pytest

from swell.api.codec import convert
from swell.api.meta import Body
from swell.api.pod import PodSpec
from swell.api.requests import (
    Amounts,
    pod_limits,
    pod_requests,
    scheduling_amounts,
    template_requests,
)


def container(requests: Body | None = None, limits: Body | None = None, **more: object) -> Body:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def sidecar(**requests: object) -> Body:
    return container(requests, restartPolicy="Always")


def spec(*containers: Body, init: tuple[Body, ...] = (), **more: object) -> PodSpec:
    return convert({"containers": [*containers], "initContainers": [*init], **more}, PodSpec)


def written(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def test_containers_are_added_up() -> None:
    """Containers run together, so their requests add up, exactly."""
    pod = spec(container({"cpu": "100m", "memory": "1Gi"}), container({"cpu": 0.1, "gpu": 1}))

    assert written(pod_requests(pod)) == {"cpu": "200m", "memory": "1Gi", "gpu": "1"}


def test_limits_stand_in_for_missing_requests() -> None:
    """A resource that is only limited is requested up to its limit."""
    pod = spec(container({"cpu": 1}, {"cpu": 2, "memory": "1Gi"}))

    assert written(pod_requests(pod)) == {"cpu": "1", "memory": "1Gi"}
    assert written(pod_limits(pod)) == {"cpu": "2", "memory": "1Gi"}


def test_init_containers_count_only_where_greater() -> None:
    """Init containers run one after the other, before all others."""
    pod = spec(
        container({"cpu": 2, "memory": "1Gi"}),
        init=(container({"cpu": 3}), container({"memory": "512Mi", "disk": 1})),
    )

    assert written(pod_requests(pod)) == {"cpu": "3", "memory": "1Gi", "disk": "1"}


def test_sidecars_run_beside_all_that_follows() -> None:
    """A sidecar counts with the containers, and with init containers after it, not before."""
    pod = spec(
        container({"cpu": 1}),
        init=(container({"cpu": 4}), sidecar(cpu=2), container({"cpu": 3}), sidecar(cpu=1)),
    )

    # 4 alone; 2+3 beside the first sidecar; 1+2+1 in the end.
    assert written(pod_requests(pod)) == {"cpu": "5"}


def test_sidecars_and_containers_add_up() -> None:
    """When nothing before is greater, the end counts."""
    pod = spec(container({"cpu": 3}), init=(sidecar(cpu=2), sidecar(cpu=1)))

    assert written(pod_requests(pod)) == {"cpu": "6"}


def test_overhead_comes_on_top() -> None:
    """Overhead is added to requests, and to limits of what is limited."""
    pod = spec(
        container({"cpu": 1}, {"memory": "1Gi"}), overhead={"cpu": "250m", "memory": "120Mi"}
    )

    assert written(pod_requests(pod)) == {"cpu": "1250m", "memory": "1144Mi"}
    assert written(pod_limits(pod)) == {"memory": "1144Mi"}


def test_amounts_of_the_pod_as_a_whole_replace_the_sum() -> None:
    """A pod may state cpu, memory and huge pages for all its containers together."""
    pod = spec(
        container({"cpu": 1, "gpu": 1}),
        resources={"requests": {"cpu": 3}, "limits": {"memory": "2Gi", "gpu": 7}},
        overhead={"cpu": 1},
    )

    assert written(pod_requests(pod)) == {"cpu": "4", "gpu": "1", "memory": "2Gi"}
    assert written(pod_limits(pod)) == {"memory": "2Gi"}


def test_a_pod_without_wishes_asks_for_nothing() -> None:
    """No containers' resources, no request."""
    assert pod_requests(spec(container())) == {}
    assert template_requests({}) == {}
    assert pod_limits(PodSpec()) == {}


@pytest.mark.parametrize(
    ("name", "raw", "amount"),
    [
        ("cpu", "1500m", 1500),
        ("cpu", "0.1m", 1),
        ("memory", "1Ki", 1024),
        ("memory", "100m", 1),
        ("pods", "110", 110),
        ("nvidia.com/gpu", "2", 2000),
        ("ephemeral-storage", "1k", 1000),
        ("hugepages-2Mi", "4Mi", 4 * 2**20),
    ],
)
def test_scheduling_units(name: str, raw: str, amount: int) -> None:
    """cpu and devices count in thousandths, bytes and pods in units, always rounded up."""
    requested = template_requests({"spec": {"containers": [container({name: raw})]}})

    assert scheduling_amounts(requested) == {name: amount}
