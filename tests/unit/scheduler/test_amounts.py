"""Amounts as people write them."""

from __future__ import annotations

import pytest

from swell.scheduler.model.amounts import line, text, texts
from swell.scheduler.model.resources import Dimensions


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
    """Processors and devices in units, memory in powers of two."""
    assert text(name, amount) == expected


def test_vector_is_written_by_name() -> None:
    """What is nothing is left out; nothing at all has a word."""
    dimensions = Dimensions(["nvidia.com/gpu"])
    vector = dimensions.vector({"nvidia.com/gpu": 1, "cpu": "1500m"})

    assert texts(dimensions, vector) == {"cpu": "1500m", "nvidia.com/gpu": "1"}
    assert line(dimensions, vector) == "cpu 1500m, nvidia.com/gpu 1"
    assert line(dimensions, dimensions.zero()) == "nothing"
