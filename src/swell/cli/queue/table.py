"""Shows queues to people: all of them as a tree, or one of them with its limits and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from swell.api import codec
from swell.api.meta import Body
from swell.api.quantity import QuantityText, parse
from swell.api.scheduling import PodGroup, Queue
from swell.cli.objects.events import events_text
from swell.cli.output import aligned
from swell.cluster.kube.oneshot import OneShot
from swell.scheduler.model.queue_rules import is_closed_by_parent, parent_name

_UNLIMITED = "-"
# Groups that `describe` lists; a queue may hold thousands.
_ROWS_MAX = 20


def listed(queues: Sequence[Queue], *, wide: bool) -> str:
    """Return a table of queues, each indented below its parent."""
    head = ["NAME", "STATE", "WEIGHT", "RUNNING", "WAITING", "ALLOCATED", "CAPABILITY"]
    head += ["DESERVED", "GUARANTEE", "PRIORITY", "RECLAIMABLE"] if wide else []
    rows = [head]
    for queue, depth in in_tree_order(queues):
        spec, status = queue.spec, queue.status
        row = [
            "  " * depth + queue.metadata.name,
            status.state.value or "Open",  # until the scheduler has written a state
            str(spec.weight),
            str(status.running),
            str(status.pending + status.inqueue),
            _amounts(status.allocated),
            _amounts(spec.capability),
        ]
        more = [_amounts(spec.deserved), _amounts(spec.guarantee.resource), str(spec.priority)]
        reclaimable = "no" if spec.reclaimable is False else "yes"
        rows.append([*row, *more, reclaimable] if wide else row)
    return aligned(rows) + "\n"


def in_tree_order(queues: Sequence[Queue]) -> Iterator[tuple[Queue, int]]:
    """Return every queue after its parent, with its depth.

    Queues that are their own ancestors hang below no root and come last.
    """
    by_name = {queue.metadata.name: queue for queue in queues}
    below: dict[str, list[str]] = {}
    for name, queue in sorted(by_name.items()):
        above = parent_name(queue)
        below.setdefault(above if above in by_name else "", []).append(name)
    visited: set[str] = set()
    # Depth first with a stack, so that a deep tree needs no deep recursion.
    waiting = [(name, 0) for name in reversed(below.get("", []))]
    while waiting:
        name, depth = waiting.pop()
        visited.add(name)
        yield by_name[name], depth
        waiting += [(child, depth + 1) for child in reversed(below.get(name, []))]
    yield from ((queue, 0) for name, queue in sorted(by_name.items()) if name not in visited)


def described(
    body: Body, queues: Mapping[str, Queue], groups: Sequence[PodGroup], client: OneShot
) -> str:
    """Return the long form of a queue: its place in the tree, limits, groups and events."""
    queue = codec.convert(body, Queue)
    sections = ["\n".join(_head(queue, queues)), _limits(queue), _groups(groups)]
    sections.append(events_text(body, client))
    return "\n\n".join(sections) + "\n"


def _head(queue: Queue, queues: Mapping[str, Queue]) -> Iterator[str]:
    spec, name = queue.spec, queue.metadata.name
    below = sorted(other for other, one in queues.items() if parent_name(one) == name)
    closed = " (with the queue above it)" if is_closed_by_parent(queue) else ""
    yield f"Name:         {name}"
    yield f"State:        {queue.status.state.value or 'Open'}{closed}"
    yield f"Above:        {parent_name(queue) or 'none'}"
    yield f"Below:        {', '.join(below) or 'none'}"
    yield f"Weight:       {spec.weight}"
    yield f"Priority:     {spec.priority}"
    yield f"Reclaimable:  {'no' if spec.reclaimable is False else 'yes'}"


def _limits(queue: Queue) -> str:
    spec = queue.spec
    columns = (spec.guarantee.resource, spec.deserved, spec.capability, queue.status.allocated)
    names = sorted({name for column in columns for name in column})
    if not names:
        return "Limits:       none, and nothing is held"
    rows = [["RESOURCE", "GUARANTEE", "DESERVED", "CAPABILITY", "ALLOCATED"]]
    rows += [[name, *(_amount(column, name) for column in columns)] for name in names]
    return aligned(rows)


def _groups(groups: Sequence[PodGroup]) -> str:
    if not groups:
        return "Groups:       none"
    rows = [["GROUP", "PHASE", "MINIMUM", "WHY IT WAITS"]]
    # By the name of the phase: Inqueue and Pending, which wait, come before Running.
    ordered = sorted(groups, key=lambda g: (g.status.phase.value, g.metadata.key))
    for group in ordered[:_ROWS_MAX]:
        why = next(
            (
                c
                for c in group.status.conditions
                if c.type == "Unschedulable" and c.status == "True"
            ),
            None,
        )
        phase = group.status.phase.value or "Pending"
        reason = f"{why.reason}: {why.message}" if why else ""
        rows.append([str(group.metadata.key), phase, str(group.spec.min_member), reason])
    more = f"\nand {len(groups) - _ROWS_MAX} more" if len(groups) > _ROWS_MAX else ""
    return aligned(rows) + more


def _amounts(amounts: Mapping[str, QuantityText]) -> str:
    shown = (f"{name}={parse(raw)}" for name, raw in sorted(amounts.items()) if name != "pods")
    return ",".join(shown) or _UNLIMITED


def _amount(amounts: Mapping[str, QuantityText], name: str) -> str:
    return str(parse(amounts[name])) if name in amounts else _UNLIMITED
