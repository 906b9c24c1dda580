"""Delete and deletecollection: preconditions, grace periods, finalizers, propagation.

`plan_deletion` is the pure rule; `DeleteVerbs` executes it. Dependents are handled by the garbage
collector: a delete only adds the finalizer that names the propagation policy.

    present --delete--> removed                       no finalizers, no grace period
       |
       +--delete--> marked (deletionTimestamp) --last finalizer removed--> removed
       |                  |
       |                  +--namespaces: emptied and finalized--> removed
       |
       +--delete--> in its grace period (pods) --delete with 0, by the node agent--> removed
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from swell.api.meta import Body, Key
from swell.api.times import format_time, parse_time
from swell.cluster.embedded import refusals
from swell.cluster.embedded.objectmeta import FOREGROUND, ORPHAN
from swell.cluster.embedded.refusals import access_denied
from swell.cluster.embedded.registry import ServedKind, WriteContext
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.core import ServerCore
from swell.cluster.embedded.verbs.reading import ReadVerbs
from swell.cluster.embedded.verbs.requests import (
    Deleted,
    DeleteOptions,
    ListOptions,
    Page,
    RequestContext,
)
from swell.cluster.embedded.verbs.writing import NAMESPACES
from swell.runtime.errors import NotFoundError
from swell.schema.field_errors import FieldError, invalid, not_supported

GRACE_S_DEFAULT = 30  # Kubernetes' default of terminationGracePeriodSeconds
# kube-apiserver's NamespaceLifecycle admission protects these.
PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """First write `marked`, if there is one; then remove the object, or leave it waiting."""

    marked: Body | None
    remove: bool


class DeleteVerbs:
    """The verbs delete and deletecollection."""

    def __init__(self, core: ServerCore, reads: ReadVerbs) -> None:
        self._core = core
        self._reads = reads

    def delete(
        self, kind: ServedKind, key: Key, options: DeleteOptions, request: RequestContext
    ) -> Deleted:
        context = self._core.context("delete", request)
        _warn_of_orphans(kind, options, request)
        _check_options(options)
        stored = self._core.require(kind, key)
        _check_preconditions(kind, key, stored, options)
        if kind.collection == NAMESPACES and key.name in PROTECTED_NAMESPACES:
            raise access_denied(kind.plural, "", key.name, "this namespace may not be deleted")
        plan = plan_deletion(kind, stored.copy(), options, context.now)
        return self._execute(kind, key, stored, plan, context)

    def list_for_deletion(
        self,
        kind: ServedKind,
        selection: ListOptions,
        options: DeleteOptions,
        request: RequestContext,
    ) -> Page:
        """The objects that a delete of a collection is about."""
        self._reads.check(kind, selection)
        _warn_of_orphans(kind, options, request)
        _check_options(options)
        # A real server lists in pages, and with a limit a version means exactly that one.
        exact = selection.resource_version not in {"", "0"} and not selection.resource_version_match
        return self._reads.list(
            kind, replace(selection, resource_version_match="Exact") if exact else selection
        )

    def delete_listed(
        self, kind: ServedKind, page: Page, options: DeleteOptions, request: RequestContext
    ) -> Iterator[None]:
        """Delete the listed objects, one at each step; one that is gone already is no error."""
        for stored in page.items:
            metadata = stored.metadata
            key = Key(metadata.get("namespace", ""), metadata["name"])
            with suppress(NotFoundError):
                self.delete(kind, key, options, request)
            yield

    def _execute(
        self, kind: ServedKind, key: Key, stored: Stored, plan: DeletionPlan, context: WriteContext
    ) -> Deleted:
        storage_kind = self._core.registry.stored(kind.collection) or kind
        # Marks are made in the stored form, whichever version the delete came through.
        left = stored
        if plan.marked is not None and plan.marked != stored.body:
            left = self._core.put(storage_kind, key, stored, plan.marked, context)
        if not plan.remove:
            return Deleted(self._core.as_served(kind, left), False, left.version)
        version = self._core.remove(storage_kind, key, left, context)
        return Deleted(self._core.as_served(kind, left), True, version)


def plan_deletion(kind: ServedKind, body: Body, options: DeleteOptions, now: float) -> DeletionPlan:
    """Decide what a delete does to an object. The body may be changed."""
    metadata = body["metadata"]
    # A namespace stays until its controller has emptied it.
    if kind.collection == NAMESPACES and not _is_namespace_finalized(body):
        return _mark_namespace(body, options, now)
    grace_s = options.grace_s
    if grace_s is not None and grace_s < 0:
        grace_s = 1  # as a real server reads a negative period
    graceful = False
    if kind.graceful:
        graced = _grace(body, grace_s, now)
        if graced is None:
            return DeletionPlan(None, remove=False)
        graceful = graced
    finalizers = _finalizers(kind, metadata.get("finalizers") or [], options)
    if kind.deletion_finalizer and not metadata.get("deletionTimestamp"):
        finalizers = [*finalizers, kind.deletion_finalizer]
    # Compared as sets, so that a delete does not reorder the list and make a new version.
    if set(finalizers) != set(metadata.get("finalizers") or ()):
        metadata["finalizers"] = finalizers
        if not finalizers:
            del metadata["finalizers"]
    if graceful:
        waits = bool(finalizers or metadata["deletionGracePeriodSeconds"])
        return DeletionPlan(body, remove=not waits)
    if finalizers:
        _mark(kind, metadata, now)  # the update that removes the last finalizer removes it
        return DeletionPlan(body, remove=False)
    return DeletionPlan(None, remove=True)


def _grace(body: Body, grace_s: int | None, now: float) -> bool | None:
    """Set or shorten a pod's grace period.

    True: it was set or shortened. False: it is 0 already, so the pod may go. None: a delete during
    the period that does not shorten it changes nothing.
    """
    metadata = body["metadata"]
    if not metadata.get("deletionTimestamp"):
        period_s = _first_grace_s(body, grace_s)
        metadata["deletionTimestamp"] = format_time(now + period_s)
        metadata["deletionGracePeriodSeconds"] = period_s
        _grow_generation(metadata)
        return True
    period_s = metadata.get("deletionGracePeriodSeconds") or 0
    if not period_s:
        return False
    if grace_s is None or grace_s >= period_s:
        return None
    end = parse_time(metadata["deletionTimestamp"]) - period_s + grace_s
    if end < now:
        # The shortened period has passed already, but only a delete with 0 removes at once.
        end, grace_s = now, min(grace_s, 1)
    metadata["deletionTimestamp"] = format_time(end)
    metadata["deletionGracePeriodSeconds"] = grace_s
    return True


def _first_grace_s(body: Body, grace_s: int | None) -> int:
    """The period of a first delete: 0 for a pod without processes, which nothing would end."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    if grace_s is not None:
        return grace_s
    own = spec.get("terminationGracePeriodSeconds")
    if own is None:
        return GRACE_S_DEFAULT
    return int(own) if own >= 0 else 1


def _mark(kind: ServedKind, metadata: Body, now: float) -> None:
    if kind.deletion_finalizer:  # as on a real server, without generation and grace period
        metadata.setdefault("deletionTimestamp", format_time(now))
        return
    if not metadata.get("deletionTimestamp"):
        _grow_generation(metadata)
    if not metadata.get("deletionTimestamp") or parse_time(metadata["deletionTimestamp"]) > now:
        metadata["deletionTimestamp"] = format_time(now)
    metadata["deletionGracePeriodSeconds"] = 0


def _grow_generation(metadata: Body) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1


def _finalizers(kind: ServedKind, finalizers: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers of the object after the delete, by the policy for its dependents.

    `orphanDependents` is the deprecated form of the policy. Without either, the finalizer of an
    earlier delete counts, then the default of the kind.
    """
    if kind.default_propagation == "Unsupported":
        return [name for name in finalizers if name not in {ORPHAN, FOREGROUND}]
    own = [name for name in finalizers if name not in {ORPHAN, FOREGROUND}]
    if options.orphan_dependents is not None:
        return [*own, ORPHAN] if options.orphan_dependents else own
    policy = options.propagation
    if policy is None:
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        else:
            policy = kind.default_propagation
    return [*own, *{"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])]


def _is_namespace_finalized(body: Body) -> bool:
    """Whether a namespace has been emptied: then its controller removes the finalizer in `spec`."""
    deleting = body["metadata"].get("deletionTimestamp")
    return bool(deleting and not (body.get("spec") or {}).get("finalizers"))


def _mark_namespace(body: Body, options: DeleteOptions, now: float) -> DeletionPlan:
    metadata = body["metadata"]
    if metadata.get("deletionTimestamp"):
        return DeletionPlan(None, remove=False)
    metadata["deletionTimestamp"] = format_time(now)
    body.setdefault("status", {})["phase"] = "Terminating"
    own = [f for f in metadata.get("finalizers") or [] if f not in {ORPHAN, FOREGROUND}]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(options.propagation or "", [])
    if own + added:
        metadata["finalizers"] = own + added
    return DeletionPlan(body, remove=False)


def _check_preconditions(
    kind: ServedKind, key: Key, stored: Stored, options: DeleteOptions
) -> None:
    # Namespaces have a delete of their own on a real server, which names the resource.
    refuse = refusals.conflict if kind.collection == NAMESPACES else refusals.delete_conflict
    if options.uid is not None and options.uid != stored.uid:
        problem = f"the UID in the precondition ({options.uid}) does not match the UID in record"
        raise refuse(kind, key.name, f"{problem} ({stored.uid})")
    wanted = options.resource_version
    if wanted is not None and wanted != str(stored.version):
        problem = f"the ResourceVersion in the precondition ({wanted}) does not match the record's"
        raise refuse(kind, key.name, f"{problem} ({stored.version})")


def _check_options(options: DeleteOptions) -> None:
    field, policy = "propagationPolicy", options.propagation
    if policy is None:
        return
    errors: list[FieldError] = []
    if options.orphan_dependents is not None:
        problem = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid(field, policy, problem))
    if policy not in _POLICIES:
        errors.append(not_supported(field, policy, [*_POLICIES, "nil"]))
    if errors:
        raise refusals.invalid("DeleteOptions", "meta.k8s.io", "", errors)


def _warn_of_orphans(kind: ServedKind, options: DeleteOptions, request: RequestContext) -> None:
    # A real server warns, too: only Jobs leave their dependents behind by default.
    if kind.default_propagation == "Orphan" and not _has_propagation(options):
        request.warnings.append(
            "dependents are left behind when no propagation policy is given; "
            "set propagationPolicy=Background to delete them too"
        )


def _has_propagation(options: DeleteOptions) -> bool:
    return options.propagation is not None or options.orphan_dependents is not None
