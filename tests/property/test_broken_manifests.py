"""Every broken manifest is reported with its place and a hint; nothing else is ever raised."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swell.api.manifest import findings_of, read
from swell.api.validation import ValidationError, change_problems, check, validate
from tests.property.broken_by_hand import written_by_hand
from tests.property.broken_manifests import (
    MANIFESTS,
    TABLES,
    Broken,
    generated,
    manifest,
    with_field,
)

BROKEN = [*generated(), *written_by_hand()]
VALID = sorted(MANIFESTS.glob("*.yaml"))

DEEP: list[object] = []
for _ in range(50_000):
    DEEP = [DEEP]
HOSTILE: list[object] = [
    None, True, 0, -1, 10**5000, 1.5, math.nan, math.inf, "", "\ud800", "\x00", "x" * 100_000,
    [], [None], {}, {"": None}, {1: 2}, {"a": {"b": {"c": []}}}, DEEP, object(), b"x", (1, 2),
]  # fmt: skip


def test_there_are_200_broken_manifests() -> None:
    """The operators and the table make at least 200 variants, all different."""
    assert len(BROKEN) >= 200
    assert len({repr(broken.body) for broken in BROKEN}) == len(BROKEN)


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_valid_manifests_have_no_problems(path: Path) -> None:
    """The manifests that the broken ones are made from are valid."""
    assert findings_of([read(path.read_bytes(), path.name)]) == []


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_broken_manifest_tells_place_and_hint(broken: Broken) -> None:
    """The problem is reported at its path, with a hint that helps."""
    problems = validate(broken.body)

    assert broken.path in [problem.path for problem in problems]
    here = [problem for problem in problems if problem.path == broken.path]
    assert any(broken.hint in problem.hint for problem in here), here
    assert all(problem.message and problem.hint for problem in problems)
    with pytest.raises(ValidationError) as caught:
        check(broken.body)
    assert list(caught.value.problems) == problems


@pytest.mark.parametrize("name", [name for name, _ in TABLES])
def test_hostile_values_in_any_field_never_raise(name: str) -> None:
    """Whatever stands in a field, the answer is a list of problems."""
    body = manifest(name)
    fields = dict(TABLES)[name]
    for path in fields:
        for hostile in HOSTILE:
            changed = with_field(body, path, hostile)
            problems = validate(changed)
            assert all(str(problem).isprintable() for problem in problems)
            change_problems(changed, body)
            change_problems({**body, "status": {"phase": hostile}}, changed)


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: type(hostile).__name__)
def test_hostile_values_as_a_whole_never_raise(hostile: object) -> None:
    """What is no object at all is reported as one problem."""
    assert len(validate(hostile)) >= 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
PATHS = [(name, path) for name, fields in TABLES for path in fields]


@given(JSON)
def test_any_json_is_judged_without_raising(value: object) -> None:
    """No JSON value makes validation raise."""
    problems = validate(value)

    assert problems
    assert all(problem.hint for problem in problems)


@settings(max_examples=300)
@given(st.sampled_from(PATHS), JSON)
def test_any_json_in_any_field_is_judged_without_raising(
    place: tuple[str, str], value: object
) -> None:
    """No JSON value in any field makes validation raise, and what is valid stays valid JSON."""
    name, path = place
    body = with_field(manifest(name), path, value)
    before = copy.deepcopy(body)
    validate(body)
    change_problems({**body, "status": {"phase": "Running"}}, manifest(name))

    assert repr(body) == repr(before)
