"""The figures of one life, as tables, JSON, the report and the page show them. Pure."""

from __future__ import annotations

from swell.api.meta import Body
from swell.api.times import format_time
from swell.history.ledger import LOST, LedgerCause, TimeLedger, ledger_of
from swell.history.life import JobLife
from swell.history.pods import cost_of

_CAUSES = {cause.value: cause for cause in LedgerCause}


def summary_of(life: JobLife, now: float) -> Body:
    """Returns the figures of a job, without its timeline. The parts of `ledger` add up to wall."""
    ledger, cost = ledger_of(life, now), cost_of(life, now)
    exits: dict[str, int] = {}
    for run in life.pods:
        if run.outcome:
            exits[run.outcome] = exits.get(run.outcome, 0) + 1
    return {
        "namespace": life.namespace,
        "name": life.name,
        "kind": life.kind,
        "uid": life.uid,
        "user": life.user,
        "queue": life.queue,
        "priority": life.priority,
        "labels": life.labels,
        "phase": life.phase,
        "reason": life.reason,
        "message": life.message,
        "created": format_time(life.created),
        "ended": format_time(life.ended) if life.ended is not None else None,
        "wallSeconds": ledger.wall_s,
        "ledger": seconds_by_cause(ledger),
        "lostSeconds": ledger.lost_s,
        "restarts": life.restarts,
        "preemptions": life.preemptions,
        "resizes": len(life.sizes),
        "roles": {
            role: {"min": one.minimum, "max": one.maximum, "size": last_size(life, role)}
            for role, one in life.roles.items()
        },
        "exits": exits,
        "cost": {
            "cpuHours": round(cost.cpu_hours, 4),
            "memoryGiBHours": round(cost.memory_gib_hours, 4),
            "gpuHours": round(cost.gpu_hours, 4),
            "podHours": round(cost.pod_hours, 4),
        },
    }


def details_of(life: JobLife, now: float) -> Body:
    """Returns the figures of a job with its timeline: stretches, sizes, pods and progress."""
    ledger = ledger_of(life, now)
    return {
        **summary_of(life, now),
        "timeline": [
            {
                "start": format_time(one.start),
                "end": format_time(one.end),
                "seconds": one.seconds,
                "cause": one.cause.value,
                "detail": one.detail,
            }
            for one in ledger.entries
        ],
        "sizes": [
            {
                "time": format_time(one.at),
                "role": one.role,
                "size": one.size,
                "by": one.by,
                "reason": one.reason,
            }
            for one in life.sizes
        ],
        "firstSizes": {role: shape.first for role, shape in life.roles.items()},
        "pods": [
            {
                "role": run.role,
                "index": run.index,
                "node": run.node,
                "start": format_time(run.started),
                "end": format_time(run.ended) if run.ended is not None else None,
                "outcome": run.outcome,
            }
            for run in life.pods
        ],
        "podsLeftOut": life.n_folded,
        "progress": [
            {
                "time": format_time(one.at),
                "step": one.step,
                "samples": one.samples,
                "loss": one.loss,
                "rate": one.rate,
                "size": one.size,
            }
            for one in life.progress
        ],
        "spec": life.spec,
    }


def seconds_by_cause(ledger: TimeLedger) -> dict[str, float]:
    """Returns the seconds of every cause, also of those that took none."""
    return {name: ledger.seconds.get(cause, 0.0) for name, cause in _CAUSES.items()}


def last_size(life: JobLife, role: str) -> int:
    sizes = [one.size for one in life.sizes if one.role == role]
    return sizes[-1] if sizes else life.roles[role].first


def history_rows(lives: list[JobLife], now: float, *, with_namespace: bool) -> list[list[str]]:
    """Returns heading and rows of the table of `swell history`."""
    lead = ["NAMESPACE"] if with_namespace else []
    head = ["NAME", "PHASE", "USER", "QUEUE", "SIZE", "ENDED", "WALL", "QUEUED", "RUNNING", "LOST"]
    rows = [[*lead, *head, "LOST BY", "RESTARTS", "CPU-H", "GPU-H", "REASON"]]
    for life in lives:
        ledger, cost = ledger_of(life, now), cost_of(life, now)
        by = {cause: ledger.seconds.get(cause, 0.0) for cause in LedgerCause}
        rows.append(
            [
                *([life.namespace] if with_namespace else []),
                life.name,
                life.phase,
                life.user or "-",
                life.queue or "-",
                ",".join(f"{role}={last_size(life, role)}" for role in life.roles) or "-",
                format_time(life.ended) if life.ended is not None else "-",
                length_text(ledger.wall_s),
                length_text(by[LedgerCause.QUEUED]),
                length_text(by[LedgerCause.RUNNING]),
                length_text(ledger.lost_s),
                ",".join(f"{one.value} {length_text(by[one])}" for one in LOST if by[one]) or "-",
                str(life.restarts),
                f"{cost.cpu_hours:.2f}",
                f"{cost.gpu_hours:.2f}",
                life.reason or "-",
            ]
        )
    return rows


def timeline_rows(life: JobLife, now: float) -> list[list[str]]:
    """Returns heading and rows of where the time of one job went, one stretch after the other."""
    rows = [["FROM", "LENGTH", "CAUSE", "DETAIL"]]
    for one in ledger_of(life, now).entries:
        detail = " ".join(one.detail.split())
        rows.append([format_time(one.start), length_text(one.seconds), one.cause.value, detail])
    return rows


def length_text(seconds: float) -> str:
    """Returns a length of time in its two largest units."""
    whole = round(max(0.0, seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{whole % 60}s" if minutes else f"{whole}s"
