"""Sizes over time as a picture: one band for each job, stacked; SVG, and an HTML page with it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from swell.replay.engine import ReplayLog
from swell.replay.figures import ReplayFigures, rows

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900, 260, 46, 24
# More points than this cannot be told apart at this width.
_POINTS_MAX = 450
_HUES = 12
_STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:60em}table{border-collapse:collapse}"
    "td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ccc}"
    "td:first-child,th:first-child{text-align:left}"
)


def svg(log: ReplayLog, title: str) -> str:
    """Returns a picture of the sizes of all jobs, the earliest at the bottom."""
    sampled = _sampled(log)
    if not sampled:
        return ""
    names = [job.name for job in log.jobs]
    end = sampled[-1][0] or 1.0
    first = sampled[0][0]
    wide, high = _WIDTH - _LEFT - 8, _HEIGHT - _BOTTOM - 20

    def x(at: float) -> float:
        return _LEFT + wide * (at - first) / max(end - first, 1.0)

    def y(units: float) -> float:
        return 20 + high * (1 - units / log.capacity)

    floor = [0.0] * len(sampled)
    bands = []
    for place, name in enumerate(names):
        top = [low + sizes.get(name, 0) for low, (_, sizes) in zip(floor, sampled, strict=True)]
        held = [at for at in range(len(sampled)) if top[at] > floor[at]]
        if held:
            span = range(max(held[0] - 1, 0), min(held[-1] + 2, len(sampled)))
            points = [f"{x(sampled[at][0]):.1f},{y(top[at]):.1f}" for at in span]
            points += [f"{x(sampled[at][0]):.1f},{y(floor[at]):.1f}" for at in reversed(span)]
            hue = place % _HUES * 360 // _HUES
            bands.append(
                f'<polygon points="{" ".join(points)}" fill="hsl({hue} 55% 62%)">'
                f"<title>{escape(name)}</title></polygon>"
            )
        floor = top
    hours = [
        f'<text x="{x(first + part * (end - first) / 6):.0f}" y="{_HEIGHT - 6}" '
        f'text-anchor="middle">{(first + part * (end - first) / 6) / 3600:.1f} h</text>'
        for part in range(7)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="11"><title>{escape(title)}</title>'
        f'<text x="{_LEFT}" y="13">{escape(title)}</text>'
        f'<rect x="{_LEFT}" y="20" width="{wide}" height="{high}" fill="#f4f4f4"/>'
        f"{''.join(bands)}{''.join(hours)}"
        f'<text x="{_LEFT - 6}" y="26" text-anchor="end">{log.capacity}</text>'
        f'<text x="{_LEFT - 6}" y="{20 + high:.0f}" text-anchor="end">0</text></svg>'
    )


def page(title: str, logs: Sequence[ReplayLog], figures: Sequence[ReplayFigures]) -> str:
    """Returns an HTML page with the figures of some replays, and a picture of each."""
    heading, *lines = rows(figures)
    table = "".join(
        f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in line)}</tr>"
        for tag, line in [("th", heading), *(("td", line) for line in lines)]
    )
    pictures = "".join(
        f"<p>{svg(log, f'{one.policy}: devices by job')}</p>"
        for log, one in zip(logs, figures, strict=True)
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<table>{table}</table>{pictures}</body></html>\n"
    )


def _sampled(log: ReplayLog) -> list[tuple[float, dict[str, int]]]:
    step = -(-len(log.rounds) // _POINTS_MAX) if log.rounds else 1
    return log.rounds[::step]
