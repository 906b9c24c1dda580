"""What is wrong with a queue beside the others: parents that cannot be, limits beyond theirs.

What is wrong with it by itself is for `swell.api.validation` to say.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping

from swell.api.quantity import ZERO, QuantityText, parse, total
from swell.api.scheduling import Queue
from swell.api.validation import FieldProblem
from swell.scheduler.model.queue_state import BUILT_IN, ROOT, parent_name

Amounts = Mapping[str, QuantityText]
# Of a queue: how many groups there are in it.
Groups = Callable[[str], int]


def placing_problems(
    queue: Queue, queues: Mapping[str, Queue], n_groups: Groups
) -> Iterator[FieldProblem]:
    """Why a queue cannot stand where it is meant to."""
    name, where = parent_name(queue), ("spec", "parent")
    parent = queues.get(name)
    if parent is None:
        if name and name not in BUILT_IN:
            near = difflib.get_close_matches(name, queues, 1)
            hint = f"did you mean {near[0]}?" if near else f"create it first, or use {ROOT}"
            yield FieldProblem(where, f"there is no queue {name}", hint)
        return
    n = n_groups(name)
    if n and name != ROOT:
        hint = "groups belong into queues that have none below them"
        yield FieldProblem(where, f"queue {name} has {n} groups of its own", hint)
    siblings = [
        other
        for other in queues.values()
        if parent_name(other) == name and other.metadata.name != queue.metadata.name
    ]
    yield from _limit_problems(queue, parent)
    for field in ("guarantee", "deserved"):
        yield from _sum_problems(queue, parent, siblings, field)


def _limit_problems(queue: Queue, parent: Queue) -> Iterator[FieldProblem]:
    bounds = parent.spec.capability
    for field in ("capability", "deserved", "guarantee"):
        for resource, amount in _amounts(queue, field).items():
            if resource in bounds and parse(amount) > parse(bounds[resource]):
                have = f"has a capability of {parse(bounds[resource])}"
                message = f"{parse(amount)} is more than {parent.metadata.name} {have}"
                hint = f"lower it, or raise that of {parent.metadata.name}"
                yield FieldProblem(_steps(field, resource), message, hint)
                return


def _sum_problems(
    queue: Queue, parent: Queue, siblings: list[Queue], field: str
) -> Iterator[FieldProblem]:
    """Queues below one cannot together be given more than it is, where that says anything."""
    bounds = _amounts(parent, field)
    for resource, amount in _amounts(queue, field).items():
        if resource not in bounds:
            continue
        theirs = total(parse(_amounts(other, field).get(resource, 0)) for other in siblings)
        left = parse(bounds[resource]) - theirs
        if parse(amount) > max(left, ZERO):
            name = parent.metadata.name
            message = f"{parse(amount)} is more than the {max(left, ZERO)} that {name} has left"
            hint = f"{name} has {parse(bounds[resource])}, the queues below it {theirs} already"
            yield FieldProblem(_steps(field, resource), message, hint)


def deletion_problem(
    name: str, queues: Mapping[str, Queue], n_groups: Groups
) -> tuple[str, str] | None:
    """Why a queue should not be deleted, and what to do; None when nothing speaks against it."""
    if name in BUILT_IN:
        return f"queue {name} is always there", "it would come again at once"
    below = sorted(other for other, queue in queues.items() if parent_name(queue) == name)
    if below:
        return f"queue {name} has queues below it: {', '.join(below)}", "delete those first"
    n = n_groups(name)
    if n:
        has = "1 group" if n == 1 else f"{n} groups"
        hint = f"wait until they have gone: swell queue close {name} --wait (or use --force)"
        return f"queue {name} has {has}, which could not be scheduled any more", hint
    return None


def _amounts(queue: Queue, field: str) -> Amounts:
    spec = queue.spec
    found: dict[str, Amounts] = {
        "capability": spec.capability,
        "deserved": spec.deserved,
        "guarantee": spec.guarantee.resource,
    }
    return found[field]


def _steps(field: str, resource: str) -> tuple[str, ...]:
    inner = ("resource",) if field == "guarantee" else ()
    return ("spec", field, *inner, resource)
