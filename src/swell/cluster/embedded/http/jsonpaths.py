r"""The JSONPath of printer columns: fields, quoted fields, indexes, `[*]` and equality filters.

Pure. What lies beyond that subset selects nothing, as a column whose value is missing does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

Step = Callable[[object], Iterable[object]]

_TOKEN = re.compile(
    r"""\.?(?P<field>(?:[^.\[\]\\'"@?()*=\s]|\\.)+)
      | \[\s*(?P<index>-?\d+)\s*\]
      | \.?\[?\s*(?P<every>\*)\s*\]?
      | \[\s*(?P<quote>['"])(?P<quoted>(?:[^'"\\]|\\.)*)(?P=quote)\s*\]
      | \[\?\(\s*@(?P<path>[^=!<>]*?)\s*==\s*(?P<literal>"[^"]*"|'[^']*'|[^)]*?)\s*\)\]""",
    re.VERBOSE,
)


def find_first(body: object, path: str) -> object:
    """The first value at a path; None when there is none."""
    found: Iterable[object] = [body]
    for step in _steps(path.strip()):
        found = [value for held in found for value in step(held)]
    return next(iter(found), None)


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[Step, ...]:
    path = path.removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(path):
        token = _TOKEN.match(path, at)
        if token is None:
            return (_nothing,)
        steps.append(_step(token))
        at = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> Step:
    if token["index"] is not None:
        return _at_index(int(token["index"]))
    if token["every"] is not None:
        return _every
    if token["path"] is not None:
        return _where(token["path"], _literal(token["literal"]))
    name = token["field"] if token["field"] is not None else token["quoted"]
    return _at_field(re.sub(r"\\(.)", r"\1", name))


def _at_field(name: str) -> Step:
    return lambda held: [held[name]] if isinstance(held, dict) and name in held else []


def _at_index(index: int) -> Step:
    def step(held: object) -> Iterable[object]:
        fits = isinstance(held, list) and -len(held) <= index < len(held)
        return [held[index]] if isinstance(held, list) and fits else []

    return step


def _every(held: object) -> Iterable[object]:
    if isinstance(held, list):
        return held
    return list(held.values()) if isinstance(held, dict) else []


def _where(path: str, wanted: object) -> Step:
    return lambda held: [item for item in _every(held) if find_first(item, path) == wanted]


def _nothing(_held: object) -> Iterable[object]:
    return []


def _literal(text: str) -> object:
    if text[:1] in {'"', "'"}:
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text
