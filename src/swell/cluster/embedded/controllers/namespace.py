"""Decides how a deleted namespace is emptied: pods first, then the rest, then its own finalizer.

Objects are deleted by UID, and may stay while they have finalizers. The namespace's finalizer is
removed when the last object is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from swell.api.codec import to_body
from swell.api.core import Namespace
from swell.api.kinds import NAMESPACES, PODS
from swell.api.meta import Body, Condition, Key, Uid
from swell.api.resource import Resource
from swell.api.times import format_time
from swell.runtime.plan import (
    NOTHING,
    DeleteObject,
    PatchObject,
    PatchStatus,
    Plan,
    Together,
    patch_object,
)

FINALIZER = "kubernetes"
TERMINATING = "Terminating"
FINALIZE = NAMESPACES.sub("finalize", Namespace)


@dataclass(frozen=True, slots=True)
class NamespacedObject:
    """One object in a namespace, with what matters for its deletion."""

    resource: Resource[Body]
    key: Key
    uid: Uid
    is_deleted: bool
    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamespaceSnapshot:
    """A namespace and, when it is being deleted, everything in it."""

    namespace: Namespace
    contents: tuple[NamespacedObject, ...]


def is_emptying(namespace: Namespace) -> bool:
    """Whether the namespace was deleted and still waits for its contents."""
    deleted = namespace.metadata.deletion_timestamp is not None
    return deleted and FINALIZER in namespace.spec.finalizers


def decide_namespace(snapshot: NamespaceSnapshot, now: float) -> Plan:
    """Plan the next step of a deleted namespace."""
    namespace, contents = snapshot.namespace, snapshot.contents
    if not is_emptying(namespace):
        return NOTHING
    pods = tuple(content for content in contents if str(content.resource) == str(PODS))
    deletes = tuple(
        DeleteObject(c.resource, c.key, c.uid, propagation="Background")
        for c in pods or contents
        if not c.is_deleted
    )
    if deletes:
        # Objects with finalizers stay, which no event reports: a second pass reports them.
        return Plan((Together(deletes),), wake_at=now, reasons=("contents",))
    # While there are pods nothing else has been deleted yet, so nothing is reported as remaining.
    steps = _status_steps(namespace, () if pods else contents, now)
    if contents:
        return Plan(steps, reasons=("waiting",))
    return Plan((*steps, _finalize(namespace)), reasons=("empty",))


def _finalize(namespace: Namespace) -> PatchObject:
    metadata = namespace.metadata
    left = [name for name in namespace.spec.finalizers if name != FINALIZER]
    return patch_object(FINALIZE, metadata.key, metadata.uid, {"spec": {"finalizers": left}})


def _status_steps(
    namespace: Namespace, remaining: Sequence[NamespacedObject], now: float
) -> tuple[PatchStatus, ...]:
    conditions = _conditions(namespace.status.conditions, remaining, now)
    status: Body = {}
    if conditions != namespace.status.conditions:
        status["conditions"] = [to_body(condition) for condition in conditions]
    if namespace.status.phase != TERMINATING:
        status["phase"] = TERMINATING
    metadata = namespace.metadata
    if not status:
        return ()
    return (PatchStatus(NAMESPACES, metadata.key, metadata.resource_version, status),)


def _conditions(
    held: tuple[Condition, ...], remaining: Sequence[NamespacedObject], now: float
) -> tuple[Condition, ...]:
    """The conditions of the deletion. A transition time changes only with its status."""
    old = {condition.type: condition for condition in held}
    new = {
        c.type: _kept_time(old.get(c.type), c)
        for c in _deletion_conditions(remaining, format_time(now))
    }
    others = tuple(condition for condition in held if condition.type not in new)
    return (*others, *new.values())


def _kept_time(old: Condition | None, new: Condition) -> Condition:
    if old is None or old.status != new.status:
        return new
    if (old.reason, old.message) == (new.reason, new.message):
        return old
    return msgspec.structs.replace(new, last_transition_time=old.last_transition_time)


def _deletion_conditions(remaining: Sequence[NamespacedObject], moment: str) -> list[Condition]:
    kinds = Counter(str(content.resource) for content in remaining)
    waited = Counter(name for content in remaining for name in content.finalizers)

    def condition(type_: str, found: Counter[str], ok: str, not_ok: str) -> Condition:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(found.items()))
        return Condition(
            type=type_,
            status="True" if found else "False",
            reason=not_ok if found else ok,
            message=f"still there: {listed}" if found else "",
            last_transition_time=moment,
        )

    none: Counter[str] = Counter()
    return [
        condition("NamespaceDeletionDiscoveryFailure", none, "ResourcesDiscovered", ""),
        condition("NamespaceDeletionGroupVersionParsingFailure", none, "ParsedGroupVersions", ""),
        condition("NamespaceDeletionContentFailure", none, "ContentDeleted", ""),
        condition("NamespaceContentRemaining", kinds, "ContentRemoved", "SomeResourcesRemain"),
        condition(
            "NamespaceFinalizersRemaining",
            waited,
            "ContentHasNoFinalizers",
            "SomeFinalizersRemain",
        ),
    ]
