"""Limits of bodies and columns that hold before much work is done."""

from __future__ import annotations

import pytest

from swell.cluster.embedded.http import bodies
from swell.cluster.embedded.http.tables.jsonpath import find_first
from swell.cluster.embedded.selectors import SelectorError, parse_fields, parse_labels
from swell.runtime.errors import ClusterError


def _code(raw: bytes) -> int:
    with pytest.raises(ClusterError) as refused:
        bodies.read_reported_json(raw)
    return refused.value.status.code


def test_numbers_beyond_a_float_are_refused() -> None:
    assert _code(b'{"a":' + b"9" * 400 + b"}") == 400
    assert _code(b'{"a":' + b"9" * 5000 + b"}") == 400
    assert bodies.read_json(b"9" * 25) == 1e25


def test_values_are_counted_before_they_are_made() -> None:
    assert _code(b"[" + b"[]," * 200_000 + b"1]") == 413


def test_text_with_many_commas_is_one_value() -> None:
    raw = b'["' + b',[{\\"' * 300_000 + b'"]'

    assert len(bodies.read_reported_json(raw).value) == 1  # type: ignore[arg-type]


def test_duplicates_below_a_long_name_are_found() -> None:
    inner = ",".join(f'"k{n}":1' for n in range(50_000))
    raw = f'{{"{"n" * 500_000}":{{{inner},"k1":2}}}}'.encode()
    found = bodies.read_reported_json(raw).duplicates

    assert [path[-3:] for path in found] == [".k1"]


def test_objects_repeated_thousands_of_times_are_merged() -> None:
    wide = ",".join(f'"k{n}":1' for n in range(20_000))
    raw = ("{" + f'"a":{{{wide}}}' + ',"a":{"z":1}' * 20_000 + "}").encode()

    assert len(bodies.read_merged(raw)["a"]) == 20_001  # type: ignore[index]


@pytest.mark.parametrize(
    "path",
    [
        ".spec" + " " * 60_000,
        ".spec[" + " " * 60_000,
        ".spec[?(@.a" + " " * 60_000,
        ".spec" + "[*]" * 300,
        "['" * 30_000,
        f".spec[{'9' * 900}]",
        "\\" * 901,
    ],
)
def test_hostile_column_selects_nothing(path: str) -> None:
    assert find_first({"spec": {"a": [1]}}, path) in (None, {"a": [1]})


def test_selector_of_many_terms_is_matched() -> None:
    many = parse_labels(",".join([*(f"!k{n}" for n in range(5_000)), "a notin (x,y)"]))

    assert all(many.matches({"a": "b", "c": "d"}) for _ in range(5_000))
    assert not many.matches({"k7": ""})
    assert not many.matches({"a": "x"})


def test_selector_with_long_numbers_is_refused() -> None:
    with pytest.raises(SelectorError):
        parse_labels("a > " + "9" * 5_000)
    with pytest.raises(SelectorError):
        parse_fields("metadata.name=" + "\\" * 9_001, {})
