"""The managers of an object: which client has applied or written which of its fields.

Objects are followed from their first server-side apply on (ADR 124): all fields that an object has
by then belong to the manager `before-first-apply`. Pure: bodies in, bodies and managers out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from swell.api.meta import Body
from swell.api.times import format_time
from swell.cluster.embedded.ownership.fieldsets import (
    FieldPath,
    FieldSet,
    from_fields,
    path_order,
    to_fields,
)
from swell.cluster.embedded.ownership.structure import Structure
from swell.cluster.embedded.ownership.walks import compared, fields_of, merged, without

APPLY, UPDATE = "Apply", "Update"
BEFORE_FIRST_APPLY = "before-first-apply"
_FIELDS_TYPE = "FieldsV1"
# Fields that name an object or that the server alone writes: they have no manager.
_METADATA = "f:metadata"
_UNMANAGED_METADATA = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
_UNMANAGED = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        (_METADATA,),
        *((_METADATA, f"f:{name}") for name in _UNMANAGED_METADATA),
    }
)


class ManagerKey(NamedTuple):
    """Identifies an entry of `managedFields`: one client may have several."""

    operation: str
    manager: str
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


@dataclass(frozen=True, slots=True)
class OwnedFields:
    """The fields of one manager, and when they last changed."""

    fields: FieldSet
    time: str


Managers = dict[ManagerKey, OwnedFields]


class ApplyConflictError(Exception):
    """Fields that an apply changes belong to other managers."""

    def __init__(self, conflicts: Sequence[tuple[ManagerKey, FieldPath]]) -> None:
        super().__init__("the fields of others are changed")
        self.conflicts = tuple(conflicts)


class Applied(NamedTuple):
    """An object after an apply, before defaults, and its managers."""

    body: Body
    managers: Managers


def read_managers(entries: object) -> Managers:
    """Returns the managers in `managedFields`; ValueError for entries that are none."""
    found: Managers = {}
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("operation") not in {APPLY, UPDATE}:
            raise ValueError("an entry without an operation")
        key = ManagerKey(
            entry["operation"],
            str(entry.get("manager") or ""),
            str(entry.get("apiVersion") or ""),
            str(entry.get("subresource") or ""),
        )
        fields = from_fields(entry.get("fieldsV1") or {})
        found[key] = OwnedFields(fields, str(entry.get("time") or ""))
    return found


def write_managers(managers: Managers) -> list[Body]:
    """Returns `managedFields`: appliers first, then by time and name."""

    def order(item: tuple[ManagerKey, OwnedFields]) -> tuple[str, ...]:
        key, owned = item
        return (key.operation, owned.time, key.manager, key.api_version, key.subresource)

    return [
        {
            "apiVersion": key.api_version,
            "fieldsType": _FIELDS_TYPE,
            "fieldsV1": to_fields(owned.fields),
            "manager": key.manager,
            "operation": key.operation,
            **({"subresource": key.subresource} if key.subresource else {}),
            "time": owned.time,
        }
        for key, owned in sorted(managers.items(), key=order)
        if owned.fields
    ]


def applied(
    live: Body | None,
    config: Body,
    key: ManagerKey,
    structure: Structure,
    now: float,
    *,
    force: bool,
) -> Applied:
    """Merge what a manager applies into an object; ApplyConflictError if others own it.

    Fields that it applied before and no longer names are removed, unless others own them, too.
    """
    config = _managed_part(config)
    old = _managed_part(live or {})
    managers = managers_of(live, structure, key.api_version, now)
    before = managers.pop(key, None)
    named = fields_of(config, structure) - _UNMANAGED
    new = merged(old, config, structure)
    given_up = (before.fields if before is not None else frozenset()) - named
    if given_up:
        kept = frozenset().union(named, *(owned.fields for owned in managers.values()))
        new = without(new, given_up, kept, structure)
    changes = compared(old, new, structure)
    conflicts = [
        (other, path)
        for other, owned in sorted(managers.items(), key=lambda item: str(item[0]))
        for path in sorted(owned.fields & changes.written, key=path_order)
    ]
    if conflicts and not force:
        raise ApplyConflictError(conflicts)
    managers = _without_paths(managers, changes.written | changes.removed)
    is_same = before is not None and before.fields == named
    managers[key] = before if is_same and before else OwnedFields(named, format_time(now))
    return Applied(new, managers)


def updated(old: Body, new: Body, key: ManagerKey, structure: Structure, now: float) -> Managers:
    """Returns the managers after another write: what it changed is its writer's."""
    changes = compared(_managed_part(old), _managed_part(new), structure)
    written, removed = changes.written - _UNMANAGED, changes.removed
    managers = read_managers(old["metadata"].get("managedFields"))
    before = managers.pop(key, None)
    managers = _without_paths(managers, written | removed)
    fields = ((before.fields if before is not None else frozenset()) | written) - removed
    if before is not None and fields == before.fields:
        managers[key] = before
    elif fields:
        managers[key] = OwnedFields(fields, format_time(now))
    return managers


def managers_of(live: Body | None, structure: Structure, api_version: str, now: float) -> Managers:
    """Returns the managers of an object; one without any belongs to nobody in particular."""
    if live is None:
        return {}
    managers = read_managers(live["metadata"].get("managedFields"))
    if managers:
        return managers
    fields = compared({}, _managed_part(live), structure).written - _UNMANAGED
    key = ManagerKey(UPDATE, BEFORE_FIRST_APPLY, api_version)
    return {key: OwnedFields(frozenset(fields), format_time(now))}


def _without_paths(managers: Managers, paths: Iterable[FieldPath]) -> Managers:
    """Take paths from all managers; those that have none left are no managers any more."""
    gone = frozenset(paths)
    left = {key: replace(owned, fields=owned.fields - gone) for key, owned in managers.items()}
    return {key: owned for key, owned in left.items() if owned.fields}


def _managed_part(body: Body) -> Body:
    """Returns a body without its managers, which have none themselves."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return body
    return {**body, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}
