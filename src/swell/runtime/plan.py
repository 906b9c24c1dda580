"""The value a decision returns: actions in order, when to look again, and why.

The author of a decision orders the actions: record the intent, act, confirm. They run one after
the other up to the first failure; those in a `Together` are independent and may run at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.core import EventSeverity, ObjectReference
from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.runtime.cluster import Patch, merge_patch


class PlanError(ValueError):
    """A plan that breaks the rules of plans: a bug in the decision that made it."""


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Create an object under a deterministic name. A binding or eviction has its pod's name."""

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
    """Merge into the status, if the object still has the version the decision was made from.

    The first status an object gets has nothing to be merged with. It is put as a whole, which
    costs an API server less.
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
    """Patch an object, if it is still the one with the UID that the patch names.

    The patch holds the precondition: `metadata.uid`, and `metadata.resourceVersion` where the new
    content depends on the old. `patch_object` makes such merge patches.
    """

    resource: Resource[object]
    key: Key
    patch: Patch


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the object with this UID, never another one of the same name.

    With a `version` it is deleted only in the state that the decision was made from. With
    `within_s` it is begun only that soon after the decision: an older one is decided anew. So a
    delete that rests on something no precondition can name is not sent by a process that was
    stopped in between.
    """

    resource: Resource[object]
    key: Key
    uid: Uid
    grace_s: int | None = None
    propagation: str | None = None
    version: str | None = None
    within_s: float | None = None

    def __post_init__(self) -> None:
        if not self.uid:
            raise PlanError(f"delete of {self.resource} {self.key} without a UID")


@dataclass(frozen=True, slots=True)
class IssueSecret:
    """Create a Secret with a value that is drawn at random, and record on its owner that it exists.

    The value is drawn when the plan is carried out. The record is an annotation of the owner: the
    HMAC of `label` by the value, from which the value cannot be told. A Secret that exists already
    fails the action: nobody can read its value, so the plan that comes next has to replace it.
    """

    resource: Resource[object]  # of the owner
    key: Key
    uid: Uid
    secret: Body
    entry: str
    annotation: str
    label: bytes

    def __post_init__(self) -> None:
        if not self.uid:
            raise PlanError(f"secret of {self.resource} {self.key} without its UID")


@dataclass(frozen=True, slots=True)
class DeleteSecret:
    """Delete a Secret by a name that only its owner's Secret can have, since it has its UID.

    Controllers have no right to read Secrets. The UID of this one is asked for just before, so that
    a delete that is applied late never meets the Secret that came after it. Where one is there, its
    UID goes into the annotation `note` of its `owner` before, so that a record of it that is still
    on its way can no longer be applied: that is made for the version before.
    """

    resource: Resource[object]
    key: Key
    owner: tuple[Resource[object], Key, Uid] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Record a Kubernetes event. It never fails and is never waited for."""

    resource: Resource[object]
    key: Key
    uid: Uid
    severity: EventSeverity
    reason: str
    message: str
    action: str = ""  # what was done about it, in one word; by default the reason
    related: ObjectReference | None = None  # another object that it is about


Write = CreateObject | PatchStatus | PatchObject | DeleteObject | IssueSecret | DeleteSecret
Action = Write | EmitEvent


@dataclass(frozen=True, slots=True)
class Together:
    """Actions on different objects that may run at once; they begin in the order given."""

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
    """Steps in order. At `wake_at`, in wall time, the key is reconciled even if nothing changes.

    A plan that `needs_consistent_read` is right only if some object does not exist. It is made
    again from a consistent read before it is carried out.
    """

    actions: tuple[Step, ...] = ()
    wake_at: float | None = None
    reasons: tuple[str, ...] = ()
    needs_consistent_read: bool = False

    def each_action(self) -> Iterator[Action]:
        """Yields every single action, in the order in which they begin."""
        for step in self.actions:
            yield from step.actions if isinstance(step, Together) else (step,)


NOTHING = Plan()


def patch_object(
    resource: Resource[object], key: Key, uid: Uid, body: Body, *, version: str = ""
) -> PatchObject:
    """Returns a merge patch that only the object with this UID (and version) accepts."""
    if not uid:
        raise PlanError(f"patch of {resource} {key} without a UID")
    metadata = {**body.get("metadata", {}), "uid": uid}
    if version:
        metadata["resourceVersion"] = version
    return PatchObject(resource, key, merge_patch({**body, "metadata": metadata}))
