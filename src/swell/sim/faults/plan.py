"""Kinds of faults, the injector that decides them in a run, and written plans that repeat a run.

Every fault is decided at a *site*: actor, verb and object ("operator create pods default/fit-0"),
and the number of the call at that site. A run records the faults that were decided. That list, with
the scenario and the seed, replays the run and can be shrunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

from swell.sim.chance import Chance


class FaultKind(StrEnum):
    """The faults of the client, and common ones of the cluster. Subjects add kinds of their own."""

    CONFLICT = "F1 conflict"
    SERVER_ERROR = "F2 server error"
    THROTTLED = "F3 throttled"
    UNREACHABLE = "F4 unreachable"
    TIMEOUT_BEFORE = "F4 timeout before apply"
    TIMEOUT_AFTER = "F5 timeout after apply"
    APPLIED_LATE = "F5 applied after the timeout"
    SLOW = "F6 slow call"
    REFUSED = "F7 kind refused"
    TRUNCATED = "F8 truncated answer"
    GONE = "F9 gone"
    CUT = "F10 stream cut"
    DELAYED = "F11 event delayed"
    DUPLICATED = "F12 event duplicated"
    SKIPPED = "F13 states skipped"
    STALE_LIST = "F14 stale list"
    OUT_OF_STEP = "F15 kind out of step"
    BOOKMARK_ONLY = "F16 bookmark only"
    CRASH_BEFORE = "F17 crash before write"
    CRASH_AFTER = "F17 crash after write"
    CRASH_LOOP = "F18 crash loop"
    KILLED = "F17 killed at any time"
    PAUSED = "F19 process paused"
    COMPACTED = "F9 log compacted"
    POD_DELETED = "F23 pod deleted"
    CLOCK_JUMP = "F29 wall clock jump"
    ALL_PAUSED = "F30 everything paused"


class Fault(msgspec.Struct, frozen=True):
    """One fault at one call. `amount` in [0, 1) is a degree or a choice, depending on the kind."""

    site: str
    nth: int
    kind: str
    amount: float = 0.0

    def scaled(self, low: float, high: float) -> float:
        return low + (high - low) * self.amount

    def __str__(self) -> str:
        return f"{self.kind} at {self.site} #{self.nth} ({self.amount:.3f})"


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run in writing: its scenario, its seed, and all faults that were decided in it."""

    subject: str
    scenario: str
    seed: int
    mutant: str = ""
    violates: str = ""
    faults: tuple[Fault, ...] = ()


def read_plan(path: Path) -> FaultPlan:
    return msgspec.json.decode(path.read_bytes(), type=FaultPlan)


def write_plan(path: Path, plan: FaultPlan) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")


class FaultSource(Protocol):
    """Decides whether the n-th call of a site has a fault."""

    def decide(self, site: str, nth: int, offered: tuple[str, ...]) -> Fault | None: ...


class PlannedFaults:
    """Decides exactly the faults of a plan."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = {(fault.site, fault.nth): fault for fault in faults}

    def decide(self, site: str, nth: int, offered: tuple[str, ...]) -> Fault | None:
        fault = self._faults.get((site, nth))
        # After a change of the program the call may be another one, without this kind of fault.
        return fault if fault and fault.kind in offered else None


class DrawnFaults:
    """Decides faults at random, each kind with its own rate per call."""

    def __init__(self, chance: Chance, rates: Mapping[str, float]) -> None:
        self._chance = chance
        self._rates = rates
        self._active_rates: dict[tuple[str, ...], list[tuple[str, float]]] = {}

    def decide(self, site: str, nth: int, offered: tuple[str, ...]) -> Fault | None:
        active = self._active_rates.get(offered)
        if active is None:
            active = [(kind, self._rates[kind]) for kind in offered if self._rates.get(kind)]
            self._active_rates[offered] = active
        if not active:
            return None
        # One draw for all kinds: each has an interval as long as its rate.
        left = self._chance.uniform("fault", site, nth)
        for kind, rate in active:
            left -= rate
            if left < 0:
                return Fault(site, nth, kind, self._chance.uniform("amount", site, nth))
        return None


class FaultInjector:
    """Asks the source at every call, and records the faults that were decided and their effects.

    A fault is *taken* when it is decided, and *hit* when it changed what the caller saw: a stale
    list of a collection that never changed is taken, but not hit.
    """

    def __init__(self, source: FaultSource) -> None:
        self._source = source
        self._calls: Counter[str] = Counter()
        self.on = True
        self.taken: list[Fault] = []
        self.hits: Counter[str] = Counter()
        self.on_fault_taken: list[Callable[[Fault], None]] = []

    def consult(self, site: str, offered: tuple[str, ...]) -> Fault | None:
        # Counted also when faults are off, so that numbers of calls mean the same in all phases.
        self._calls[site] += 1
        if not self.on:
            return None
        fault = self._source.decide(site, self._calls[site], offered)
        if fault is not None:
            self.taken.append(fault)
            for hook in self.on_fault_taken:
                hook(fault)
        return fault

    def count(self, site: str) -> int:
        """Returns how often a site was reached so far."""
        return self._calls[site]

    def hit(self, fault: Fault) -> None:
        self.hits[fault.kind] += 1
