"""A plan of sizes made from files, and shown to people: what each role should be and why."""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.quantity import QuantityError
from swell.autoscaler.plan import AutoscalerObjects, AutoscalerPlan, plan_autoscale
from swell.cli.controllers.autoscaler_flags import known_policy, names_in, parameters_of
from swell.cli.failure import CommandError
from swell.cli.plan.input import read_into
from swell.cli.tables import aligned


def plan_sizes(
    files: Iterable[str], policy: str, max_load: str, gpu_resources: str
) -> AutoscalerPlan:
    """Decide over the objects in some files; options are as they were typed."""
    objects = AutoscalerObjects()
    read_into(objects, files)
    try:
        return plan_autoscale(
            objects, parameters_of(max_load), known_policy(policy), names_in(gpu_resources)
        )
    except QuantityError as error:
        raise CommandError(str(error)) from error


def render(plan: AutoscalerPlan) -> str:
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
    sections = [_summary(plan)]
    if rows:
        sections.append(aligned([("JOB", "ROLE", "NOW", "TARGET", "CHANGE", "WHY"), *rows]))
    sections.append(aligned([("RESOURCE", "TOTAL", "REQUESTED", "LIMITED", "LOAD"), *_load(plan)]))
    return "\n\n".join(sections) + "\n"


def _summary(plan: AutoscalerPlan) -> str:
    n_roles = len(plan.targets)
    n_changed = sum(bool(target.delta) for target in plan.targets.values())
    roles = "1 elastic role" if n_roles == 1 else f"{n_roles} elastic roles"
    nodes = "1 node" if plan.cluster.node_count == 1 else f"{plan.cluster.node_count} nodes"
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
