"""Lives as a trace that `swell replay` reads: what would other rules have made of these jobs? Pure.

The format is that of plain traces (docs/replay.md) with further columns, which a replay ignores.
`work_s` is what one replica would have taken for the work that was done: the running time at each
size, times the speed-up of that size by the serial share.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from swell.history.ledger import LedgerCause, ledger_of
from swell.history.life import JobLife, RoleShape
from swell.history.pods import cost_of

# The prior of the autoscaler for programs that have measured nothing.
SERIAL = 0.05
COLUMNS = (
    "name",
    "time",
    "work_s",
    "min",
    "max",
    "serial",
    "namespace",
    "job",
    "kind",
    "user",
    "queue",
    "phase",
    "submitted",
    "ended",
    *(f"{cause.value}_s" for cause in LedgerCause),
    "restarts",
    "preemptions",
    "cpu_hours",
    "memory_gib_hours",
    "gpu_hours",
)


def to_csv(lives: Iterable[JobLife], now: float) -> str:
    """Returns the trace of lives, the first to come first. Times count from that one's coming."""
    ordered = sorted(lives, key=lambda life: (life.created, life.namespace, life.name, life.uid))
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    began = ordered[0].created if ordered else 0.0
    seen: dict[str, int] = {}
    for life in ordered:
        name = f"{life.namespace}/{life.name}"
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:  # names come again once a job is deleted; those of a trace do not
            name = f"{name}#{seen[name]}"
        rows.writerow([name, *_row(life, began, now)])
    return out.getvalue()


def _row(life: JobLife, began: float, now: float) -> list[object]:
    ledger, cost = ledger_of(life, now), cost_of(life, now)
    main = main_role(life)
    shape = life.roles.get(main, RoleShape())
    return [
        f"{life.created - began:.0f}",
        f"{work_s(life, main, now):.1f}",
        shape.minimum,
        max(shape.minimum, shape.maximum),
        SERIAL,
        life.namespace,
        life.name,
        life.kind,
        life.user,
        life.queue,
        life.phase,
        f"{life.created:.0f}",
        "" if life.ended is None else f"{life.ended:.0f}",
        *(f"{ledger.seconds.get(cause, 0.0):.0f}" for cause in LedgerCause),
        life.restarts,
        life.preemptions,
        *(f"{one:.4f}" for one in (cost.cpu_hours, cost.memory_gib_hours, cost.gpu_hours)),
    ]


def main_role(life: JobLife) -> str:
    """Returns the role that trains: the elastic one, else the largest."""
    return max(
        life.roles,
        key=lambda role: (
            life.roles[role].minimum < life.roles[role].maximum,
            life.roles[role].maximum,
            role,
        ),
        default="",
    )


def work_s(life: JobLife, role: str, now: float) -> float:
    """Returns the seconds that one replica would have taken for what a job has done."""
    steps = [(one.at, one.size) for one in life.sizes if one.role == role]
    first = life.roles[role].first if role in life.roles else 1
    total = 0.0
    for entry in ledger_of(life, now).entries:
        if entry.cause is not LedgerCause.RUNNING:
            continue
        at, size = entry.start, first
        for moment, new in steps:
            if moment <= at:
                size = new
            elif moment < entry.end:
                total += (moment - at) * _speed_up(size)
                at, size = moment, new
        total += (entry.end - at) * _speed_up(size)
    return total


def _speed_up(size: int) -> float:
    return size / (1 + SERIAL * (size - 1)) if size > 0 else 0.0
