"""Rules between the fields of a PodGroup or a Queue."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.validation.access import at, fields, items
from swell.api.validation.amounts import is_above
from swell.api.validation.problems import FieldProblem, Steps, show

ROOT_QUEUE = "root"


def pod_group_problems(body: object) -> Iterator[FieldProblem]:
    spec = at(body, "spec")
    yield from topology_problems(at(spec, "networkTopology"), ("spec", "networkTopology"))
    for index, group in items(at(spec, "subGroupPolicy")):
        steps = ("spec", "subGroupPolicy", index, "networkTopology")
        yield from topology_problems(at(group, "networkTopology"), steps)


def queue_problems(body: object) -> Iterator[FieldProblem]:
    """Yields amounts out of order (guarantee, deserved, capability) and impossible parents."""
    spec = at(body, "spec")
    guarantee, deserved, capability = ("guarantee", "resource"), ("deserved",), ("capability",)
    for low, high in ((guarantee, deserved), (deserved, capability), (guarantee, capability)):
        if low == guarantee and high == capability and at(spec, *deserved) is not None:
            continue  # the two comparisons with `deserved` cover it
        yield from _order_problems(spec, low, high)
    name, parent = at(body, "metadata", "name"), at(spec, "parent")
    if not isinstance(parent, str) or not parent:
        return
    if name == ROOT_QUEUE:
        message = f"{ROOT_QUEUE} is above all queues"
        yield FieldProblem(("spec", "parent"), message, "remove the field")
    elif name == parent:
        message = "a queue must not be its own parent"
        yield FieldProblem(("spec", "parent"), message, f"name another queue, or {ROOT_QUEUE}")


def topology_problems(topology: object, steps: Steps) -> Iterator[FieldProblem]:
    """Yields a limit that is given both by number and by name."""
    if at(topology, "highestTierAllowed") is not None and at(topology, "highestTierName"):
        message = "must not stand beside highestTierAllowed"
        yield FieldProblem((*steps, "highestTierName"), message, "keep one of the two")


def _order_problems(
    spec: object, low: tuple[str, ...], high: tuple[str, ...]
) -> Iterator[FieldProblem]:
    bounds = dict(fields(at(spec, *high)))
    for resource, amount in fields(at(spec, *low)):
        if resource in bounds and is_above(amount, bounds[resource]):
            message = f"must not be greater than {high[0]} ({show(bounds[resource])})"
            hint = f"lower {low[0]} or raise {high[0]}"
            yield FieldProblem(("spec", *low, resource), message, hint)
