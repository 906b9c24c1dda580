"""Draws the loss, the number of members and the pauses of a training, for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swell.demo.training import GroupChange, TrainedStep, changes_of

# For a terminal of 80 columns; the scale at the left is part of it.
WIDTH = 78
HEIGHT = 10
_MARGIN = 9
# Eighths of a character cell, for encodings that have them; else whole ones.
_BLOCKS = " ▁▂▃▄▅▆▇█"
_PLAIN_BLOCKS = "    .:::#"
_BLUE, _GREEN, _DIM, _END = "\x1b[34m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


def draw(steps: Sequence[TrainedStep], *, is_coloured: bool, is_unicode: bool) -> list[str]:
    """The lines of the chart; none without steps."""
    if not steps:
        return []
    columns = _columns(steps, WIDTH - _MARGIN)
    colour = _painter(is_coloured)
    blocks = _BLOCKS if is_unicode else _PLAIN_BLOCKS
    top = max(loss for loss, _ in columns)
    lines = ["   loss"]
    for row in range(HEIGHT, 0, -1):
        cells = "".join(blocks[_eighths(loss / top * HEIGHT, row)] for loss, _ in columns)
        scale = f"{top * row / HEIGHT:5.2f}" if row in {HEIGHT, HEIGHT // 2 + 1, 1} else ""
        lines.append(f"{scale:>7}  " + colour(_BLUE, cells.rstrip()))
    sizes = "".join(str(size) for _, size in columns)
    lines.append("members  " + colour(_GREEN, sizes))
    span_s = steps[-1].at - steps[0].at
    axis = f"0 s{f'{span_s:.0f} s':>{len(columns) - 3}}"
    lines.append(" " * _MARGIN + colour(_DIM, axis))
    return [*lines, "", *_pauses(changes_of(steps), steps[0].at)]


def _columns(steps: Sequence[TrainedStep], n_columns: int) -> list[tuple[float, int]]:
    """Mean loss and last size of each equal part of the time; a part without a step repeats."""
    first, span_s = steps[0].at, max(steps[-1].at - steps[0].at, 1e-9)
    parts: list[list[TrainedStep]] = [[] for _ in range(n_columns)]
    for step in steps:
        at = int((step.at - first) / span_s * n_columns)
        parts[min(at, n_columns - 1)].append(step)
    columns: list[tuple[float, int]] = []
    for part in parts:
        if part:
            columns.append((sum(step.loss for step in part) / len(part), part[-1].size))
        else:
            columns.append(columns[-1])
    return columns


def _eighths(height: float, row: int) -> int:
    """How much of a cell in this row is filled, of eight."""
    return max(0, min(8, round((height - (row - 1)) * 8)))


def _pauses(changes: Sequence[GroupChange], first: float) -> list[str]:
    return [
        f"  at {change.at - first:4.1f} s  from {change.old} to {change.new} members:"
        f" a pause of {change.pause_s:.2f} s"
        for change in changes
    ]


def _painter(is_coloured: bool) -> Callable[[str, str], str]:
    def paint(colour: str, text: str) -> str:
        return f"{colour}{text}{_END}" if is_coloured and text.strip() else text

    return paint
