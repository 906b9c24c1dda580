"""Reads YAML from outside into plain JSON values, with budgets that hold while it reads.

For bodies, kubeconfigs and configuration files, which need no lines of fields; manifests are read
by `composer`. Both work on the parser's events: composing in C recurses once for every bracket and
so lets a small text end the process. Nothing here recurses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from swell.api.manifest.composer import (
    ManifestSyntaxError,
    Value,
    key_text,
    line_of,
    merge_into,
    parse_events,
    scalar_of,
)

_COLLECTION_TAGS = frozenset({"", "!", "map", "seq"})


@dataclass(frozen=True, slots=True)
class YamlBudget:
    """The largest text that is read, and the most that one document may hold.

    `aliases` says whether aliases may occur: a few bytes of them can stand for gigabytes, so each
    use counts as many values as it stands for.
    """

    text_bytes: int = 64 << 20
    depth: int = 100
    values: int = 1_000_000
    aliases: bool = True


def read_document(
    text: str | bytes,
    budget: YamlBudget = YamlBudget(),  # noqa: B008
    repeated: list[tuple[int, str]] | None = None,
) -> Value:
    """The only document of a text, None for an empty text; ManifestSyntaxError when it is bad.

    Of keys that an object has twice the last one counts; their lines and names go to `repeated`.
    """
    found = read_documents(text, budget, repeated)
    first = next(found, None)
    for _ in found:
        raise ManifestSyntaxError(1, "has several documents", "write one")
    return first


def read_documents(
    text: str | bytes,
    budget: YamlBudget = YamlBudget(),  # noqa: B008
    repeated: list[tuple[int, str]] | None = None,
) -> Iterator[Value]:
    """Yields the documents of a YAML text; ManifestSyntaxError where it is bad or too large."""
    if len(text) > budget.text_bytes:
        message = f"is larger than {budget.text_bytes:,} bytes"
        raise ManifestSyntaxError(1, message, "write less")
    events = parse_events(_decoded(text))
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            yield _Builder(budget, repeated).document(events)


@dataclass(slots=True)
class _Open:
    """A list or an object that is being filled, and where it was anchored."""

    value: list[Value] | dict[str, Value]
    anchor: str | None
    n_before: int
    key: str | None = None  # the key whose value comes next; None where a key comes next
    merges: bool = False  # that key is `<<`
    merged: list[Value] = field(default_factory=list)


class _Builder:
    """Builds one document from events, counting values as they come."""

    def __init__(self, budget: YamlBudget, repeated: list[tuple[int, str]] | None) -> None:
        self._budget = budget
        self._repeated = [] if repeated is None else repeated
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Value, int]] = {}
        self._n_values = 0

    def document(self, events: Iterator[yaml.Event]) -> Value:
        done = False
        root: Value = None
        for event in events:
            if isinstance(event, yaml.DocumentEndEvent):
                return root
            if done:
                continue
            complete, value = self._take(event)
            if complete and not self._open:
                root, done = value, True
        return root

    def _take(self, event: yaml.Event) -> tuple[bool, Value]:
        """Take one event; returns whether a value of the innermost level is complete, and it."""
        top = self._open[-1] if self._open else None
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            return self._close()
        if top is not None and isinstance(top.value, dict) and top.key is None:
            top.key = key_text(event)
            if top.key in top.value:
                self._repeated.append((line_of(event), top.key))
            plain = isinstance(event, yaml.ScalarEvent) and bool(event.implicit[0])
            top.merges = top.key == "<<" and plain
            return False, None
        self._count(event, 1)
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._descend(event)
            return False, None
        if isinstance(event, yaml.AliasEvent):
            return self._add(self._aliased(event))
        value = scalar_of(event) if isinstance(event, yaml.ScalarEvent) else None
        if isinstance(value, float) and not math.isfinite(value):
            raise ManifestSyntaxError(line_of(event), "is no finite number", "write a number")
        anchor = getattr(event, "anchor", None)
        if anchor:
            self._anchors[anchor] = (value, 1)
        return self._add(value)

    def _descend(self, event: yaml.Event) -> None:
        if len(self._open) >= self._budget.depth:
            message = f"is nested more than {self._budget.depth} deep"
            raise ManifestSyntaxError(line_of(event), message, "write less deeply nested data")
        tag = getattr(event, "tag", None) or ""
        if tag.removeprefix("tag:yaml.org,2002:") not in _COLLECTION_TAGS:
            raise ManifestSyntaxError(line_of(event), f"unknown tag {tag}", "remove the tag")
        value: list[Value] | dict[str, Value]
        value = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(value, getattr(event, "anchor", None), self._n_values - 1))

    def _close(self) -> tuple[bool, Value]:
        closed = self._open.pop()
        if isinstance(closed.value, dict):
            for source in closed.merged:
                merge_into(closed.value, source)
        if closed.anchor:
            self._anchors[closed.anchor] = (closed.value, self._n_values - closed.n_before)
        return self._add(closed.value)

    def _add(self, value: Value) -> tuple[bool, Value]:
        """Put a complete value where it belongs."""
        if not self._open:
            return True, value
        top = self._open[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.merges:
            top.merged.append(value)
            top.key, top.merges = None, False
        elif top.key is not None:
            top.value[top.key] = value
            top.key = None
        return True, value

    def _aliased(self, event: yaml.AliasEvent) -> Value:
        """The value that an alias stands for. It is shared: readers of data do not change it."""
        if not self._budget.aliases:
            message = "YAML aliases are not accepted"
            raise ManifestSyntaxError(line_of(event), message, "write the value out")
        found = self._anchors.get(event.anchor or "")
        if found is None:
            message = f"alias *{event.anchor} refers to nothing before it"
            hint = f"put &{event.anchor} before what is meant"
            raise ManifestSyntaxError(line_of(event), message, hint)
        self._count(event, found[1])
        return found[0]

    def _count(self, event: yaml.Event, n_values: int) -> None:
        self._n_values += n_values
        if self._n_values > self._budget.values:
            message = f"has more than {self._budget.values:,} values"
            raise ManifestSyntaxError(line_of(event), message, "write less")


def _decoded(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ManifestSyntaxError(line, "is not UTF-8", "save the file as UTF-8") from error
