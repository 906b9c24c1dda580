"""Keeps processors and memory on nodes with scarce resources for the pods that ask for those.

Otherwise small pods fill the processors of a GPU node while its GPUs stay idle. The rule has two
sets of names: `predicate.ProportionalEnable` and its kin, which older releases of Volcano have in
the plugin predicates, and `proportional` of resource-strategy-fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from swell.scheduler.config import number_in
from swell.scheduler.model.nodes import NodeTable, fits
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.resources import CPU, MEMORY, Dimensions, Mask, Matrix
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import Shape, Task

_KINDS: Final = ("cpu", "memory")
# Amounts of scarce resources are in thousandths, and so are those of processors. A rate of memory
# is in units of 10^9 bytes for each whole unit of the scarce resource.
_BYTES_PER_MILLI: Final = 1e6


@dataclass(frozen=True, slots=True)
class Proportional:
    """The scarce resources, each with the processors and memory that are kept for one unit."""

    rates: Mapping[str, tuple[float, float]]
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, resources: str, given: Mapping[str, object]) -> Proportional:
        """Returns the rule for names with commas between them, and rates by `<resource>.<kind>`.

        A rate that is not given, or is negative, is 1.
        """
        names = [name.strip() for name in resources.split(",") if name.strip()]
        remarks = [] if names else ["proportional has no effect: it lists no resources"]
        for key, value in given.items():
            resource, _, kind = key.rpartition(".")
            rate = number_in(value)
            if resource not in names or kind not in _KINDS:
                remarks.append(f"rate {key!r} has no effect: list its resource as well")
            elif rate is None or rate < 0:
                remarks.append(f"rate {key!r} is {value!r}, and counts as 1")

        def rate_of(key: str) -> float:
            found = number_in(given.get(key))
            return 1.0 if found is None or found < 0 else found

        rates = {name: (rate_of(f"{name}.cpu"), rate_of(f"{name}.memory")) for name in names}
        return cls(rates, tuple(remarks))


class ReserveRules:
    """The rule in one session."""

    def __init__(self, nodes: NodeTable, dimensions: Dimensions, rule: Proportional) -> None:
        self._nodes = nodes
        self._rates = [
            (place, *rates)
            for name, rates in rule.rates.items()
            if (place := dimensions.known(name)) is not None
        ]
        self._names = ", ".join(sorted(rule.rates))

    def usable_room(self, shape: Shape, room: Matrix) -> Matrix:
        """Returns the room without what is kept for pods of scarce resources, if it is for others.

        With several of them the largest reserve counts, not their sum.
        """
        if not self._rates or any(shape.request[place] > 0 for place, _, _ in self._rates):
            return room
        kept_cpu, kept_memory = np.zeros(room.shape[1]), np.zeros(room.shape[1])
        for place, cpu, memory in self._rates:
            scarce = np.maximum(room[place], 0.0)
            kept_cpu = np.maximum(kept_cpu, scarce * cpu)
            kept_memory = np.maximum(kept_memory, scarce * memory * _BYTES_PER_MILLI)
        usable = room.copy()
        usable[CPU] -= kept_cpu
        usable[MEMORY] -= kept_memory
        return usable

    def diagnose(self, task: Task) -> Iterator[tuple[WaitReason, Mask, str]]:
        """Yields the nodes on which only this rule is in the way of a task."""
        room = self._nodes.idle
        kept = fits(task.shape, room) & ~fits(task.shape, self.usable_room(task.shape, room))
        yield WaitReason.RESERVED, ~kept, self._names


def reserve_rules(snapshot: SchedulerSnapshot, rule: Proportional) -> ReserveRules:
    return ReserveRules(snapshot.nodes, snapshot.dimensions, rule)
