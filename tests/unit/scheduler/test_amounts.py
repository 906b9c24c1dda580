"""Amounts as people write them."""

from __future__ import annotations

import pytest

from swell.scheduler.model.resources import Dimensions, amount_line, amount_text, amount_texts


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
    assert amount_text(name, amount) == expected


def test_vector_is_written_by_name() -> None:
    """What is nothing is left out; nothing at all has a word."""
    dimensions = Dimensions(["nvidia.com/gpu"])
    vector = dimensions.vector({"nvidia.com/gpu": 1, "cpu": "1500m"})

    assert amount_texts(dimensions, vector) == {"cpu": "1500m", "nvidia.com/gpu": "1"}
    assert amount_line(dimensions, vector) == "cpu 1500m, nvidia.com/gpu 1"
    assert amount_line(dimensions, dimensions.zero()) == "nothing"
