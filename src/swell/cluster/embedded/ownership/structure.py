"""The structure of a kind, as far as merging asks for it: lists by their keys, and atoms.

Built-in kinds and custom resources say it by the same extensions of OpenAPI. A part that no schema
describes is merged object by object, and its lists are atoms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from swell.api.codec import encode
from swell.api.meta import Body
from swell.cluster.embedded.builtin import definitions
from swell.cluster.embedded.ownership.fieldsets import key_step, value_step
from swell.cluster.embedded.patching.strategic import MergeSchema
from swell.cluster.embedded.registry import ServedKind

_ATOMIC, _SET, _MAP = "atomic", "set", "map"


class StructureError(Exception):
    """A list has two items of one key, or an item without it; the message says where."""


@dataclass(frozen=True, slots=True)
class Structure:
    """The structure of one part of an object."""

    schema: Body
    definitions: Mapping[str, Body] = field(repr=False)

    def at_field(self, name: str) -> FieldStructure:
        """The part behind a field, and whether the schema declares that field by its name."""
        resolved = self._resolved()
        declared = (resolved.get("properties") or {}).get(name)
        part = declared if declared is not None else resolved.get("additionalProperties")
        inner = Structure(part if isinstance(part, dict) else {}, self.definitions)
        return FieldStructure(inner, declared is not None)

    @property
    def items(self) -> Structure:
        return Structure(self._resolved().get("items") or {}, self.definitions)

    @property
    def is_atomic_map(self) -> bool:
        marks = (self.schema, self._resolved())
        return any(mark.get("x-kubernetes-map-type") == _ATOMIC for mark in marks)

    @property
    def is_atomic_list(self) -> bool:
        return self._list_type == _ATOMIC

    @property
    def _list_type(self) -> str:
        given = self.schema.get("x-kubernetes-list-type")
        if given is not None:
            return str(given)
        # Older schemas have only what strategic merge patches need.
        if "merge" not in self.schema.get("x-kubernetes-patch-strategy", ""):
            return _ATOMIC
        return _MAP if self.schema.get("x-kubernetes-patch-merge-key") else _SET

    def step_to(self, item: object) -> str:
        """The step of a path to an item of this list, which is no atom."""
        if self._list_type == _SET:
            return value_step(item)
        merge_key = self.schema.get("x-kubernetes-patch-merge-key")
        names = self.schema.get("x-kubernetes-list-map-keys") or [merge_key]
        if not isinstance(item, dict):
            raise StructureError("an item of a list with keys is no object")
        keys = {}
        for name in names:
            value = item.get(name)
            if value is None:
                value = self.items.at_field(name).structure.schema.get("default")
            if value is not None:
                keys[name] = value
        if not keys:
            raise StructureError(f"an item has none of the keys {', '.join(map(str, names))}")
        return key_step(keys)

    def by_step(self, items: list[object]) -> dict[str, object]:
        """The items of a list by their steps, in their order."""
        found: dict[str, object] = {}
        for item in items:
            step = self.step_to(item)
            if step in found:
                raise StructureError(f"duplicate entries for key {encode(step[2:]).decode()}")
            found[step] = item
        return found

    def _resolved(self) -> Body:
        reference = self.schema.get("$ref")
        return self.definitions[reference] if reference else self.schema


class FieldStructure(NamedTuple):
    """The structure behind a field, and whether it is one of an object or an entry of a map."""

    structure: Structure
    is_declared: bool


def structure_of(kind: ServedKind) -> Structure:
    """Returns the structure of a kind. The metadata of all kinds are the same."""
    if isinstance(kind.merge_schema, MergeSchema):
        return Structure(kind.merge_schema.schema, kind.merge_schema.definitions)
    schema = kind.schema or {}
    properties = {**(schema.get("properties") or {}), "metadata": {"$ref": definitions.OBJECT_META}}
    for name in ("apiVersion", "kind"):
        properties.setdefault(name, {"type": "string"})
    return Structure({**schema, "properties": properties}, definitions.schemas())
