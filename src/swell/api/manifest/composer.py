"""Builds JSON values from the events of a YAML parser, noting the line of every field.

Depth is bounded, and so is the size to which aliases may expand a document. Repeated keys, unknown
tags and broken aliases are reported with their line. Only plain JSON values are built.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from swell.api.manifest.scalars import Scalar, plain_scalar
from swell.api.validation.problems import Steps, show

DEPTH_MAX = 100  # far beyond any manifest, and below Python's limit of recursion
ALIASED_NODES_MAX = 1_000_000  # stops a document of nested aliases from filling the memory
# Of one document, its aliases left out: about ten times the largest list of objects that is
# written by hand, and half a gigabyte of lines and values.
NODES_MAX = 1_000_000

Value = Scalar | list["Value"] | dict[str, "Value"]

_TAG_PREFIX = "tag:yaml.org,2002:"
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ManifestSyntaxError(ValueError):
    """The text cannot be read; has the line and a hint what to do."""

    def __init__(self, line: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
        self.hint = hint


@dataclass(slots=True)
class Composed:
    """One document: its value, the lines of its fields, and keys that occur twice."""

    value: Value = None
    lines: dict[Steps, int] = field(default_factory=dict)
    repeated: list[Steps] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Value
    n_nodes: int


def compose(text: str) -> Iterator[Composed]:
    """Yields the documents of a YAML text; raises ManifestSyntaxError where it cannot be read."""
    events = parse_events(text)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            yield _Composer(events).document()


def parse_events(text: str) -> Iterator[yaml.Event]:
    """Yields the events of a YAML text; raises ManifestSyntaxError where it cannot be read.

    The parser keeps its own stack, so deep nesting is met as events and never as recursion in C.
    """
    try:
        yield from yaml.parse(text, Loader=_PARSER)
    except yaml.MarkedYAMLError as error:
        raise syntax_error(error, text) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        hint = "remove it, or escape it in a text in double quotes"
        raise ManifestSyntaxError(line, f"unreadable character: {error.reason}", hint) from error


class _Composer:
    """Builds the value of one document from the parser's events."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._done = Composed()
        self._anchors: dict[str, _Anchored] = {}
        self._n_nodes = 0
        self._n_aliased = 0

    def document(self) -> Composed:
        self._done.value = self._node(next(self._events), ())
        return self._done

    def _node(self, event: yaml.Event, steps: Steps) -> Value:
        line = line_of(event)
        self._done.lines.setdefault(steps, line)
        if len(steps) > DEPTH_MAX:
            message = f"is nested more than {DEPTH_MAX} deep"
            raise ManifestSyntaxError(line, message, "no manifest needs that")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        n_before = self._n_nodes
        self._n_nodes += 1
        if self._n_nodes - self._n_aliased > NODES_MAX:
            message = f"has more than {NODES_MAX:,} values"
            raise ManifestSyntaxError(line, message, "split the file")
        value = self._fresh(event, steps)
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            self._anchors[event.anchor] = _Anchored(value, self._n_nodes - n_before)
        return value

    def _fresh(self, event: yaml.Event, steps: Steps) -> Value:
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(steps)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(steps)
        return scalar_of(event) if isinstance(event, yaml.ScalarEvent) else None

    def _mapping(self, steps: Steps) -> dict[str, Value]:
        mapping: dict[str, Value] = {}
        merged: list[Value] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = key_text(event)
            here = (*steps, key)
            is_merge = key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]
            if key in mapping:
                self._done.repeated.append(here)
            self._done.lines[here] = line_of(event)
            value = self._node(next(self._events), here)
            if is_merge:
                merged.append(value)
            else:
                mapping[key] = value
        for value in merged:
            merge_into(mapping, value)
        return mapping

    def _sequence(self, steps: Steps) -> list[Value]:
        items: list[Value] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*steps, len(items))))
        return items

    def _alias(self, event: yaml.AliasEvent) -> Value:
        line = line_of(event)
        anchored = self._anchors.get(event.anchor or "")
        if anchored is None:
            message = f"alias *{event.anchor} refers to nothing before it"
            raise ManifestSyntaxError(line, message, f"put &{event.anchor} before what is meant")
        self._n_nodes += anchored.n_nodes
        self._n_aliased += anchored.n_nodes
        if self._n_aliased > ALIASED_NODES_MAX:
            raise ManifestSyntaxError(line, "aliases make the document too large", "write less")
        return copy.deepcopy(anchored.value)


def merge_into(mapping: dict[str, Value], value: Value) -> None:
    """Apply YAML's `<<`: fields of other objects fill in for those that are missing."""
    for source in value if isinstance(value, list) else [value]:
        if isinstance(source, dict):
            for name, part in source.items():
                mapping.setdefault(name, part)


def scalar_of(event: yaml.ScalarEvent) -> Scalar:
    text: str = event.value
    tag = (event.tag or "").removeprefix(_TAG_PREFIX)
    if tag == "str" or (not tag and not event.implicit[0]) or tag == "!":
        return text
    value = plain_scalar(text)
    kinds: dict[str, tuple[type, ...]] = {
        "": (object,),
        "int": (int,),
        "float": (float, int),
        "bool": (bool,),
        "null": (type(None),),
    }
    if tag not in kinds or not isinstance(value, kinds[tag]):
        line = line_of(event)
        raise ManifestSyntaxError(line, f"{show(text)} cannot be a {show(tag)}", "remove the tag")
    return value


def key_text(event: yaml.Event) -> str:
    if not isinstance(event, yaml.ScalarEvent):
        raise ManifestSyntaxError(line_of(event), "a key must be a text", "write name: value")
    value = scalar_of(event)
    if value is None:
        raise ManifestSyntaxError(line_of(event), "a key is missing", "write name: value")
    if isinstance(value, bool):
        return "true" if value else "false"
    return event.value if isinstance(value, float) else str(value)


def line_of(event: yaml.Event) -> int:
    mark = event.start_mark
    return 1 if mark is None else mark.line + 1


def syntax_error(error: yaml.MarkedYAMLError, text: str) -> ManifestSyntaxError:
    mark = error.problem_mark or error.context_mark
    parts = [part for part in (error.context, error.problem) if part]
    line = 1 if mark is None else mark.line + 1
    if _is_indented_by_tab(text, line):
        return ManifestSyntaxError(line, "a tab in the indentation", "indent with spaces")
    return ManifestSyntaxError(line, ": ".join(parts), "check indentation, quotes and colons here")


def _is_indented_by_tab(text: str, line: int) -> bool:
    written = text.split("\n")[line - 1 : line] or [""]
    return "\t" in written[0][: len(written[0]) - len(written[0].lstrip())]
