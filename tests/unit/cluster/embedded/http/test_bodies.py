"""Request bodies, clean and otherwise."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.cluster.embedded.http.bodies import (
    DEPTH_MAX,
    duplicate_fields,
    read_json,
    read_yaml,
)
from swell.runtime.errors import BadRequestError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_json_round_trip(value: object) -> None:
    """What is JSON is read as it is, and has no duplicates."""
    for raw in (json.dumps(value).encode(), json.dumps(value, ensure_ascii=False).encode()):
        assert read_json(raw) == value
        assert duplicate_fields(raw, value) == []


@given(st.binary(max_size=200))
def test_anything_else_is_a_bad_request(raw: bytes) -> None:
    """Bytes are read or refused, never anything else."""
    try:
        read_json(raw)
    except BadRequestError:
        return


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'"\xff"', "\ufffd"),
        (b'{"a\xfe":1}', {"a\ufffd": 1}),
        (rb'"\ud800"', "\ufffd"),
        (rb'"\ud83d\udca5"', "💥"),
        (b"18446744073709551616", 18446744073709551616.0),
        (b"-9223372036854775809", -9223372036854775809.0),
        (b"9223372036854775807", 9223372036854775807),
    ],
)
def test_json_as_go_reads_it(raw: bytes, value: object) -> None:
    """Bad characters are replaced, integers beyond 64 bits are floats."""
    found = read_json(raw)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "raw",
    [b"", b" ", b"{", b"NaN", b"[Infinity]", b"1e999", b"01", b"{}{}", b"[" * 100_000, b"9" * 5000],
)
def test_json_that_is_none(raw: bytes) -> None:
    """Everything else is refused."""
    with pytest.raises(BadRequestError):
        read_json(raw)


@pytest.mark.parametrize("depth", [DEPTH_MAX, DEPTH_MAX + 1])
def test_depth_is_bounded(depth: int) -> None:
    """Nesting has an end."""
    raw = b'{"a":' * depth + b"1" + b"}" * depth
    if depth > DEPTH_MAX:
        with pytest.raises(BadRequestError):
            read_json(raw)
    else:
        assert read_json(raw)


@pytest.mark.parametrize(
    ("raw", "paths"),
    [
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"a":{"b":1,"b":2},"c":[{"d":1,"d":1}]}', ["a.b", "c[0].d"]),
        (b'{"a":1,"a":2,"a":3}', ["a"]),
        (rb'{"a":"x\": 1","b" : 2}', []),
        (b'{"a":"\\"b\\":1"}', []),
    ],
)
def test_duplicates_are_found(raw: bytes, paths: list[str]) -> None:
    """A field given twice is reported by its path; text that looks like one is not."""
    assert duplicate_fields(raw, read_json(raw)) == paths


def test_yaml_is_read() -> None:
    """YAML is JSON written in another way."""
    assert read_yaml(b"a: {b: [1, x, null]}\n").value == {"a": {"b": [1, "x", None]}}


@pytest.mark.parametrize(
    "raw",
    [
        b"a: [",
        b"a: &x [1]\nb: *x\n",
        b"{" * 5000,
        b"!!python/object/apply:os.getcwd []",
        b"? [a]\n: b\n",
    ],
)
def test_yaml_that_is_not_json(raw: bytes) -> None:
    """What JSON cannot say, and aliases, which could blow up, are refused."""
    with pytest.raises(BadRequestError):
        read_yaml(raw)
