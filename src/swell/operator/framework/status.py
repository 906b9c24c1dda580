"""Writes on the job object itself, as all kinds make them: phase, status, finalizer, events. Pure.

Each kind brings its own transition table and composes its own status; the rules of writing them
are here once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from enum import Enum
from typing import TypeVar

from msgspec.structs import replace

from swell.api import codec
from swell.api.core import EventSeverity, ObjectReference
from swell.api.meta import Body, Condition, ObjectMeta
from swell.api.resource import Resource
from swell.runtime.plan import EmitEvent, PatchObject, patch_object

P = TypeVar("P", bound=Enum)

# Messages that repeat what containers or the API server said are cut to this many characters.
MESSAGE_MAX = 4096
# A deleted job waits for its record; should nothing wake it, it is looked at again after so long.
RECORD_LOOK_S = 5.0
# The condition that says what of a status was rebuilt, and the event for it. It stays.
RECOVERED = "StatusRecovered"


class IllegalTransitionError(Exception):
    """A decision moved a job to a phase that cannot follow its old one: a bug in the decision."""

    def __init__(self, old: Enum, new: Enum) -> None:
        super().__init__(f"{old.value or 'no phase'} cannot become {new.value}")
        self.old = old
        self.new = new


def advance(transitions: Mapping[P, frozenset[P]], old: P, new: P) -> P:
    """Returns the new phase; raises IllegalTransitionError if it may not follow the old one."""
    if new is old or new in transitions[old]:
        return new
    raise IllegalTransitionError(old, new)


def status_change(old: object, new: object) -> Body:
    """A merge patch from one status to another; empty when they are equal.

    The old one may be plain JSON: a stored status that cannot be decoded is patched, too.
    """
    return _difference(old if isinstance(old, dict) else codec.to_body(old), codec.to_body(new))


def _difference(old: Body, new: Body) -> Body:
    # In a merge patch null removes a field.
    change: Body = {name: None for name in old if name not in new}
    for name, value in new.items():
        held = old.get(name)
        if isinstance(value, dict) and isinstance(held, dict):
            inner = _difference(held, value)
            if inner:
                change[name] = inner
        elif value != held:
            change[name] = value
    return change


def condition(kind: str, holds: bool, reason: str, message: str = "") -> Condition:
    """A condition without its time; `dated` adds that."""
    status = "True" if holds else "False"
    return Condition(type=kind, status=status, reason=reason, message=message)


def dated(condition: Condition, former: Iterable[Condition], at: str) -> Condition:
    """The condition with the time of its last change of status, which may be now."""
    for old in former:
        if old.type == condition.type and old.status == condition.status:
            return replace(condition, last_transition_time=old.last_transition_time)
    return replace(condition, last_transition_time=at)


def generation_marked(
    conditions: Iterable[Condition], former: Iterable[Condition], generation: int, *, is_new: bool
) -> tuple[Condition, ...]:
    """The conditions with the generation of the spec that they were found for.

    While neither the generation nor a condition is new, they keep what they say, which for those
    of Swell 0.1.0 is nothing: an upgrade alone is no reason to write every status.
    """
    marked = tuple(replace(one, observed_generation=generation) for one in conditions)
    held = tuple(former)
    same = tuple(replace(one, observed_generation=generation) for one in held)
    return held if marked == same and not is_new else marked


def add_finalizer(resource: Resource[object], meta: ObjectMeta, name: str) -> PatchObject:
    return _set_finalizers(resource, meta, [*meta.finalizers, name])


def remove_finalizer(resource: Resource[object], meta: ObjectMeta, name: str) -> PatchObject:
    return _set_finalizers(resource, meta, [held for held in meta.finalizers if held != name])


def _set_finalizers(
    resource: Resource[object], meta: ObjectMeta, finalizers: list[str]
) -> PatchObject:
    # A merge patch replaces the whole list, so one that was added meanwhile must not get lost.
    body = {"metadata": {"finalizers": finalizers}}
    return patch_object(resource, meta.key, meta.uid, body, version=meta.resource_version)


@dataclass(frozen=True, slots=True)
class JobEvents:
    """Makes the events about one job."""

    resource: Resource[object]
    meta: ObjectMeta

    def normal(self, reason: str, message: str) -> EmitEvent:
        return self._event(EventSeverity.NORMAL, reason, message)

    def warning(self, reason: str, message: str) -> EmitEvent:
        return self._event(EventSeverity.WARNING, reason, message)

    def phase(self, phase: Enum, message: str, *, is_bad: bool) -> EmitEvent:
        """The event for a phase that begins."""
        text = message or f"{self.meta.name} is {phase.value}"
        say = self.warning if is_bad else self.normal
        return replace_fields(say(f"TrainingJob{phase.value}", text), action="ChangePhase")

    def restart(self, reason: str, message: str, pod: str) -> EmitEvent:
        """The warning for a restart that begins, with the pod that caused it."""
        related = ObjectReference("v1", "Pod", self.meta.namespace, pod)
        return replace_fields(self.warning(reason, message), action="Restart", related=related)

    def at_first(self, missing_priority: str, *, is_gang_missing: bool) -> Iterator[EmitEvent]:
        """The warnings a job gets once, when it is first seen: what it will do without."""
        if missing_priority:
            text = f"PriorityClass {missing_priority} does not exist; pods get no priority"
            yield self.warning("PriorityClassMissing", text)
        if is_gang_missing:
            text = "the cluster has no PodGroup kind; pods are scheduled one by one"
            yield self.warning("GangNotServed", text)

    def recovered(self, conditions: Iterable[Condition]) -> Iterator[EmitEvent]:
        """The warning that a status was rebuilt, in the words of its condition."""
        for one in conditions:
            if one.type == RECOVERED:
                yield self.warning(one.type, one.message)

    def _event(self, severity: EventSeverity, reason: str, message: str) -> EmitEvent:
        return EmitEvent(self.resource, self.meta.key, self.meta.uid, severity, reason, message)
