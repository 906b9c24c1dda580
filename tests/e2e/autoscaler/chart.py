"""Draws curves over time as SVG, in panels that share one axis. Values in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, PANEL, GAP = 760, 170, 46
LEFT, RIGHT, TOP, BOTTOM = 58, 150, 34, 40
COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#8f5ab5", "#b8860b", "#444444")
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'
N_TICKS = 4

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """One line. A stepped one keeps its value until the next."""

    name: str
    points: Sequence[Point]
    stepped: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves with one scale, from 0 to `top`."""

    title: str
    curves: Sequence[Curve]
    top: float


def draw(title: str, panels: Sequence[Panel]) -> str:
    """The picture as the text of an SVG file."""
    end = max(at for panel in panels for curve in panel.curves for at, _ in curve.points)
    height = TOP + len(panels) * (PANEL + GAP) - GAP + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for number, panel in enumerate(panels):
        lines += _panel(panel, TOP + number * (PANEL + GAP), end)
    lines += _times(height - BOTTOM, end)
    return "\n".join([*lines, "</svg>", ""])


def _panel(panel: Panel, y: float, end: float) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="{y - 10}" {FONT} font-weight="bold">{escape(panel.title)}</text>'
    for tick in range(N_TICKS + 1):
        value = panel.top * tick / N_TICKS
        at = y + PANEL * (1 - tick / N_TICKS)
        yield f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 8}" y="{at + 4:.1f}" {FONT} text-anchor="end">{value:g}</text>'
    for number, curve in enumerate(panel.curves):
        colour = COLOURS[number % len(COLOURS)]
        path = _path(curve, y, panel.top, end)
        yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        x, below = WIDTH - RIGHT + 14, y + 14 + 18 * number
        yield f'<path d="M{x} {below - 4}h18" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{x + 24}" y="{below}" {FONT}>{escape(curve.name)}</text>'


def _path(curve: Curve, y: float, top: float, end: float) -> str:
    parts: list[str] = []
    for at, value in curve.points:
        across, down = _across(at, end), y + PANEL * (1 - min(value, top) / top)
        if parts and curve.stepped:
            parts.append(f"H{across:.1f}V{down:.1f}")
        else:
            parts.append(f"{'L' if parts else 'M'}{across:.1f} {down:.1f}")
    return "".join(parts)


def _times(y: float, end: float) -> Iterator[str]:
    every = next(step for step in (5, 10, 20, 30, 60, 120, 300, 600) if end / step <= 10)
    for at in range(0, int(end) + 1, every):
        yield (
            f'<text x="{_across(at, end):.1f}" y="{y + 20}" {FONT} text-anchor="middle">'
            f"{at} s</text>"
        )


def _across(at: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / end
