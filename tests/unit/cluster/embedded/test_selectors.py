"""Selectors: Kubernetes' grammar, what it refuses, and what each operator matches."""

from __future__ import annotations

from functools import partial

import pytest

from swell.cluster.embedded.commits import text_at
from swell.cluster.embedded.registry import FieldPath
from swell.cluster.embedded.selectors import (
    SelectorError,
    from_label_selector,
    parse_fields,
    parse_labels,
)

OBJECTS = {
    "a1": {"a": "1", "b": "x"},
    "a1b": {"a": "1", "b": "y"},
    "a2": {"a": "2"},
    "ae": {"a": ""},
    "none": {},
    "p": {"ex.com/k": "v"},
    "n10": {"n": "10"},
    "n9": {"n": "9"},
    "in": {"in": "notin"},
}
FIELDS = {
    "metadata.name": FieldPath("metadata.name"),
    "spec.on": FieldPath("spec.on", "false"),
    "spec.n": FieldPath("spec.n", "0"),
}


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("", list(OBJECTS)),
        ("a=1", ["a1", "a1b"]),
        ("a==1", ["a1", "a1b"]),
        ("a = 1 , b = x", ["a1"]),
        ("a in (1)", ["a1", "a1b"]),
        ("a in (,1)", ["a1", "a1b", "ae"]),
        ("a in ()", ["ae"]),
        ("a in (1,2,)", ["a1", "a1b", "a2", "ae"]),
        ("a=", ["ae"]),
        ("a", ["a1", "a1b", "a2", "ae"]),
        ("a,!b", ["a2", "ae"]),
        ("a!=1,a", ["a2", "ae"]),
        ("a!=1,!n,!ex.com/k,!in", ["a2", "ae", "none"]),
        ("a notin (1,2),a", ["ae"]),
        ("ex.com/k=v", ["p"]),
        ("n<10", ["n9"]),
        ("n>9", ["n10"]),
        ("a>0", ["a1", "a1b", "a2"]),
        ("in in (notin)", ["in"]),
    ],
)
def test_label_selector_matches(text: str, matched: list[str]) -> None:
    """Each operator as Kubernetes defines it; a missing label satisfies only negations."""
    selector = parse_labels(text)

    assert [name for name, labels in OBJECTS.items() if selector.matches(labels)] == matched


@pytest.mark.parametrize(
    "text",
    [
        *("a=1=2", "a~1", "a!", "!", "a notin", "=1", "a in 1", "a in (1", "a in (1 2)"),
        *(",a", "a,", "a,,b", "!a=1", "n<x", "n>", "a b", "a in ()x"),
        *("_a=1", "A B=c", "a/b/c=1", "a=" + "v" * 64, "a=-", "n<" + "9" * 20),
    ],
)
def test_label_selector_refuses(text: str) -> None:
    """What is no selector is refused as a whole."""
    with pytest.raises(SelectorError):
        parse_labels(text)


def test_selector_of_an_object_matches_like_its_text() -> None:
    """matchLabels and matchExpressions together; none at all selects nothing, empty everything."""
    spec = {
        "matchLabels": {"a": "1"},
        "matchExpressions": [
            {"key": "b", "operator": "NotIn", "values": ["y"]},
            {"key": "n", "operator": "DoesNotExist"},
        ],
    }
    selector = from_label_selector(spec)
    everything = from_label_selector({})

    assert selector is not None
    assert [name for name, labels in OBJECTS.items() if selector.matches(labels)] == ["a1"]
    assert everything is not None
    assert everything.matches({})
    assert from_label_selector(None) is None


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==a", True),
        ("metadata.name!=a", False),
        ("metadata.name=a,spec.on=false", True),
        ("spec.n=3", True),
        ("spec.n!=3", False),
        ("metadata.name=a\\,b", False),
    ],
)
def test_field_selector_matches(text: str, matches: bool) -> None:
    """Equality and inequality on known fields; what is missing counts as its default."""
    body = {"metadata": {"name": "a"}, "spec": {"n": 3}}

    assert parse_fields(text, FIELDS).matches(partial(text_at, body)) is matches


@pytest.mark.parametrize(
    "text",
    [
        "metadata.name",
        "metadata.name in (a)",
        "=a",
        "data.x=1",
        "metadata.name=a=b",
        "metadata.name=a\\b",
    ],
)
def test_field_selector_refuses(text: str) -> None:
    """Unknown fields, other operators and bad escapes."""
    with pytest.raises(SelectorError):
        parse_fields(text, FIELDS)
