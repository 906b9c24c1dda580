"""Server-side apply, from the request to `ownership`: checks, refusals, managers to store."""

from __future__ import annotations

from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.ownership import managers
from swell.cluster.embedded.ownership.fieldsets import path_text
from swell.cluster.embedded.ownership.managers import APPLY, UPDATE, Applied, ManagerKey
from swell.cluster.embedded.ownership.structure import StructureError, structure_of
from swell.cluster.embedded.registry import ServedKind, WriteContext

MANAGED_FIELDS = "managedFields"
_STATUS = "status"
# The metadata that say which object is meant; to a status the others do not belong.
_NAMING = ("name", "namespace", "uid", "resourceVersion")


def checked_config(kind: ServedKind, key: Key, body: object, subresource: str) -> Body:
    """Returns the part of an apply's body that its path can write; ClusterError for a wrong one."""
    if not isinstance(body, dict):
        raise refusals.bad_request("the body of an apply must be an object")
    wanted = {"apiVersion": kind.api_version, "kind": kind.kind}
    for field, value in wanted.items():
        if body.get(field) != value:
            given = body.get(field)
            raise refusals.bad_request(
                f"the body of an apply must say {field} {value!r}, and says {given!r}"
            )
    metadata = body.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    if metadata.get(MANAGED_FIELDS) is not None:
        raise refusals.bad_request("metadata.managedFields must be nil")
    metadata.setdefault("name", key.name)
    if subresource == _STATUS:
        metadata = {name: metadata[name] for name in _NAMING if name in metadata}
        return {**wanted, "metadata": metadata, _STATUS: body.get(_STATUS) or {}}
    config = {**body, "metadata": metadata}
    if _STATUS in kind.subresources:
        config.pop(_STATUS, None)
    return config


def apply_config(
    kind: ServedKind, live: Body | None, config: Body, context: WriteContext, *, force: bool
) -> Applied:
    """Merge what is applied into the object; ClusterError if fields of others would change."""
    owner = ManagerKey(APPLY, context.manager, kind.api_version, context.subresource)
    structure = structure_of(kind)
    try:
        return managers.applied(live, config, owner, structure, context.now, force=force)
    except managers.ApplyConflictError as error:
        found = [(str(other), path_text(path)) for other, path in error.conflicts]
        raise refusals.apply_conflict(found) from error
    except StructureError as error:
        raise refusals.bad_request(f"failed to create typed patch object: {error}") from error


def own_fields(
    kind: ServedKind, old: Body | None, new: Body, given: object, context: WriteContext
) -> None:
    """Write `managedFields` into the new state of an object, if its managers are followed.

    `given` is what the client sent: an empty list ends following, other entries replace the stored
    ones, as clients do that take an object over from another of their names.
    """
    metadata = new["metadata"]
    metadata.pop(MANAGED_FIELDS, None)
    stored = old["metadata"].get(MANAGED_FIELDS) if old is not None else None
    if context.applied is not None:
        metadata[MANAGED_FIELDS] = managers.write_managers(context.applied)
        return
    if old is None or not stored or given in ([], [{}]):
        return
    base = given if isinstance(given, list) else stored
    before = {**old, "metadata": {**old["metadata"], MANAGED_FIELDS: base}}
    owner = ManagerKey(UPDATE, context.manager, kind.api_version, context.subresource)
    try:
        found = managers.updated(before, new, owner, structure_of(kind), context.now)
    except (ValueError, StructureError):
        # Entries that cannot be read, or a list that is no map of its keys: what was known stays.
        metadata[MANAGED_FIELDS] = stored
        return
    if found:
        metadata[MANAGED_FIELDS] = managers.write_managers(found)
