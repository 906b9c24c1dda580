"""The values that validation returns: what is wrong with a manifest, and where.

Their texts are safe to print whatever the manifest holds: short, on one line, printable.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# The path of a field: names of fields, and positions in lists.
Steps = tuple[str | int, ...]

UNKNOWN_FIELD = "unknown field"  # the message by which a hint finds such a problem

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHOWN_SIZE_MAX = 60
_SHOWN_BITS_MAX = 128


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One problem of one field, and a hint what to do about it."""

    steps: Steps
    message: str
    hint: str

    @property
    def path(self) -> str:
        return path_text(self.steps)

    def __str__(self) -> str:
        return f"{self.path}: {self.message} ({self.hint})"


class ValidationError(ValueError):
    """A manifest is not valid; carries every problem found."""

    def __init__(self, problems: Iterable[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def path_text(steps: Steps) -> str:
    """Returns a path as text, such as `spec.volumes[0].name`."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{show(step)}]"
    return text


def show(value: object) -> str:
    """Returns a short printable text for a JSON value."""
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN_SIZE_MAX else f"{value[:_SHOWN_SIZE_MAX]}…"
        return json.dumps(cut, ensure_ascii=not cut.isprintable())
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _SHOWN_BITS_MAX else "a huge number"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "not a finite number"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return "no JSON value"
