"""What may go wrong, when it does in one run, and the written plan that makes it happen again.

Every decision is made at a *site*: who does what to which object ("operator create pods default/
fit-0"), and which time it is (the n-th call there). A run records the faults that were decided;
that list alone, with the scenario and its seed, replays the run, and can be shrunk.
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
    """The faults of the cluster port, and common ones of the cluster. A kind is text: subjects
    add their own."""

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
    """One decision. `amount` in [0, 1) says how much or which, as the kind understands it."""

    site: str
    nth: int
    kind: str
    amount: float = 0.0

    def scaled(self, low: float, high: float) -> float:
        return low + (high - low) * self.amount

    def __str__(self) -> str:
        return f"{self.kind} at {self.site} #{self.nth} ({self.amount:.3f})"


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run written down: what was run, and every fault that was decided in it."""

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
    """Decides whether something goes wrong at the n-th call of a site."""

    def decide(self, site: str, nth: int, offered: tuple[str, ...]) -> Fault | None: ...


class PlannedFaults:
    """Exactly the faults of a plan."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = {(fault.site, fault.nth): fault for fault in faults}

    def decide(self, site: str, nth: int, offered: tuple[str, ...]) -> Fault | None:
        fault = self._faults.get((site, nth))
        return fault if fault and fault.kind in offered else None


class DrawnFaults:
    """Faults at random, each kind with its own rate per call."""

    def __init__(self, chance: Chance, rates: Mapping[str, float]) -> None:
        self._chance = chance
        self._rates = rates
        self._in_season: dict[tuple[str, ...], list[tuple[str, float]]] = {}

    def decide(self, site: str, nth: int, offered: tuple[str, ...]) -> Fault | None:
        in_season = self._in_season.get(offered)
        if in_season is None:
            in_season = [(kind, self._rates[kind]) for kind in offered if self._rates.get(kind)]
            self._in_season[offered] = in_season
        if not in_season:
            return None
        left = self._chance.uniform("fault", site, nth)
        for kind, rate in in_season:
            left -= rate
            if left < 0:
                return Fault(site, nth, kind, self._chance.uniform("amount", site, nth))
        return None


class FaultInjector:
    """Asks the source at every site, and keeps what it decided and what came of it.

    A fault is *drawn* when decided and *hit* when it changed what the caller saw: a stale list of
    a collection that never changed is drawn, not hit.
    """

    def __init__(self, source: FaultSource) -> None:
        self._source = source
        self._calls: Counter[str] = Counter()
        self.on = True
        self.taken: list[Fault] = []
        self.hits: Counter[str] = Counter()
        self.on_taken: list[Callable[[Fault], None]] = []

    def consult(self, site: str, offered: tuple[str, ...]) -> Fault | None:
        self._calls[site] += 1
        if not self.on:
            return None
        fault = self._source.decide(site, self._calls[site], offered)
        if fault is not None:
            self.taken.append(fault)
            for hook in self.on_taken:
                hook(fault)
        return fault

    def count(self, site: str) -> int:
        """How often a site was reached so far."""
        return self._calls[site]

    def hit(self, fault: Fault) -> None:
        self.hits[fault.kind] += 1

    def drawn(self) -> Counter[str]:
        return Counter(fault.kind for fault in self.taken)
