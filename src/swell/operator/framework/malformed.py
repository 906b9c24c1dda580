"""The plan for a job object that cannot be decoded. Pure.

The API server has stored the object, so it may own pods. If only its status is malformed, that is
rebuilt, and the job goes on. Otherwise it is reported and cleaned up like any other that ends; a
placeholder with the object's metadata stands in for the job in the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from swell.api.codec import convert
from swell.api.meta import Body, ObjectMeta
from swell.api.resource import ApiObject
from swell.operator.framework.recovery import salvaged
from swell.operator.framework.status import MESSAGE_MAX
from swell.runtime.cluster import Malformed
from swell.runtime.plan import Plan


class JobSnapshot(Protocol):
    """A kind's snapshot, as far as the framework reads it."""

    @property
    def job(self) -> ApiObject: ...


JobT = TypeVar("JobT", bound=ApiObject)
SnapshotT = TypeVar("SnapshotT", bound=JobSnapshot)


@dataclass(frozen=True, slots=True)
class MalformedRules(Generic[JobT, SnapshotT]):
    """The steps in which job kinds differ. `fail` gets the message for the status."""

    placeholder: Callable[[ObjectMeta, Body], JobT]  # from metadata and the undecoded body
    problem: Callable[[Malformed], str]
    has_ended: Callable[[SnapshotT], bool]
    delete: Callable[[SnapshotT, float], Plan]
    after_end: Callable[[SnapshotT, float], Plan]
    fail: Callable[[SnapshotT, str, float], Plan]


def placeholder(rules: MalformedRules[JobT, SnapshotT], found: Malformed) -> JobT:
    """A job with as much as can be read of the malformed one: at least its identity."""
    try:
        meta = convert(found.body.get("metadata"), ObjectMeta)
    except msgspec.ValidationError:
        meta = ObjectMeta()
    # Identity and version come from the store: writes depend on them, whatever the body says.
    meta = msgspec.structs.replace(
        meta,
        name=found.key.name,
        namespace=found.key.namespace,
        uid=found.uid,
        resource_version=found.resource_version,
    )
    return rules.placeholder(meta, found.body)


def without_bad_status(found: Malformed, struct: type[JobT]) -> JobT | None:
    """The job with what can be read of its status; None if more than its status is malformed.

    A job runs by its spec. A status that an other release or another client has written must not
    end it.
    """
    body = {**found.body, "status": {}}
    try:
        job = convert(body, struct)
        body["status"] = salvaged(status_of(found), type(getattr(job, "status")))  # noqa: B009
        return convert(body, struct)
    except msgspec.ValidationError:
        return None


def status_of(found: Malformed) -> Body:
    """The undecoded status; an empty one if it is no object."""
    status = found.body.get("status")
    return status if isinstance(status, dict) else {}


def decide_malformed(
    rules: MalformedRules[JobT, SnapshotT], found: Malformed, snapshot: SnapshotT, now: float
) -> Plan:
    """The plan for the placeholder in the snapshot: delete it, clean up after it, or fail it."""
    if snapshot.job.metadata.deletion_timestamp is not None:
        return rules.delete(snapshot, now)
    if rules.has_ended(snapshot):
        return rules.after_end(snapshot, now)
    message = f"the job cannot be read: {rules.problem(found)}"[:MESSAGE_MAX]
    return rules.fail(snapshot, message, now)
