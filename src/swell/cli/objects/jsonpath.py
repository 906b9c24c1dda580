"""The JSONPath templates of `-o jsonpath=`, custom columns and `--sort-by`, as in kubectl. Pure.

A template is text with expressions in braces: `{.metadata.name}`, `{range .items[*]}…{end}`,
`{"\\n"}`. A path has fields, quoted fields, indexes, slices, `*`, `..` and filters such as
`[?(@.status.phase=="Running")]`. A field that an object lacks yields nothing.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Step = Callable[[object], Iterator[object]]

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON = re.compile(
    r"\s*@(?P<path>.*?)\s*(?:(?P<operator>[=!<>]=|[<>])\s*(?P<literal>.+))?\s*"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_NAME = re.compile(r"(?:[^.\[\]\s\\{}*]|\\.)+")
_SLICE = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(-?\d*))?")


class JsonPathError(ValueError):
    """A text is no JSONPath template."""


@dataclass(frozen=True, slots=True)
class _Range:
    steps: tuple[Step, ...]
    parts: tuple[_TemplatePart, ...]


_TemplatePart = str | tuple[Step, ...] | _Range


def render(template: str, value: object) -> str:
    """Return a template with its expressions replaced by what they find in a value."""
    parts = _parse(template if "{" in template else f"{{{template}}}")
    return "".join(_rendered(parts, value))


def find_all(path: str, value: object) -> list[object]:
    """Return the values at a path, which may be written with or without braces."""
    inner = path.strip().removeprefix("{").removesuffix("}")
    return list(_found(_steps(inner), value))


def text_of(value: object) -> str:
    """Return a value as it is printed: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _rendered(parts: Sequence[_TemplatePart], value: object) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Range):
            for item in _found(part.steps, value):
                yield from _rendered(part.parts, item)
        else:
            yield " ".join(map(text_of, _found(part, value)))


def _found(steps: Sequence[Step], value: object) -> Iterator[object]:
    values: Iterator[object] = iter((value,))
    for step in steps:
        values = _each(step, values)
    return values


def _each(step: Step, values: Iterator[object]) -> Iterator[object]:
    for value in values:
        yield from step(value)


# --- parsing -------------------------------------------------------------------------------------


def _parse(template: str) -> tuple[_TemplatePart, ...]:
    # The innermost range is the last; the first list holds the parts outside of any.
    open_parts: list[list[_TemplatePart]] = [[]]
    ranges: list[tuple[Step, ...]] = []
    for is_expression, text in _split(template):
        if not is_expression:
            open_parts[-1].append(text)
        elif text == "end":
            if not ranges:
                raise JsonPathError("{end} without {range}")
            closed = _Range(ranges.pop(), tuple(open_parts.pop()))
            open_parts[-1].append(closed)
        elif text.startswith("range "):
            ranges.append(_steps(text.removeprefix("range ").strip()))
            open_parts.append([])
        elif text[:1] in {'"', "'"}:
            open_parts[-1].append(_unquoted(text))
        else:
            open_parts[-1].append(_steps(text))
    if ranges:
        raise JsonPathError("{range} without {end}")
    return tuple(open_parts[0])


def _split(template: str) -> Iterator[tuple[bool, str]]:
    """Yield the texts and the expressions of a template, in turn."""
    at = 0
    while at < len(template):
        start = template.find("{", at)
        if start < 0:
            yield False, template[at:]
            return
        if start > at:
            yield False, template[at:start]
        end = _closing(template, start + 1)
        yield True, template[start + 1 : end].strip()
        at = end + 1


def _closing(template: str, at: int) -> int:
    """Return where an expression ends; a brace inside quotes does not end it."""
    quote = ""
    while at < len(template):
        char = template[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in {'"', "'"}:
            quote = char
        elif char == "}":
            return at
        at += 1
    raise JsonPathError("a brace is not closed")


def _unquoted(text: str) -> str:
    if len(text) < 2 or text[-1] != text[0]:
        raise JsonPathError(f"a text is not closed: {text}")
    # A shell may have put a real tab or line end between the quotes: both forms are taken.
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])


def _steps(path: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    rest = path.strip().removeprefix("$").removeprefix("@")
    while rest:
        if rest.startswith(".."):
            match = _NAME.match(rest, 2)
            if match is None:
                raise JsonPathError(f"a name is missing after ..: {path}")
            steps.append(_descendants(_plain(match.group())))
            rest = rest[match.end() :]
        elif rest.startswith("["):
            end = _bracket_end(rest)
            steps.append(_bracket(rest[1:end].strip()))
            rest = rest[end + 1 :]
        elif rest.startswith((".*", "*")):
            steps.append(_every)
            rest = rest.removeprefix(".").removeprefix("*")
        else:
            start = 1 if rest.startswith(".") else 0
            match = _NAME.match(rest, start)
            if match is None:
                if rest == ".":
                    break
                raise JsonPathError(f"not a path: {path}")
            steps.append(_field(_plain(match.group())))
            rest = rest[match.end() :]
    return tuple(steps)


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _bracket_end(text: str) -> int:
    depth, quote = 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in {'"', "'"}:
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                return at
    raise JsonPathError(f"a bracket is not closed: {text}")


def _bracket(inner: str) -> Step:
    if inner == "*":
        return _every
    if inner[:1] in {'"', "'"}:
        return _field(inner[1:-1])
    if inner.startswith("?(") and inner.endswith(")"):
        return _filter(inner[2:-1])
    match = _SLICE.fullmatch(inner)
    if match is None or not inner:
        raise JsonPathError(f"not an index: [{inner}]")
    first, second, step = (int(part) if part else None for part in match.groups())
    if ":" not in inner:
        return _index(first or 0)
    return _slice(slice(first, second, step))


def _filter(text: str) -> Step:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise JsonPathError(f"not a filter: ?({text})")
    steps = _steps(match["path"])
    if match["operator"] is None:
        return _where(lambda item: next(_found(steps, item), None) is not None)
    compare, literal = _OPERATORS[match["operator"]], _literal(match["literal"].strip())

    def holds(item: object) -> bool:
        try:
            return any(compare(value, literal) for value in _found(steps, item))
        except TypeError:  # a text and a number have no order
            return False

    return _where(holds)


def _literal(text: str) -> object:
    if text[:1] == "'":
        return text[1:-1]
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise JsonPathError(f"not a value: {text}") from error
    return found


# --- steps ---------------------------------------------------------------------------------------


def _field(name: str) -> Step:
    def step(value: object) -> Iterator[object]:
        if isinstance(value, Mapping) and name in value:
            yield value[name]

    return step


def _index(at: int) -> Step:
    def step(value: object) -> Iterator[object]:
        if isinstance(value, list) and -len(value) <= at < len(value):
            yield value[at]

    return step


def _slice(part: slice) -> Step:
    def step(value: object) -> Iterator[object]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _where(holds: Callable[[object], bool]) -> Step:
    return lambda value: (item for item in _every(value) if holds(item))


def _every(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(name: str) -> Step:
    def step(value: object) -> Iterator[object]:
        if isinstance(value, Mapping) and name in value:
            yield value[name]
        for inner in _every(value):
            yield from step(inner)

    return step
