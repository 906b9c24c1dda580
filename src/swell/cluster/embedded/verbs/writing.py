"""Create, update, patch and apply: the order of checks, and the metadata that the server writes.

Rules of single kinds are behind `KindRules`; deletion is in `deleting`. Every write goes this way:

    options -> types and defaults (`shape`) -> name -> version -> metadata of the server
            -> `prepare` -> generation -> all field errors at once -> commit

An update that removes the last finalizer of a deleted object removes the object instead.

Everything before the commit is a decision, which changes nothing. Small writes are decided and
committed at once. A large one may be decided in another thread, so that other requests are answered
meanwhile; it is committed if nothing that it was decided on has changed since (`is_current`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from swell.api.codec import is_same
from swell.api.meta import Body, Key
from swell.api.times import format_time
from swell.cluster.embedded import refusals
from swell.cluster.embedded.objectmeta import metadata_errors
from swell.cluster.embedded.patching.apply import apply_patch
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import ServedKind, WriteContext
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.applying import (
    MANAGED_FIELDS,
    apply_config,
    checked_config,
    own_fields,
)
from swell.cluster.embedded.verbs.core import ServerCore, refuse_invalid
from swell.cluster.embedded.verbs.requests import RequestContext, Written
from swell.runtime.cluster import Patch, PatchKind
from swell.runtime.errors import ClusterError
from swell.schema.field_errors import invalid

NAMESPACES = "namespaces"
OPERATION_FIELDS = frozenset({"op", "path", "from", "value"})
_VERSION = re.compile(r"[0-9]{1,20}")  # of 64 bits
# Generated names as in Kubernetes: no vowels, so no words; at most 63 characters; eight tries.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_PREFIX_LENGTH_MAX = 63 - refusals.GENERATED_LENGTH
_GENERATE_TRIES_MAX = 8
_STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class _Current(NamedTuple):
    """The stored object, and its body in the served form, decoded for this write alone."""

    stored: Stored
    body: Body


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write that is decided and not committed yet.

    Without a body there is nothing to write. `before` is None for an object to be created.
    """

    kind: ServedKind
    key: Key
    before: Stored | None
    body: Body | None
    context: WriteContext
    decided_at: int  # the version of the store
    removes: bool = False  # the last finalizer of a deleted object is gone

    @property
    def creates(self) -> bool:
        return self.before is None


class WriteVerbs:
    """The verbs create, update, patch and apply."""

    def __init__(self, core: ServerCore) -> None:
        self._core = core

    def commit(self, write: PendingWrite) -> Written:
        """Carry out what has been decided. The caller must not use its body afterwards."""
        kind, key, before = write.kind, write.key, write.before
        if write.body is not None and not write.removes:
            stored = self._core.put(kind, key, before, write.body, write.context)
            return Written(stored, created=before is None)
        if before is None:
            raise AssertionError("a decision to create has a body and removes nothing")
        if write.body is None:  # an update without a change makes no new version
            return Written(self._core.as_served(kind, before))
        version = self._core.remove(kind, key, before, write.context)
        # The result is still the updated object.
        return Written(Stored.of(write.body, version))

    def is_current(self, write: PendingWrite) -> bool:
        """Whether a decision of an earlier moment would be the same now."""
        core, kind = self._core, write.kind
        read = set(write.context.collections_read)
        if kind.namespaced and write.creates:
            read.add(NAMESPACES)
        return (
            core.storage.get(kind.collection, write.key) is write.before
            and core.registry.find(kind.group, kind.version, kind.plural) is kind
            and all(core.storage.changed(one) <= write.decided_at for one in read)
        )

    # -- decisions ---------------------------------------------------------------------------

    def decide_create(
        self, kind: ServedKind, namespace: str, body: Body, request: RequestContext
    ) -> PendingWrite:
        context = self._core.context("create", request)
        body = self._shaped(kind, body, context)
        return self._create(kind, namespace, body, context)

    def review(self, kind: ServedKind, namespace: str, body: Body, request: RequestContext) -> Body:
        """The body of a review, read as one that would be created. Nothing is stored."""
        body = self._shaped(kind, body, self._core.context("create", request))
        if kind.namespaced:
            _set_namespace(kind, namespace, body["metadata"])
        return body

    def decide_update(
        self, kind: ServedKind, key: Key, body: Body, request: RequestContext, subresource: str = ""
    ) -> PendingWrite:
        context = self._core.context("update", request, subresource)
        new = self._shaped(kind, body, context)
        metadata = new["metadata"]
        _check_name(metadata, key)
        stored = self._core.find(kind, key)
        if stored is None:
            if not kind.create_on_update or subresource:
                raise refusals.not_found(kind.plural, kind.group, key.name)
            # A UID names an object that existed; the update must not create another one.
            if metadata.get("uid"):
                raise refusals.conflict(kind, key.name, "Precondition failed: there is no object")
            metadata.pop("resourceVersion", None)
            self._core.check_creation(kind, key, context)
            return self._create(kind, key.namespace, new, context)
        if metadata.get("uid") not in {None, "", stored.uid}:
            uids = f"UID in precondition: {metadata['uid']}, UID in object meta: {stored.uid}"
            raise refusals.conflict(kind, key.name, f"Precondition failed: {uids}")
        return self._replace(kind, key, self._current(kind, stored), new, context)

    def decide_patch(
        self,
        kind: ServedKind,
        key: Key,
        patch: Patch,
        request: RequestContext,
        subresource: str = "",
    ) -> PendingWrite:
        context = self._core.context("patch", request, subresource)
        stored = self._core.require(kind, key)
        current = self._current(kind, stored)
        # A second copy: the patch may change it, and `current` keeps the old state.
        patched = _patched(kind, self._core.as_served(kind, stored).copy(), patch)
        _check_still_named(kind, patched, patch)
        context.unchanged = _unchanged(patched, current.body)
        new = self._shaped(kind, patched, context)
        _report_fields(request, patch)
        _check_name(new["metadata"], key)
        return self._replace(kind, key, current, new, context)

    def decide_apply(
        self,
        kind: ServedKind,
        key: Key,
        body: object,
        request: RequestContext,
        subresource: str = "",
    ) -> PendingWrite:
        """Server-side apply: it creates a missing object."""
        context = self._core.context("patch", request, subresource)
        config = checked_config(kind, key, body, subresource)
        stored = self._core.find(kind, key)
        if stored is None:
            if subresource:
                raise refusals.not_found(kind.plural, kind.group, key.name)
            if config["metadata"].get("uid"):
                raise refusals.conflict(kind, key.name, "uid mismatch: there is no object")
            self._core.check_creation(kind, key, context)
        # A copy of its own: shaping may change it, and the old state is compared with the new one.
        live = self._core.as_served(kind, stored).copy() if stored is not None else None
        found = apply_config(kind, live, config, context, force=request.force)
        context.applied = found.managers
        new = self._shaped(kind, found.body, context)
        _check_name(new["metadata"], key)
        if stored is None:
            return self._create(kind, key.namespace, new, context)
        return self._replace(kind, key, self._current(kind, stored), new, context)

    # -- steps -------------------------------------------------------------------------------

    def _shaped(self, kind: ServedKind, body: Body, context: WriteContext) -> Body:
        """The body after `shape`: typed, defaulted, with a metadata object."""
        context.kind = kind  # a refusal to read the body names it
        if not isinstance(body, dict):
            raise bad_request("the body is not a JSON object")
        for field, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind)):
            given = body.get(field)
            # Built-in kinds are decoded by their path, so a body need not name its type.
            if (given is None or given == "") and not kind.custom:
                body[field] = wanted
            elif given != wanted:
                # See `_wrong_type`: a custom resource with another kind is decoded all the same.
                decoded = field == "kind" or context.verb == "patch"
                if kind.custom and decoded and given and isinstance(given, str):
                    raise _wrong_type(kind, body)
                problem = f"{field} {given!r} in the body, expected {wanted!r}"
                raise refusals.not_of_kind(context.verb, problem)
        body = kind.rules.shape(body, context)
        metadata = body.setdefault("metadata", {})
        # Obsolete, and not stored.
        metadata.pop("selfLink", None)
        return body

    def _create(
        self, kind: ServedKind, namespace: str, body: Body, context: WriteContext
    ) -> PendingWrite:
        decided_at = self._core.storage.version
        metadata = body["metadata"]
        given = metadata.pop(MANAGED_FIELDS, None)
        _set_namespace(kind, namespace, metadata)
        version = metadata.get("resourceVersion") or "0"
        if _VERSION.fullmatch(version) and int(version) > 0:
            raise bad_request("resourceVersion should not be set on objects to be created")
        generated = bool(not metadata.get("name") and metadata.get("generateName"))
        self._check_namespace(kind, namespace, metadata)
        _fill_new(kind, metadata, self._core.new_uid(), context.now)
        if generated:
            metadata["name"] = self._free_name(kind, namespace, metadata["generateName"])
        kind.rules.prepare(body, None, context)
        own_fields(kind, None, body, given, context)
        key = Key(namespace if kind.namespaced else "", metadata.get("name") or "")
        errors = metadata_errors(kind, metadata, None)
        context.metadata_errors.extend(errors)
        own = kind.rules.validate(body, None, context)
        # A real server looks at such kinds' metadata last, when all else is right.
        late = kind.metadata_last and own
        refuse_invalid(kind, key.name, own if late else errors + own)
        if self._core.find(kind, key) is not None:
            raise refusals.already_exists(kind, key.name)
        return PendingWrite(kind, key, None, body, context, decided_at)

    def _current(self, kind: ServedKind, stored: Stored) -> _Current:
        return _Current(stored, self._core.as_served(kind, stored).copy())

    def _replace(
        self, kind: ServedKind, key: Key, current: _Current, new: Body, context: WriteContext
    ) -> PendingWrite:
        decided_at = self._core.storage.version
        stored, old = current
        given = new["metadata"].pop(MANAGED_FIELDS, None)
        self._check_version(kind, key, stored, new["metadata"])
        _set_namespace(kind, key.namespace, new["metadata"])
        _keep_server_fields(new["metadata"], old["metadata"], context)
        new["metadata"]["resourceVersion"] = str(stored.version)
        kind.rules.prepare(new, old, context)
        own_fields(kind, old, new, given, context)
        metadata = new["metadata"]
        if kind.has_generation and kind.rules.grows_generation(new, old):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        errors = metadata_errors(kind, metadata, old["metadata"])
        context.metadata_errors.extend(errors)
        refuse_invalid(kind, key.name, errors + kind.rules.validate(new, old, context))
        removes = ends_deletion(kind, new, old)
        body = None if is_same(new, old) and not removes else new
        return PendingWrite(kind, key, stored, body, context, decided_at, removes)

    def _check_version(self, kind: ServedKind, key: Key, stored: Stored, metadata: Body) -> None:
        given = metadata.get("resourceVersion") or "0"
        if not _VERSION.fullmatch(given):
            raise bad_request(f"invalid resource version {given!r}")
        if int(given) == 0:
            if not kind.unconditional_update:
                error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise refusals.invalid(kind.plural, kind.group, key.name, [error])
        elif int(given) != stored.version:
            raise refusals.conflict(kind, key.name, _STALE)

    def _check_namespace(self, kind: ServedKind, namespace: str, metadata: Body) -> None:
        """Refuse a new object in a namespace that is missing or being deleted."""
        if not kind.namespaced:
            return
        found = self._core.storage.get(NAMESPACES, Key("", namespace))
        if found is None:
            raise refusals.not_found(NAMESPACES, "", namespace)
        if found.metadata.get("deletionTimestamp"):
            name = refusals.admitted_name(metadata)
            raise refusals.namespace_terminating(kind, namespace, name)

    def _free_name(self, kind: ServedKind, namespace: str, prefix: str) -> str:
        """A generated name. After a few tries a taken one is returned, and the create refused."""
        name = ""
        for _ in range(_GENERATE_TRIES_MAX):
            suffix = "".join(self._core.rng.choices(_SUFFIX_ALPHABET, k=refusals.GENERATED_LENGTH))
            name = prefix[:_PREFIX_LENGTH_MAX] + suffix
            if self._core.find(kind, Key(namespace if kind.namespaced else "", name)) is None:
                break
        return name


def _wrong_type(kind: ServedKind, body: Body) -> ClusterError:
    """The refusal of a custom resource of another type.

    A real server decodes any custom resource and then compares its type with the path, so that the
    errors are ones of fields of the given kind.
    """
    wanted = {"apiVersion": kind.api_version, "kind": kind.kind}
    errors = [
        invalid(field, body.get(field), f"must be {value}")
        for field, value in wanted.items()
        if body.get(field) != value
    ]
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    group = str(body.get("apiVersion") or "").rpartition("/")[0]
    given = str(body.get("kind") or "")
    return refusals.invalid(given, group, name if isinstance(name, str) else "", errors)


def ends_deletion(kind: ServedKind, new: Body, old: Body) -> bool:
    """Whether this update removes the last finalizer of an object that is being deleted."""
    metadata = old["metadata"]
    if not metadata.get("deletionTimestamp") or new["metadata"].get("finalizers"):
        return False
    if kind.collection == NAMESPACES and (new.get("spec") or {}).get("finalizers"):
        return False
    # During a grace period the object waits for the node agent, with or without finalizers.
    return not metadata.get("deletionGracePeriodSeconds")


def _unchanged(new: Body, old: Body) -> frozenset[str]:
    """The top-level fields that a patch left as they were."""
    same = (f for f in old if f != "metadata" and f in new and is_same(new[f], old[f]))
    return frozenset(same)


def _check_still_named(kind: ServedKind, patched: Body, patch: Patch) -> None:
    """Refuse a patch that removes the apiVersion of a built-in object.

    A strategic merge patch cannot: it works on the typed object, which keeps its type.
    """
    typed = kind.custom or patch.kind is PatchKind.STRATEGIC
    if not typed and isinstance(patched, dict) and patched.get("apiVersion") in (None, ""):
        raise bad_request("the name of the object was undeterminable: it says no apiVersion")


def _patched(kind: ServedKind, body: Body, patch: Patch) -> Body:
    """The body after the patch.

    Every object of a real server has managers, so that an operation of a JSON patch may remove
    them; here only those of applied objects are kept.
    """
    if patch.kind is not PatchKind.JSON or MANAGED_FIELDS in body["metadata"]:
        return apply_patch(kind, body, patch)
    managed = {**body["metadata"], MANAGED_FIELDS: []}
    patched = apply_patch(kind, {**body, "metadata": managed}, patch)
    metadata = patched.get("metadata")
    if isinstance(metadata, dict) and metadata.get(MANAGED_FIELDS) == []:
        del metadata[MANAGED_FIELDS]
    return patched


def _report_fields(request: RequestContext, patch: Patch) -> None:
    """Refuse or warn of fields that a patch gives twice, and that its operations do not have."""
    if request.field_validation == "Ignore":
        return
    found = [f'duplicate field "{path}"' for path in request.duplicates]
    if patch.kind is PatchKind.JSON and isinstance(patch.body, list):
        for index, operation in enumerate(patch.body):
            strange = [name for name in operation or () if name not in OPERATION_FIELDS]
            found += [f'unknown field "[{index}].{name}"' for name in strange]
    if found and request.field_validation == "Strict":
        raise refusals.strict_decoding("patch", found)
    request.warnings.extend(found)


def _check_name(metadata: Body, key: Key) -> None:
    name = metadata.get("name")
    if not name:
        raise bad_request("the name of the object is empty")
    if name != key.name:
        names = f"({name}) does not match the name on the URL ({key.name})"
        raise bad_request(f"the name of the object {names}")


def _set_namespace(kind: ServedKind, namespace: str, metadata: Body) -> None:
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace") not in {None, "", namespace}:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def _fill_new(kind: ServedKind, metadata: Body, uid: str, now: float) -> None:
    # A client cannot create an object that is being deleted.
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(field, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = format_time(now)
    if kind.has_generation:
        metadata["generation"] = 1  # other kinds keep what they are given, as on a real server


def _keep_server_fields(metadata: Body, old: Body, context: WriteContext) -> None:
    """Take from the old version the metadata that clients cannot change.

    Changes of other fixed fields are refused by `metadata_errors`.
    """
    _take(metadata, old, "creationTimestamp")
    _take(metadata, old, "generation")
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    if metadata.get("deletionGracePeriodSeconds") is None:
        _take(metadata, old, "deletionGracePeriodSeconds")
    if context.verb == "update" or not metadata.get("uid"):
        _take(metadata, old, "uid")


def _take(metadata: Body, old: Body, field: str) -> None:
    if field in old:
        metadata[field] = old[field]
    else:
        metadata.pop(field, None)
