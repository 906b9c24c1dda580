"""The timeline of a job and the curves of its progress, as SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from swell.history.ledger import LedgerCause, ledger_of
from swell.history.life import JobLife, PodRun
from swell.history.summary import length_text

# Told apart in both colour schemes, and by people who see fewer colours: light differs as well.
COLORS = {
    LedgerCause.QUEUED: "#9aa4b2",
    LedgerCause.BLOCKED: "#c3a6e8",
    LedgerCause.SUSPENDED: "#6b7280",
    LedgerCause.STARTING: "#e3b341",
    LedgerCause.RUNNING: "#2da44e",
    LedgerCause.RESTART: "#e5534b",
    LedgerCause.RESIZE: "#2f8fdb",
    LedgerCause.PREEMPTION: "#d2691e",
    LedgerCause.NODE: "#a11d5b",
    LedgerCause.ENDING: "#7c8aa0",
}
_WIDTH, _LEFT, _BAND, _ROW = 900, 110, 26, 12
_PODS_MAX = 60  # rows of pods; more cannot be read on one page
_CURVE_HEIGHT = 150


def lifeline(life: JobLife, now: float) -> str:
    """Returns the stretches of a life as one band, its sizes, and below them its pods."""
    start, end = life.created, life.ended if life.ended is not None else max(now, life.created)
    axis = _Axis(start, end)
    parts = []
    for one in ledger_of(life, now).entries:
        title = f"{one.cause.value}: {length_text(one.seconds)}"
        title += f", {one.detail}" if one.detail else ""
        parts.append(axis.bar(one.start, one.end, (0, _BAND), COLORS[one.cause], title))
    parts.append(_label(0, _BAND, "time"))
    top = _BAND + 8
    for role in life.roles:
        parts.append(_steps(life, role, axis, top))
        parts.append(_label(top, 30, role))
        top += 38
    for place, runs in _by_pod(life.pods)[:_PODS_MAX]:
        parts.append(_label(top, _ROW, place))
        for run in runs:
            until = run.ended if run.ended is not None else end
            title = f"{place} on {run.node}: {length_text(until - run.started)} {run.outcome}"
            color = COLORS[LedgerCause.RESTART if _failed(run) else LedgerCause.RUNNING]
            parts.append(axis.bar(run.started, until, (top, _ROW - 3), color, title))
        top += _ROW
    parts.append(axis.ticks(top + 14))
    return _svg(top + 20, f"the timeline of {life.name}", parts)


def curve(points: Sequence[tuple[float, float]], start: float, end: float, title: str) -> str:
    """Returns a curve of values over time, with the first, the least and the largest value."""
    axis = _Axis(start, end)
    values = [value for _, value in points]
    low, high = min(values), max(values)
    span = (high - low) or 1.0

    def y(value: float) -> float:
        return 10 + (_CURVE_HEIGHT - 20) * (1 - (value - low) / span)

    line = " ".join(f"{axis.x(at):.1f},{y(value):.1f}" for at, value in points)
    parts = [
        f'<rect class="bar" x="{_LEFT}" y="0" width="{_WIDTH - _LEFT}" height="{_CURVE_HEIGHT}"/>',
        f'<polyline class="trace" points="{line}"/>',
        _label(2, 14, f"{high:.4g}"),
        _label(_CURVE_HEIGHT - 18, 14, f"{low:.4g}"),
        axis.ticks(_CURVE_HEIGHT + 14),
    ]
    return _svg(_CURVE_HEIGHT + 20, title, parts)


def legend(causes: Iterable[LedgerCause]) -> str:
    """Returns the colours of these causes, each once."""
    shown = dict.fromkeys(causes)
    keys = (
        f'<span class="key"><svg viewBox="0 0 9 9"><rect width="9" height="9" '
        f'fill="{COLORS[cause]}"/></svg>{cause.value}</span>'
        for cause in shown
    )
    return f"<p>{''.join(keys)}</p>"


class _Axis:
    """Time, from left to right."""

    def __init__(self, start: float, end: float) -> None:
        self._start, self._span = start, max(end - start, 1.0)

    def x(self, at: float) -> float:
        part = min(max((at - self._start) / self._span, 0.0), 1.0)
        return _LEFT + (_WIDTH - _LEFT) * part

    def bar(
        self, start: float, end: float, place: tuple[float, float], color: str, title: str
    ) -> str:
        left, width = self.x(start), max(self.x(end) - self.x(start), 0.5)
        return (
            f'<rect x="{left:.1f}" y="{place[0]}" width="{width:.1f}" height="{place[1]}" '
            f'fill="{color}"><title>{escape(title)}</title></rect>'
        )

    def ticks(self, y: float) -> str:
        marks = []
        for part in range(5):
            at = self._span * part / 4
            anchor = "start" if part == 0 else "end" if part == 4 else "middle"
            x = self.x(self._start + at)
            marks.append(
                f'<text class="soft" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">'
                f"{length_text(at)}</text>"
            )
        return "".join(marks)


def _steps(life: JobLife, role: str, axis: _Axis, top: float) -> str:
    """The target of one role over time."""
    shape = life.roles[role]
    changes = [(life.created, shape.first)]
    changes += [(one.at, one.size) for one in life.sizes if one.role == role]
    high = max([shape.maximum, *(size for _, size in changes)]) or 1
    end = _WIDTH
    points = []
    for (at, size), after in zip(changes, [*changes[1:], None], strict=True):
        y = top + 28 * (1 - size / high)
        points += [f"{axis.x(at):.1f},{y:.1f}"]
        points += [f"{axis.x(after[0]) if after is not None else end:.1f},{y:.1f}"]
    names = escape(f"{role}: " + ", ".join(str(size) for _, size in changes))
    return (
        f'<rect class="bar" x="{_LEFT}" y="{top}" width="{_WIDTH - _LEFT}" height="30"/>'
        f'<polyline class="trace" points="{" ".join(points)}"><title>{names}</title></polyline>'
    )


def _by_pod(runs: Iterable[PodRun]) -> list[tuple[str, list[PodRun]]]:
    found: dict[tuple[str, int], list[PodRun]] = {}
    for run in runs:
        found.setdefault((run.role, run.index), []).append(run)
    return [(f"{role}-{index}", found[role, index]) for role, index in sorted(found)]


def _failed(run: PodRun) -> bool:
    return run.outcome.startswith("exit") or run.outcome in {"Failed", "Evicted"}


def _label(top: float, height: float, name: str) -> str:
    shown = name if len(name) <= 16 else f"{name[:15]}…"
    return (
        f'<text x="{_LEFT - 8}" y="{top + height / 2 + 4:.0f}" text-anchor="end">'
        f"{escape(shown)}</text>"
    )


def _svg(height: float, title: str, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img"><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg>"
    )
