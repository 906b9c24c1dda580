"""Vectors of resources: comparisons, shares and texts."""

from __future__ import annotations

import numpy as np
import pytest

from swell.scheduler.model.resources import (
    CPU,
    Dimensions,
    Shares,
    Vector,
    amount_line,
    amount_text,
    amount_texts,
    exceeds_on_relevant,
    excess,
    less_equal,
    less_equal_on,
    less_equal_on_some,
    quota_places,
)

GPU = "nvidia.com/gpu"
DIMENSIONS = Dimensions([GPU, "example.com/foo"])


def amounts(**named: str) -> Vector:
    return DIMENSIONS.vector({name.replace("gpu", GPU): text for name, text in named.items()})


def test_vector_counts_in_the_unit_of_the_resource() -> None:
    """cpu and devices in thousandths, memory in bytes, pods in pods."""
    vector = amounts(cpu="1500m", memory="1Ki", pods="3", gpu="2")

    assert vector[: len(DIMENSIONS.names)].tolist() == [1500, 1024, 3, 0, 2000]


@pytest.mark.parametrize(
    ("a", "b", "holds"),
    [
        ({"cpu": "1"}, {"cpu": "1"}, True),
        ({"cpu": "2"}, {"cpu": "1"}, False),
        ({"gpu": "1"}, {"cpu": "1"}, False),  # b has none of it
        ({"cpu": "1"}, {"cpu": "1", "gpu": "4"}, True),  # b has more kinds
        ({}, {}, True),
    ],
)
def test_less_equal_looks_at_every_dimension_of_a(
    a: dict[str, str], b: dict[str, str], holds: bool
) -> None:
    """A scalar that b lacks counts as 0; one that a lacks is ignored."""
    assert less_equal(amounts(**a), amounts(**b)) is holds


def test_less_equal_tolerates_a_tenth() -> None:
    """For nodes, a tenth of a unit makes no difference."""
    assert less_equal(amounts(cpu="1") + 0.09, amounts(cpu="1", memory="1", pods="1"))
    assert not less_equal(amounts(cpu="1") + 0.11, amounts(cpu="1"))


def test_less_equal_ignores_scalars_that_are_not_asked_for() -> None:
    """A node that is short of devices still takes a pod that wants none."""
    short = amounts(cpu="2", memory="1Gi")
    short[DIMENSIONS.place(GPU)] = -1000

    assert less_equal(amounts(cpu="1"), short)


def test_quota_is_compared_on_the_request_only() -> None:
    """A job that asks only for cpu is not held up by an exhausted device quota."""
    request = amounts(cpu="1", pods="5")
    used, limit = amounts(cpu="1", gpu="9", pods="9"), amounts(cpu="2", gpu="4", pods="1")

    assert quota_places(request).tolist() == [CPU]
    assert less_equal_on(used + request, limit, quota_places(request))


def test_quota_knows_no_tolerance() -> None:
    """Quotas are compared exactly."""
    request = amounts(cpu="1")

    assert not less_equal_on(request + 0.05, request, quota_places(request))


def test_claim_needs_one_dimension() -> None:
    """One requested resource within the entitlement is enough; 0 on both sides does not count."""
    request = amounts(cpu="1", gpu="1")
    places = quota_places(request)

    assert less_equal_on_some(request, amounts(gpu="1"), places)
    assert not less_equal_on_some(request, amounts(memory="1Gi"), places)
    assert not less_equal_on_some(amounts(cpu="1"), amounts(), places)


def test_victim_queue_exceeds_only_what_it_was_given() -> None:
    """cpu and memory count when deserved at all, devices when they are named."""
    places = quota_places(amounts(cpu="1", gpu="1"))
    held = amounts(cpu="4", gpu="4")

    def exceeds(deserved: dict[str, str]) -> bool:
        named = {n.replace("gpu", GPU): t for n, t in deserved.items()}
        return exceeds_on_relevant(held, amounts(**deserved), DIMENSIONS.given(named), places)

    assert exceeds({"cpu": "2"})
    assert not exceeds({"cpu": "0"})
    assert exceeds({"gpu": "0"})
    assert not exceeds({"memory": "1Gi"})


def test_excess_is_never_negative() -> None:
    """The excess is computed resource by resource."""
    left = excess(amounts(cpu="3", memory="1Gi"), amounts(cpu="1", memory="2Gi"))

    assert left[:2].tolist() == [2000, 0]


@pytest.mark.parametrize(
    ("held", "whole", "share"),
    [
        ({}, {}, 0.0),
        ({"cpu": "1"}, {}, 1.0),
        ({"cpu": "1", "memory": "3Gi"}, {"cpu": "4", "memory": "4Gi"}, 0.75),
        ({"cpu": "1", "gpu": "1"}, {"cpu": "4"}, 1.0),
        ({"cpu": "8"}, {"cpu": "4"}, 2.0),
    ],
)
def test_dominant_share(held: dict[str, str], whole: dict[str, str], share: float) -> None:
    """The largest share counts; 0/0 is 0 and x/0 is 1."""
    assert Shares(amounts(**whole)).dominant(amounts(**held)) == share


def test_ceiling_is_unlimited_where_nothing_is_named() -> None:
    """A limit names what it limits; zero cpu or memory is no limit."""
    ceiling = DIMENSIONS.ceiling({"cpu": "2", "memory": "0", GPU: "0"})

    assert ceiling[:3].tolist() == [2000, np.inf, np.inf]
    assert ceiling[DIMENSIONS.place(GPU)] == 0


@pytest.mark.parametrize(
    ("name", "amount", "expected"),
    [
        ("cpu", 4000, "4"),
        ("cpu", 500, "500m"),
        ("memory", 8 * 2**30, "8Gi"),
        ("memory", 1000, "1k"),
        ("pods", 3, "3"),
        ("nvidia.com/gpu", 2000, "2"),
        ("hugepages-2Mi", 4 * 2**20, "4Mi"),
        ("cpu", float("inf"), "unlimited"),
    ],
)
def test_amount_is_written_in_its_own_unit(name: str, amount: float, expected: str) -> None:
    """Cpu and devices are shown in units, memory in powers of two."""
    assert amount_text(name, amount) == expected


def test_vector_is_written_by_name() -> None:
    """Amounts of 0 are left out; an empty vector is "nothing"."""
    dimensions = Dimensions(["nvidia.com/gpu"])
    vector = dimensions.vector({"nvidia.com/gpu": 1, "cpu": "1500m"})

    assert amount_texts(dimensions, vector) == {"cpu": "1500m", "nvidia.com/gpu": "1"}
    assert amount_line(dimensions, vector) == "cpu 1500m, nvidia.com/gpu 1"
    assert amount_line(dimensions, dimensions.zero()) == "nothing"
