"""Sets of completion indexes: notation, and the operations of sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.cluster.embedded.controllers.job.indexes import Indexes

SETS = st.sets(st.integers(0, 40))


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        (set(), ""),
        ({3}, "3"),
        ({3, 4}, "3,4"),
        ({3, 4, 5}, "3-5"),
        ({0, 2, 3, 4, 9, 10}, "0,2-4,9,10"),
    ],
)
def test_written_as_ranges(indexes: set[int], text: str) -> None:
    """Three in a row are a range; two are written one by one."""
    assert str(Indexes.of(indexes)) == text


@given(SETS, st.integers(0, 45))
def test_read_as_written_up_to_the_limit(indexes: set[int], below: int) -> None:
    """A text gives back its indexes, as far as they are below the limit."""
    parsed = Indexes.parse(str(Indexes.of(indexes)), below)

    assert parsed == Indexes.of({index for index in indexes if index < below})


@pytest.mark.parametrize("text", ["x", "1-x", "-1", "1-2-3", " 1", "3-1"])
def test_read_without_what_is_no_interval(text: str) -> None:
    """Parts that are no numbers are skipped."""
    assert str(Indexes.parse(f"{text},7", 10)) == "7"


@given(SETS, SETS)
def test_union_overlap_and_membership(one: set[int], other: set[int]) -> None:
    """Their operations agree with those of sets of numbers."""
    mine, others = Indexes.of(one), Indexes.of(other)

    assert mine | others == Indexes.of(one | other)
    assert len(mine | others) == len(one | other)
    assert mine.overlap(others) == len(one & other)
    assert [index for index in range(41) if index in mine] == sorted(one)


@given(SETS, st.integers(0, 10), st.integers(0, 45))
def test_first_missing(taken: set[int], count: int, below: int) -> None:
    """The lowest free indexes below the limit, as many as are asked for."""
    free = [index for index in range(below) if index not in taken]

    assert Indexes.of(taken).first_missing(count, below) == free[:count]
