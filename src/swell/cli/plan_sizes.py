"""A plan of sizes made from files, and shown to people: what each role should be and why."""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.quantity import QuantityError
from swell.autoscaler.inquiry import Objects
from swell.autoscaler.plan import Plan, plan_autoscale
from swell.autoscaler.policies import POLICIES
from swell.autoscaler.policies.interface import MaxLoadError, Parameters, parse_max_load
from swell.cli.failure import CommandError
from swell.cli.plan_input import read_into
from swell.cli.tables import aligned

_USAGE = 2


def plan_sizes(files: Iterable[str], policy: str, max_load: str, gpu_resources: str) -> Plan:
    """Decide over the objects in some files; options are as they were typed."""
    if policy not in POLICIES:
        known = ", ".join(POLICIES)
        raise CommandError(f"there is no policy {policy!r}", f"must be one of: {known}", _USAGE)
    try:
        parameters = Parameters(parse_max_load(max_load))
    except MaxLoadError as error:
        raise CommandError(f"--max-load-desired: {error}", exit_code=_USAGE) from error
    gpus = tuple(filter(None, (name.strip() for name in gpu_resources.split(","))))
    objects = Objects()
    read_into(objects, files)
    try:
        return plan_autoscale(objects, parameters, policy, gpus)
    except QuantityError as error:
        raise CommandError(str(error)) from error


def render(plan: Plan) -> str:
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


def _summary(plan: Plan) -> str:
    n_roles = len(plan.targets)
    n_changed = sum(bool(target.delta) for target in plan.targets.values())
    roles = "1 elastic role" if n_roles == 1 else f"{n_roles} elastic roles"
    nodes = "1 node" if plan.cluster.node_count == 1 else f"{plan.cluster.node_count} nodes"
    return f"{roles} on {nodes}, {n_changed or 'none'} to resize."


def _load(plan: Plan) -> list[tuple[str, str, str, str, str]]:
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
