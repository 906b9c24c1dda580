"""Where in an object something is: built on the way down at almost no cost, shown in errors."""

from __future__ import annotations

from typing import TypeAlias

# The way back to the root: (parent, step). A text is a field, a number an index, a MapKey a key.
Path: TypeAlias = "tuple[Path, str | int] | None"


class MapKey(str):
    """A key of a map, shown in brackets."""

    __slots__ = ()


def render(path: Path) -> str:
    """`spec.containers[0].image`, `data[key]`."""
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = ""
    for step in reversed(steps):
        if isinstance(step, (int, MapKey)):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
