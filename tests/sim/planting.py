"""Parts of planted bugs that more than one subject has: mistakes against the runtime."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from swell.api.meta import Body, Key
from swell.api.resource import ApiObject
from swell.runtime.cache import CacheChange, ObjectCache, identity_of
from swell.runtime.cluster import Malformed, merge_patch
from swell.runtime.executor import Failure, FailureKind
from swell.runtime.plan import PatchObject, PatchStatus, Plan, Step
from swell.runtime.tombstones import Tombstones
from swell.runtime.uncertain import UncertainKeys

T = TypeVar("T", bound=ApiObject)


def believe_lists(*informers: Any) -> None:
    """Any list is taken for the truth, however old it is."""
    for informer in informers:
        informer._cache = CredulousCache(informer._cache._indexes)


def hide_malformed(informer: Any) -> None:
    """An object that cannot be decoded is taken for one that does not exist."""
    get, by_index, malformed = informer.get, informer.by_index, informer.malformed

    def get_readable(key: Key) -> Any:
        return get(key) if malformed(key) is None else None

    def find_readable(index: str, value: Hashable) -> tuple[Any, ...]:
        return tuple(one for one in by_index(index, value) if not malformed(one.metadata.key))

    informer.get, informer.by_index = get_readable, find_readable
    informer.malformed = lambda _: None


def trust_lost_answers(uncertain: UncertainKeys) -> None:
    """A write without an answer is taken for one that did not happen."""
    record = uncertain.record

    def record_others(owner: Key, failures: Iterable[Failure]) -> None:
        record(owner, [f for f in failures if f.kind is not FailureKind.UNKNOWN])

    uncertain.record = record_others  # type: ignore[method-assign]


def act_then_record(plan: Plan) -> Plan:
    """Status is written after the actions that it records."""
    records = [step for step in plan.actions if isinstance(step, PatchStatus)]
    acts = [step for step in plan.actions if not isinstance(step, PatchStatus)]
    return replace(plan, actions=(*acts, *records))


def blind_status(plan: Plan, **metadata: str) -> Plan:
    """Status is written without the version it was computed from."""

    def blind(step: Step) -> Step:
        if not isinstance(step, PatchStatus):
            return step
        body: Body = {"metadata": metadata, "status": step.status}
        return PatchObject(step.resource.status, step.key, merge_patch(body))

    return replace(plan, actions=tuple(map(blind, plan.actions)))


class CredulousCache(ObjectCache[T]):
    """Takes any list for the truth, however old it is."""

    def replace(self, listed: Iterable[T | Malformed], version: int) -> list[CacheChange[T]]:
        found = [item for item in listed if not isinstance(item, Malformed)]
        keys = {item.metadata.key for item in found}
        changes = [self._swap(e.key, e, None) for e in list(self) if e.key not in keys]
        self.version = 0
        self._tombstones = Tombstones()
        self._deleted.clear()
        for item in found:
            after = self._entry_of(identity_of(item), item)
            changes.append(self._swap(after.key, self._entries.get(after.key), after))
        self.advance(version)
        return changes
