"""Plans as tables for people: of the scheduler and of the autoscaler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from swell.api.wording import count_of
from swell.cli.output import aligned

if TYPE_CHECKING:
    from swell.autoscaler.plan import AutoscalerPlan
    from swell.scheduler.cycle import SchedulingPlan
    from swell.scheduler.model.tasks import Task

_NAMES_SHOWN = 3


class PlanFormat(StrEnum):
    """Formats of a plan."""

    JSON = "json"
    TABLE = "table"


def schedule_tables(plan: SchedulingPlan) -> str:
    """Return which pods are placed where, which are evicted, and which groups wait and why."""
    sections = [_schedule_summary(plan)]
    sections += _section("Placed", ("GROUP", "NODE", "PODS"), _by_group_and_node(plan.binds))
    sections += _section(
        "Held for pods that wait for room",
        ("GROUP", "NODE", "PODS"),
        _by_group_and_node(plan.pipelined),
    )
    sections += _section(
        "Evicted",
        ("POD", "BY", "FOR"),
        sorted((e.task.key, e.action, e.preemptor) for e in plan.evictions),
    )
    sections += _section("Shrunk", ("JOB", "ROLE", "TO", "FOR"), _shrinks(plan))
    sections += _section("Waiting", ("GROUP", "PHASE", "REASON", "WHY"), _waiting(plan))
    return "\n\n".join(sections) + "\n"


def autoscale_tables(plan: AutoscalerPlan) -> str:
    """Return the size each elastic role should have and why, and the load of the cluster."""
    rows = [
        (
            job,
            role,
            str(one.current),
            str(one.target),
            f"{one.delta:+}" if one.delta else "",
            one.message,
        )
        for job, roles in plan.by_job().items()
        for role, one in roles.items()
    ]
    sections = [_autoscale_summary(plan)]
    if rows:
        sections.append(aligned([("JOB", "ROLE", "NOW", "TARGET", "CHANGE", "WHY"), *rows]))
    sections.append(aligned([("RESOURCE", "TOTAL", "REQUESTED", "LIMITED", "LOAD"), *_load(plan)]))
    return "\n\n".join(sections) + "\n"


def _schedule_summary(plan: SchedulingPlan) -> str:
    waiting = sum(status.refusal is not None for status in plan.groups.values())
    counts = (
        (len(plan.binds), "pod placed", "pods placed"),
        (len(plan.pipelined), "held", "held"),
        (len(plan.evictions), "evicted", "evicted"),
        (len(plan.shrinks), "job shrunk", "jobs shrunk"),
        (waiting, "group waits", "groups wait"),
    )
    shown = [f"{n} {one if n == 1 else many}" for n, one, many in counts if n]
    return ", ".join(shown) or "Nothing to do."


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rows = list(rows)
    return [f"{title}\n{aligned([head, *rows])}"] if rows else []


def _by_group_and_node(places: dict[Task, str]) -> list[tuple[str, str, str]]:
    names: dict[tuple[str, str], list[str]] = {}
    for task, node in places.items():
        group = task.job.key if task.job else ""
        names.setdefault((group, node), []).append(task.pod.metadata.name)
    return [(*place, _few(sorted(pods))) for place, pods in sorted(names.items())]


def _few(names: Sequence[str]) -> str:
    shown = " ".join(names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _shrinks(plan: SchedulingPlan) -> list[tuple[str, str, str, str]]:
    return [
        (job, role, str(target), plan.shrunk_for.get((job, role), ""))
        for job, roles in sorted(plan.shrinks.items())
        for role, target in sorted(roles.items())
    ]


def _waiting(plan: SchedulingPlan) -> list[tuple[str, str, str, str]]:
    return [
        (key, status.phase.value, status.refusal.reason.value, status.refusal.message)
        for key, status in sorted(plan.groups.items())
        if status.refusal is not None
    ]


def _autoscale_summary(plan: AutoscalerPlan) -> str:
    n_changed = sum(bool(target.delta) for target in plan.targets.values())
    roles = count_of(len(plan.targets), "elastic role")
    nodes = count_of(plan.cluster.node_count, "node")
    return f"{roles} on {nodes}, {n_changed or 'none'} to resize."


def _load(plan: AutoscalerPlan) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            name,
            str(one.total),
            str(one.requested),
            str(one.limited),
            f"{100 * one.requested / one.total:.0f}%" if one.total else "",
        )
        for name, one in plan.usage().items()
    ]
