"""What a decision returns: actions in order, when to look again, and why. Values only.

Order is the author's: record intent, act, confirm. Actions run one after the other and stop at the
first failure; those in a `Together` do not depend on one another and may run at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.core import EventSeverity
from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.runtime.cluster import Patch, merge_patch


class PlanError(ValueError):
    """A plan that breaks the rules of plans: a bug in the decision that made it."""


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Create under a deterministic name. For a binding or eviction, the parent's name."""

    resource: Resource[object]
    body: Body
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not self.body.get("metadata", {}).get("name"):
            raise PlanError(f"create of a {self.resource} without a name")

    @property
    def key(self) -> Key:
        metadata = self.body["metadata"]
        return Key(metadata.get("namespace", ""), metadata["name"])


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Merge into the status, provided that the object is still what the decision was made from.

    `version` is the resource version the new status was computed from. The first one an object
    gets has nothing to be merged with: it is put as it is, which costs an API server less.
    """

    resource: Resource[object]
    key: Key
    version: str
    status: Body
    is_first: bool = False

    def __post_init__(self) -> None:
        if not self.version:
            raise PlanError(f"status of {self.resource} {self.key} without a version")


@dataclass(frozen=True, slots=True)
class PatchObject:
    """Patch an object, provided that it is still the one with this UID.

    The patch itself says so: put `metadata.uid` in it, and `metadata.resourceVersion` where the
    new content depends on the old. `patch_object` does it for merge patches.
    """

    resource: Resource[object]
    key: Key
    patch: Patch


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the object with this UID, never another one of the same name.

    With a `version`, only in the state the decision was made from.
    """

    resource: Resource[object]
    key: Key
    uid: Uid
    grace_s: int | None = None
    propagation: str | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        if not self.uid:
            raise PlanError(f"delete of {self.resource} {self.key} without a UID")


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Tell people about something; never fails, is never waited for."""

    resource: Resource[object]
    key: Key
    uid: Uid
    severity: EventSeverity
    reason: str
    message: str


Write = CreateObject | PatchStatus | PatchObject | DeleteObject
Action = Write | EmitEvent


@dataclass(frozen=True, slots=True)
class Together:
    """Actions on different objects, in any order and at once; begun in the order given."""

    actions: tuple[Action, ...]

    def __post_init__(self) -> None:
        touched = [
            (str(a.resource), a.resource.subresource, a.key)
            for a in self.actions
            if not isinstance(a, EmitEvent)
        ]
        if len(set(touched)) != len(touched):
            raise PlanError("two actions on one object cannot run together")


Step = Action | Together


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order; `wake_at`, in wall time, asks for another look even if nothing happens.

    A plan that `rests_on_absence` is right only if something is certainly not there: before it is
    carried out it is made again, from a consistent read.
    """

    actions: tuple[Step, ...] = ()
    wake_at: float | None = None
    reasons: tuple[str, ...] = ()
    needs_consistent_read: bool = False

    def each_action(self) -> Iterator[Action]:
        """Every single action, in the order of issue."""
        for step in self.actions:
            yield from step.actions if isinstance(step, Together) else (step,)


NOTHING = Plan()


def patch_object(
    resource: Resource[object], key: Key, uid: Uid, body: Body, *, version: str = ""
) -> PatchObject:
    """A merge patch that only the object with this UID (and version, if given) accepts."""
    if not uid:
        raise PlanError(f"patch of {resource} {key} without a UID")
    metadata = {**body.get("metadata", {}), "uid": uid}
    if version:
        metadata["resourceVersion"] = version
    return PatchObject(resource, key, merge_patch({**body, "metadata": metadata}))
