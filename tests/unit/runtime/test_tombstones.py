"""What a read did not find stays absent until the watch has caught up with it."""

from __future__ import annotations

import pytest

from swell.api.meta import ObjectMeta
from swell.runtime.cluster import Selection
from swell.runtime.tombstones import Tombstones

A = ObjectMeta(name="a", namespace="ns", labels={"job": "j", "role": "x", "empty": ""})


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), True),
        (Selection("ns"), True),
        (Selection("other"), False),
        (Selection("ns", labels="job=j"), True),
        (Selection("", labels="job=j"), True),
        (Selection("ns", labels="role,job=j"), True),
        (Selection("ns", labels="job,role"), True),
        (Selection("ns", labels="empty="), True),
        (Selection("ns", labels="job=k"), False),
        (Selection("ns", labels="job=j,role=y"), False),
        (Selection("ns", labels="job=j,other"), False),
        (Selection("ns", fields="metadata.name=a"), True),
        (Selection("ns", fields="metadata.name=b"), False),
        (Selection("ns", labels="job=k", fields="metadata.name=a"), False),
    ],
)
def test_read_covers_what_its_selection_selects(selection: Selection, expected: bool) -> None:
    """A read says of an object it did not contain that it is absent, if it would have shown it."""
    tombstones = Tombstones()
    tombstones.record(selection, 10)

    assert tombstones.covers(A, 10) is expected


@pytest.mark.parametrize(
    "selection",
    [
        Selection("ns", labels="job!=k"),
        Selection("ns", labels="!other"),
        Selection("ns", labels="job in (j,k)"),
        Selection("ns", labels="job notin (k)"),
        Selection("ns", fields="spec.nodeName="),
        Selection("ns", fields="metadata.name!=b"),
    ],
)
def test_read_that_is_not_understood_covers_nothing(selection: Selection) -> None:
    """Of what a selection does not surely contain nothing is concluded."""
    tombstones = Tombstones()
    tombstones.record(selection, 10)

    assert not tombstones.covers(A, 5)
    assert len(tombstones) == 0


def test_read_covers_versions_up_to_its_own_only() -> None:
    """What is newer than a read may have come after it; the latest read of a part counts."""
    tombstones = Tombstones()
    tombstones.record(Selection("ns"), 10)
    tombstones.record(Selection("ns"), 8)

    assert tombstones.covers(A, 10)
    assert not tombstones.covers(A, 11)


def test_reads_are_forgotten_once_the_watch_is_past() -> None:
    """Only reads ahead of the watch are kept, so that nothing piles up."""
    tombstones = Tombstones()
    for version in (10, 12, 11):
        tombstones.record(Selection("ns", labels=f"job={version}"), version)
        tombstones.record(Selection("ns"), version)
    tombstones.advance(10)
    assert tombstones.covers(A, 10)
    tombstones.advance(12)

    assert not tombstones.covers(A, 10)
    assert len(tombstones) == 0
    assert tombstones._reads == {}
