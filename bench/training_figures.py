"""The rows of the table about pauses, from the events that `bench training` keeps; it has no `run`.

A row has a bound, which is what the specification of elastic training promises.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from swell.api.meta import Body

Events = Mapping[str, Mapping[str, Sequence[Body]]]
# Bounds of single events hold while no more than this many processes wait for the two processors.
LOAD_MAX = 10.0
# Events that were kept before their machine was.
UNNAMED = "2 processors that other work shares, and the frameworks of `make e2e`"
CHANGES = ("kill one", "kill the leader", "4 to 2", "2 to 4")
# And how many steps may be done again after a death: the one that broke up, or those since the
# last copy of shards.
ON_GPU = {"library DDP on a GPU": 1.0, "library FSDP2 on a GPU": 20.0}


TORCHRUNS = ("torchrun", "torchrun with a keeper", "torchrun with a file")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of the table: the median, the worst, and the load at its events."""

    label: str
    bound_s: float | None
    values: tuple[float, ...]
    loads: tuple[float, ...]
    # Where its events were caused, each machine once.
    machines: tuple[str, ...] = ()
    # Most rows are about the median; those about single events are about the worst.
    is_worst: bool = False

    @property
    def measured(self) -> float | None:
        if not self.values:
            return None
        return max(self.values) if self.is_worst else statistics.median(self.values)

    @property
    def is_met(self) -> bool | None:
        if self.measured is None or self.bound_s is None:
            return None
        return self.measured <= self.bound_s

    def cells(self) -> tuple[str, ...]:
        """The row as texts: label, bound, median, worst, number of events, load, verdict."""
        bound = "-" if self.bound_s is None else f"{self.bound_s:g}"
        if not self.values:
            return (self.label, bound, "-", "-", "0", "-", "not measured")
        verdict = {True: "met", False: "MISSED", None: ""}[self.is_met]
        median, worst = statistics.median(self.values), max(self.values)
        n_events = str(len(self.values))
        return (self.label, bound, f"{median:.2f}", f"{worst:.2f}", n_events, self.load, verdict)

    @property
    def load(self) -> str:
        if not self.loads:
            return "-"
        return f"{min(self.loads):.1f}-{max(self.loads):.1f}"


def rows(found: Events) -> list[Row]:
    """All rows, those without a measured event included."""
    made = [
        _row(found, "library DDP", "kill one", 0.5),
        _row(found, "library DDP", "kill the leader", 0.8),
        _row(found, "library DDP", "4 to 2", 0.3),
        _row(found, "library DDP", "2 to 4", 0.3),
        _row(
            found, "library DDP", "kill one", 1.0, part="join_s", what="full size, after its load"
        ),
        _row(found, "library DDP", "2 to 4", 1.0, part="join_s", what="full size, after the load"),
        _row(found, "library DDP", "kill one", None, part="full_s", what="full size, in all"),
        _row(found, "library DDP", "preempted whole", 0.0, part="n_redone", what="steps lost"),
        _row(found, "library DDP", "freeze one", 15.0, is_worst=True),
        _worst(found, "library DDP", 2.0),
        _row(found, "library FSDP2", "kill one", 1.0),
        _redone(found, "library FSDP2", 20.0),
        *(_row(found, "library FSDP2", event, None) for event in CHANGES[1:]),
        _worst(found, "library FSDP2", 3.0),
    ]
    for way, steps_max in ON_GPU.items():
        if way in found:  # most machines have none
            made += [_row(found, way, event, None) for event in CHANGES]
            made.append(_redone(found, way, steps_max))
    bounds = {
        "launcher warm": 1.5,
        "launcher cold": 10.0,
        "launcher JAX": 3.0,
        "launcher Paddle": 3.0,
        "torchrun with backend swell": 15.0,
        "torchrun": 30.0,
        "torchrun with a keeper": 30.0,
        "torchrun with a file": 30.0,
    }
    for way, bound_s in bounds.items():
        made += [_row(found, way, event, bound_s) for event in CHANGES]
    made += [_crashes(found, way) for way in TORCHRUNS]
    return made


def table(found: Events) -> str:
    """The rows as text."""
    head = ("event", "bound", "median", "worst", "n", "load", "")
    lines = [head, *(row.cells() for row in rows(found))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    shown = []
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        shown.append("  " + "  ".join(cells).rstrip())
    return "\n".join(shown)


def _row(
    found: Events,
    way: str,
    event: str,
    bound_s: float | None,
    *,
    part: str = "pause_s",
    what: str = "pause, s",
    is_worst: bool = False,
) -> Row:
    events = found.get(way, {}).get(event, [])
    # A step that was skipped is as bad as one that is done again.
    values = tuple(abs(float(one[part])) for one in events if one[part] is not None)
    loads = tuple(float(one["load"]) for one in events)
    label = f"{way}, {event}: {what}"
    return Row(label, bound_s, values, loads, _machines(events), is_worst)


def _redone(found: Events, way: str, steps_max: float) -> Row:
    return _row(
        found,
        way,
        "kill one",
        steps_max,
        part="n_redone",
        what="steps redone",
        is_worst=True,
    )


def _worst(found: Events, way: str, bound_s: float) -> Row:
    """The worst single pause of a way, joins of successors included, under a moderate load."""
    kept = [
        one
        for event in CHANGES
        for one in found.get(way, {}).get(event, [])
        if one["load"] <= LOAD_MAX
    ]
    parts: tuple[Callable[[Body], float | None], ...] = (
        lambda one: one["pause_s"],
        lambda one: one["rejoin_pause_s"],
    )
    values = tuple(value for one in kept for part in parts if (value := part(one)) is not None)
    loads = tuple(float(one["load"]) for one in kept)
    label = f"{way}, worst of all events at load {LOAD_MAX:g} or less: pause, s"
    return Row(label, bound_s, values, loads, _machines(kept), is_worst=True)


def _crashes(found: Events, way: str) -> Row:
    """Whether after an event all others had crashed, too: 1 for such an event, else 0."""
    others = {"kill one": 3, "kill the leader": 3, "4 to 2": 2, "2 to 4": 2}
    events = [(one, n) for event, n in others.items() for one in found.get(way, {}).get(event, [])]
    values = tuple(float(one["n_crashed"] >= n) for one, n in events)
    loads = tuple(float(one["load"]) for one, _ in events)
    label = f"{way}: events in which all other agents crashed"
    return Row(label, 0.0, values, loads, _machines([one for one, _ in events]), is_worst=True)


def _machines(events: Sequence[Body]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.get("machine", UNNAMED) for one in events))
