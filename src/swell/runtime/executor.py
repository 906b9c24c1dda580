"""Carries out plans. The one place where decisions become writes.

It stops at the first failure and classifies it, and never decides what to do instead. Every answer
goes to the informers before the next action, so that later decisions read these writes.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from swell.api.kinds import SECRETS
from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.cluster import Cluster, Deletion, Selection, WriteOptions, merge_patch
from swell.runtime.errors import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    InvalidError,
    MalformedError,
    NotFoundError,
    OutcomeUnknownError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from swell.runtime.plan import (
    Action,
    CreateObject,
    DeleteObject,
    DeleteSecret,
    EmitEvent,
    IssueSecret,
    PatchObject,
    PatchStatus,
    Plan,
    Together,
    Write,
    patch_object,
)

# The reason reported when the name of an object to create is taken by another owner's.
NAME_TAKEN = "NameTaken"
# The reason reported when too much time has passed since the decision.
TOO_LATE = "TooLate"
_SYSTEM_CLOCK = SystemClock()


class Observer(Protocol):
    """Receives the answers to writes of one resource: an informer."""

    @property
    def resource(self) -> Resource[object]: ...

    def observe_answer(self, answer: object) -> None: ...

    def observe_deleted(self, key: Key, uid: Uid) -> None: ...


class EventSink(Protocol):
    """Takes events to be written later: a recorder."""

    def record(self, event: EmitEvent) -> None: ...


class WriteMeter(Protocol):
    """Counts writes by resource, verb and result."""

    def wrote(self, resource: str, verb: str, result: str) -> None: ...


class FailureKind(Enum):
    """The meaning of a failed write for the next decision, the worst first."""

    # It may have happened: read consistently before deciding anything.
    UNKNOWN = "unknown"
    # The object is not in the state that the decision was made from: decide again.
    STALE = "stale"
    # The server does not allow this write, and will not allow it unchanged.
    REFUSED = "refused"
    # Nothing happened and nothing is wrong with the write: try later.
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Failure:
    """A write that failed, and how."""

    action: Write
    kind: FailureKind
    reason: str
    message: str
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many actions of a plan were done. Actions that run together may fail together."""

    n_done: int
    failures: tuple[Failure, ...] = ()

    @property
    def worst(self) -> Failure | None:
        """The failure that decides what to do next; the first issued among equals."""
        order = list(FailureKind)
        return min(self.failures, key=lambda failure: order.index(failure.kind), default=None)


class Executor:
    """Carries out plans against a cluster, and shows the answers to informers."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        informers: Sequence[Observer] = (),
        events: EventSink | None = None,
        meter: WriteMeter | None = None,
        concurrency: int = 32,
        write_s: float = 60.0,
        clock: Clock = _SYSTEM_CLOCK,
        draw: Callable[[], str] = secrets.token_hex,
    ) -> None:
        self._cluster = cluster
        self._informers: dict[str, list[Observer]] = {}
        for informer in informers:
            self._informers.setdefault(str(informer.resource), []).append(informer)
        self._events = events
        self._meter = meter
        self._concurrency = concurrency
        self._write_s = write_s
        self._clock = clock
        self._draw = draw

    async def execute(self, plan: Plan, *, decided_s: float | None = None) -> Outcome:
        """Do the steps of a plan in order, up to the first that fails.

        `decided_s` is when the plan was made, by the monotonic clock; by default it is now.
        """
        since_s = self._clock.monotonic() if decided_s is None else decided_s
        n_done = 0
        for step in plan.actions:
            actions = step.actions if isinstance(step, Together) else (step,)
            failures = await self._together(actions, since_s)
            # Later steps rest on earlier ones, as deleting pods does on the status that counts
            # them. So nothing after a failure is begun.
            if failures:
                return Outcome(n_done, tuple(failures))
            n_done += len(actions)
        return Outcome(n_done)

    async def _together(self, actions: Sequence[Action], since_s: float) -> list[Failure]:
        """Do independent actions, some at a time, begun in order. Returns failures in that order.

        After a failure no more are begun. Those under way are awaited and not cancelled, because
        the outcome of a cancelled write is unknown.
        """
        if len(actions) == 1:
            failure = await self._do(actions[0], since_s)
            return [failure] if failure else []
        failures: dict[int, Failure] = {}
        left = iter(enumerate(actions))
        n_workers = min(self._concurrency, len(actions))
        workers = (self._work_off(left, failures, since_s) for _ in range(n_workers))
        # Exceptions as results: without that gather would return while other writes are under way.
        results = await asyncio.gather(*workers, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [failures[position] for position in sorted(failures)]

    async def _work_off(
        self, left: Iterator[tuple[int, Action]], failures: dict[int, Failure], since_s: float
    ) -> None:
        for position, action in left:
            failure = await self._do(action, since_s)
            if failure:
                failures[position] = failure
            if failures:
                return

    async def _do(self, action: Action, since_s: float) -> Failure | None:
        if isinstance(action, EmitEvent):
            if self._events:
                self._events.record(action)
            return None
        if isinstance(action, DeleteObject) and action.within_s is not None:
            age_s = self._clock.monotonic() - since_s
            if age_s > action.within_s:
                message = f"decided {age_s:.0f} s ago, which is more than {action.within_s:.0f} s"
                return Failure(action, FailureKind.STALE, TOO_LATE, message)
        try:
            async with asyncio.timeout(self._write_s):
                failure = await self._write(action)
        except ClusterError as error:
            failure = _failure(action, _kind_of(error), error)
        except UnreachableError as error:
            failure = _failure(action, FailureKind.RETRY, error)
        except (OutcomeUnknownError, TimeoutError, MalformedError) as error:
            # A malformed answer means that the write was done, and what is stored is not known.
            failure = _failure(action, FailureKind.UNKNOWN, error)
        if self._meter:
            result = failure.kind.value if failure else "done"
            self._meter.wrote(str(action.resource), _verb(action), result)
        return failure

    async def _write(self, action: Write) -> Failure | None:
        match action:
            case CreateObject():
                return await self._create(action)
            case PatchStatus(resource):
                self._observe(resource, await self._write_status(action))
            case PatchObject(resource, key, patch):
                answer = await self._cluster.patch(resource, key, patch)
                self._observe(resource, answer)
            case DeleteObject():
                return await self._delete(action)
            case IssueSecret(resource):
                self._observe(resource, await self._issue(action))
            case DeleteSecret():
                await self._delete_secret(action)
        return None

    async def _write_status(self, action: PatchStatus) -> object:
        resource, key = action.resource, action.key
        body: Body = {"metadata": {"resourceVersion": action.version}, "status": action.status}
        if not action.is_first:
            return await self._cluster.patch(resource.status, key, merge_patch(body))
        # A put to the status takes nothing else from the body, so the rest need not be sent.
        body["metadata"] |= {"name": key.name, "namespace": key.namespace}
        body |= {"apiVersion": resource.api_version, "kind": resource.kind}
        return await self._cluster.update(resource.status, body)

    async def _issue(self, action: IssueSecret) -> object:
        # The record is made in the state that the owner has before its secret exists. Without that
        # a record of an earlier secret, whose answer was lost, could be applied over a later one.
        # It is read as a list of one, which takes no right that controllers do not have anyway.
        one = Selection(action.key.namespace, fields=f"metadata.name={action.key.name}")
        page = await self._cluster.list(action.resource.untyped(), one)
        version = page.items[0]["metadata"]["resourceVersion"] if page.items else ""
        value = self._draw().encode()
        data = {action.entry: base64.b64encode(value).decode()}
        try:
            await self._cluster.create(SECRETS, {**action.secret, "data": data})
        except AlreadyExistsError as error:
            # Whether it was made by a plan whose answer was lost or by somebody else, its value
            # is not known. As a conflict it lets the owner be decided on anew.
            raise ConflictError(error.status) from error
        token = hmac.digest(value, action.label, "sha256").hex()
        body: Body = {"metadata": {"annotations": {action.annotation: token}}}
        record = patch_object(action.resource, action.key, action.uid, body, version=version)
        return await self._cluster.patch(action.resource, action.key, record.patch)

    async def _delete_secret(self, action: DeleteSecret) -> None:
        resource, key = action.resource, action.key
        try:
            uid = await self._cluster.try_delete(resource, key)
            if action.owner is not None:
                body: Body = {"metadata": {"annotations": {action.note: uid}}}
                noted = patch_object(*action.owner, body)
                self._observe(
                    noted.resource, await self._cluster.patch(*action.owner[:2], noted.patch)
                )
            await self._cluster.delete(resource, key, Deletion(uid=uid))
        except NotFoundError:
            return  # what was wanted holds

    async def _create(self, action: CreateObject) -> Failure | None:
        options = WriteOptions(dry_run=action.dry_run)
        try:
            answer: object = await self._cluster.create(action.resource, action.body, options)
        except AlreadyExistsError as error:
            # A dry run makes nothing that could be ours, and a binding has no owner to compare.
            if action.dry_run or action.resource.subresource:
                raise
            return await self._settle_existing(action, error)
        if not action.dry_run:
            self._observe(action.resource, answer)
        return None

    async def _settle_existing(
        self, action: CreateObject, error: AlreadyExistsError
    ) -> Failure | None:
        """Decide a create whose name is in use. If the owner is the same, we made it before."""
        try:
            found = await self._cluster.get(action.resource.untyped(), action.key)
        except NotFoundError:
            return _failure(action, FailureKind.STALE, error)
        self._observe(action.resource, found)
        owner = _controller_uid(action.body)
        if owner and _controller_uid(found) == owner:
            return None
        message = f"{action.resource} {action.key} exists and is not ours"
        return Failure(action, FailureKind.REFUSED, NAME_TAKEN, message)

    async def _delete(self, action: DeleteObject) -> Failure | None:
        deletion = Deletion(
            uid=action.uid,
            resource_version=action.version,
            grace_s=action.grace_s,
            propagation=action.propagation,
        )
        try:
            left = await self._cluster.delete(action.resource, action.key, deletion)
        except NotFoundError:
            # Deleted already, by us before or by another: what was wanted holds.
            left = None
        except ConflictError as error:
            # Mostly another object has the name by now. But a server may also answer so when it
            # lost a race with itself, and the object is still there.
            return await self._settle_undeleted(action, error)
        if left is None:
            self._observe_deleted(action)
        else:
            self._observe(action.resource, left)
        return None

    async def _settle_undeleted(self, action: DeleteObject, error: ConflictError) -> Failure | None:
        try:
            found = await self._cluster.get(action.resource.untyped(), action.key)
        except NotFoundError:
            self._observe_deleted(action)
            return None
        if found["metadata"].get("uid") == action.uid:
            return _failure(action, FailureKind.STALE, error)
        self._observe_deleted(action)
        self._observe(action.resource, found)
        return None

    def _observe(self, resource: Resource[object], answer: object) -> None:
        # The answer to a binding or an eviction is not the object.
        if resource.subresource in {"", "status"}:
            for informer in self._informers.get(str(resource), ()):
                informer.observe_answer(answer)

    def _observe_deleted(self, action: DeleteObject) -> None:
        for informer in self._informers.get(str(action.resource), ()):
            informer.observe_deleted(action.key, action.uid)


def _verb(action: Write) -> str:
    """Returns the name a write is counted under."""
    if isinstance(action, CreateObject) and action.dry_run:
        return "DryRun"
    return type(action).__name__


def _kind_of(error: ClusterError) -> FailureKind:
    if isinstance(error, ServerError):
        # A server that fails after it stored the object answers like one that failed before.
        return FailureKind.UNKNOWN
    if isinstance(error, ConflictError | NotFoundError) or _is_uid_mismatch(error):
        return FailureKind.STALE
    if isinstance(error, TooManyRequestsError):
        return FailureKind.RETRY
    return FailureKind.REFUSED


def _is_uid_mismatch(error: ClusterError) -> bool:
    """Whether a patch met an object with another UID: that counts as an attempt to change it."""
    causes = error.status.details.causes if error.status.details else ()
    return isinstance(error, InvalidError) and any(c.field == "metadata.uid" for c in causes)


def _failure(action: Write, kind: FailureKind, error: Exception) -> Failure:
    if isinstance(error, ClusterError):
        reason = error.status.reason or type(error).__name__
        return Failure(action, kind, reason, str(error), error.retry_after_s)
    return Failure(action, kind, type(error).__name__, str(error))


def _controller_uid(body: Body) -> str:
    owners = body.get("metadata", {}).get("ownerReferences") or ()
    return next((str(owner.get("uid", "")) for owner in owners if owner.get("controller")), "")
