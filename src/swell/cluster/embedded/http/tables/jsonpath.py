"""The JSONPath of custom columns: parsed in one pass, evaluated lazily. Pure.

This subset is understood: fields, quoted fields, indexes, `[*]` and equality filters. A path
outside it selects nothing, so that its cell stays empty.

A definition is a user's text and its paths run for every row, so neither parsing nor evaluating may
cost more than their input is long: the parser never goes back, and evaluation stops at the first
value it finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

# The longest path that is evaluated; a longer one selects nothing. Real ones have some dozens of
# characters, and so many keep a full cache below 20 MiB.
PATH_LENGTH_MAX = 1024
CACHED_PATHS_MAX = 256

# Maps a value to the values one step below it.
Step = Callable[[object], Iterable[object]]

_SPECIAL = frozenset(".[]'\"@?()*=")
_INTEGER = re.compile(r"-?\d{1,9}")


def find_first(body: object, path: str) -> object:
    """The first value at a path; None when there is none."""
    path = path.strip()
    if len(path) > PATH_LENGTH_MAX:
        return None
    return next(_found(body, _steps(path)), None)


def _found(body: object, steps: tuple[Step, ...]) -> Iterator[object]:
    """The values at a path, each found when it is asked for. It does not recurse."""
    waiting: list[Iterator[object]] = [iter((body,))]
    while waiting:
        for value in waiting[-1]:
            if len(waiting) > len(steps):
                yield value
            else:
                waiting.append(iter(steps[len(waiting) - 1](value)))
                break
        else:
            waiting.pop()


@lru_cache(maxsize=CACHED_PATHS_MAX)
def _steps(path: str) -> tuple[Step, ...]:
    inner = path.removeprefix("{").removesuffix("}").removeprefix("$")
    scanner = _Scanner(inner)
    steps: list[Step] = []
    while not scanner.at_end:
        step = scanner.step()
        if step is None:
            return (_nothing,)
        steps.append(step)
    return tuple(steps)


class _Scanner:
    """Reads one step after the other. None stands for text that is no step."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def step(self) -> Step | None:
        self._skip(".")
        if self._skip("["):
            return self._bracket()
        if self._skip("*"):
            return _every
        name = self._name()
        return _at_field(name) if name else None

    def _bracket(self) -> Step | None:
        if self._skip("?("):
            return self._filter()
        self._blanks()
        step: Step | None
        if self._skip("*"):
            step = _every
        elif self._peek() in {"'", '"'}:
            quoted = self._quoted()
            step = None if quoted is None else _at_field(quoted)
        else:
            step = self._index()
        self._blanks()
        return step if self._skip("]") else None

    def _index(self) -> Step | None:
        match = _INTEGER.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return _at_index(int(match.group()))

    def _filter(self) -> Step | None:
        """A filter, `?(@.path == literal)`; its path has no filter of its own."""
        end = self._text.find(")]", self._at)
        inside = self._text[self._at : end].strip() if end >= 0 else ""
        path, equals, literal = inside.partition("==")
        if not equals or not path.startswith("@") or any(sign in path for sign in "!<>=?"):
            return None
        self._at = end + 2
        return _where(path[1:].strip(), _literal(literal.strip()))

    def _name(self) -> str:
        parts: list[str] = []
        while not self.at_end:
            char = self._text[self._at]
            if char == "\\" and self._at + 1 < len(self._text):
                self._at += 1
                char = self._text[self._at]
            elif char in _SPECIAL or char == "\\" or char.isspace():
                break
            parts.append(char)
            self._at += 1
        return "".join(parts)

    def _quoted(self) -> str | None:
        quote = self._text[self._at]
        self._at += 1
        parts: list[str] = []
        while not self.at_end:
            char = self._text[self._at]
            self._at += 1
            if char == quote:
                return "".join(parts)
            if char == "\\" and not self.at_end:
                char = self._text[self._at]
                self._at += 1
            parts.append(char)
        return None

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _blanks(self) -> None:
        while self._peek().isspace():
            self._at += 1


def _at_field(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _at_index(index: int) -> Step:
    def step(value: object) -> Iterable[object]:
        fits = isinstance(value, list) and -len(value) <= index < len(value)
        return [value[index]] if isinstance(value, list) and fits else []

    return step


def _every(value: object) -> Iterable[object]:
    if isinstance(value, list):
        return value
    return value.values() if isinstance(value, dict) else ()


def _where(path: str, wanted: object) -> Step:
    return lambda value: (item for item in _every(value) if find_first(item, path) == wanted)


def _nothing(_held: object) -> Iterable[object]:
    return ()


def _literal(text: str) -> object:
    if text[:1] in {'"', "'"}:
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if _INTEGER.fullmatch(text) else text
