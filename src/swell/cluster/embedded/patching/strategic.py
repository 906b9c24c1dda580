"""Strategic merge patches: merge patches that also merge lists, by a key of their elements.

The schema says which lists are merged and by which key (`x-kubernetes-patch-strategy`,
`x-kubernetes-patch-merge-key`). Directives in the patch do the rest:

    $patch: replace | delete | merge      replace or delete the object or element it stands in
    $retainKeys: [...]                    remove all other fields
    $setElementOrder/FIELD: [...]         order a merged list
    $deleteFromPrimitiveList/FIELD: [...] remove values from a list of plain values
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swell.api.meta import Body

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
ELEMENT_ORDER = "$setElementOrder/"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"


class StrategicMergeError(Exception):
    """A directive or an element of the patch does not fit the object or its schema."""


@dataclass(frozen=True, slots=True)
class MergeSchema:
    """A schema with the definitions it may refer to; only what merging needs."""

    schema: Body
    definitions: Mapping[str, Body] = field(repr=False)

    def field(self, name: str) -> MergeSchema:
        schema = self._resolved()
        part = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        return MergeSchema(part if isinstance(part, dict) else {}, self.definitions)

    @property
    def items(self) -> MergeSchema:
        return MergeSchema(self._resolved().get("items", {}), self.definitions)

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(self.schema.get("x-kubernetes-patch-strategy", "").split(","))

    @property
    def merge_key(self) -> str:
        return str(self.schema.get("x-kubernetes-patch-merge-key", ""))

    def _resolved(self) -> Body:
        reference = self.schema.get("$ref")
        return self.definitions[reference] if reference else self.schema


def strategic_merge(original: Body, patch: Body, schema: MergeSchema) -> Body:
    """The patched object; neither argument is changed."""
    _check_directives(patch, schema)
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return dict(_clean({name: value for name, value in patch.items() if name != DIRECTIVE}))
    if directive == "delete":
        return {}
    merged = _retained(original, patch)
    for name, value in patch.items():
        if name in {DIRECTIVE, RETAIN_KEYS} or name.startswith(ELEMENT_ORDER):
            continue
        if name.startswith(DELETE_PRIMITIVES):
            _delete_primitives(merged, name.removeprefix(DELETE_PRIMITIVES), value)
        elif value is None:
            merged.pop(name, None)
        else:
            order = patch.get(ELEMENT_ORDER + name)
            merged[name] = _merged_value(merged.get(name), value, schema.field(name), order)
    _reorder_untouched(merged, patch, schema)
    return merged


def _check_directives(patch: Body, schema: MergeSchema) -> None:
    """Refuse directives that are unknown or do not fit their fields."""
    if DIRECTIVE in patch and patch[DIRECTIVE] not in ("merge", "replace", "delete"):
        raise StrategicMergeError(f"unknown patch directive {patch[DIRECTIVE]!r}")
    for name, value in patch.items():
        if not name.startswith((ELEMENT_ORDER, DELETE_PRIMITIVES)):
            continue
        if not isinstance(value, list):
            raise StrategicMergeError(f"{name} must be a list")
        field_name = name.partition("/")[2]
        deletes = name.startswith(DELETE_PRIMITIVES)
        if deletes and any(isinstance(item, dict | list) for item in value):
            raise StrategicMergeError(f"{name} must be a list of plain values")
        if (deletes or value or patch.get(field_name)) and not schema.field(field_name).schema:
            raise StrategicMergeError(f"{name} names no field")
    if RETAIN_KEYS in patch:
        kept, said = patch[RETAIN_KEYS], [name for name in patch if not name.startswith("$")]
        if not isinstance(kept, list) or any(name not in kept for name in said):
            raise StrategicMergeError(f"{RETAIN_KEYS} must list every field of the patch")


def _retained(original: Body, patch: Body) -> Body:
    kept = patch.get(RETAIN_KEYS)
    if kept is None:
        return dict(original)
    return {name: value for name, value in original.items() if name in kept}


def _merged_value(old: Any, value: Any, schema: MergeSchema, order: Any) -> Any:
    if "replace" in schema.strategies and isinstance(value, dict):
        return value  # taken literally: directives inside have no effect
    if isinstance(old, dict) and isinstance(value, dict):
        return strategic_merge(old, value, schema)
    if isinstance(old, list) and isinstance(value, list) and "merge" in schema.strategies:
        return _merged_list(old, value, schema, order)
    return _clean(value)


def _clean(value: Any) -> Any:
    """A value without an old one: nulls are removed, and so are objects with a directive."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return {}
        return {
            name: _clean(item)
            for name, item in value.items()
            if item is not None and not name.startswith("$")
        }
    if isinstance(value, list):
        return [
            _clean(item)
            for item in value
            if not (isinstance(item, dict) and item.get(DIRECTIVE) in ("replace", "delete"))
        ]
    return value


def _delete_primitives(merged: Body, name: str, values: list[Any]) -> None:
    if isinstance(merged.get(name), list):
        merged[name] = [item for item in merged[name] if item not in values]


# --- lists -------------------------------------------------------------------------------------


def _merged_list(
    old: list[Any], patch: list[Any], schema: MergeSchema, order: list[Any] | None
) -> list[Any]:
    if not any(isinstance(item, dict) for item in (*old, *patch)):
        # Plain values are their own keys; one given twice is added once.
        touched = list(dict.fromkeys(_key_of(item, "") for item in patch))
        return _ordered(old, touched, order, key="")
    key = schema.merge_key
    plain = [item for item in patch if not _is_directive(item)]
    directives = [item for item in patch if _is_directive(item)]
    # Anywhere in the list it replaces the whole list by the other elements of the patch.
    if any(item[DIRECTIVE] == "replace" for item in directives):
        return [_clean(item) for item in plain]
    deleted = [_key_of(item, key) for item in directives if item[DIRECTIVE] == "delete"]
    base = [item for item in old if _key_of(item, key) not in deleted]
    named = list(dict.fromkeys(_key_of(item, key) for item in plain))
    touched = _touched(base, plain, schema.items, key)
    touched.sort(key=lambda item: named.index(_key_of(item, key)))
    return _ordered(base, touched, order, key)


def _touched(base: list[Any], patch: list[Any], schema: MergeSchema, key: str) -> list[Any]:
    """The elements that a patch is about, merged or new, in the order of the list.

    Of several with one key the first is merged, also with several elements of the patch.
    """
    found = [item for item in base if _key_of(item, key) in {_key_of(one, key) for one in patch}]
    places: dict[Any, int] = {}
    for at, item in enumerate(found):
        places.setdefault(_key_of(item, key), at)
    for item in patch:
        at = places.setdefault(_key_of(item, key), len(found))
        if at == len(found):
            found.append(_clean(item))
        else:
            found[at] = strategic_merge(found[at], item, schema)
    return found


def _is_directive(item: Any) -> bool:
    return isinstance(item, dict) and item.get(DIRECTIVE) in ("replace", "delete")


def _key_of(item: Any, key: str) -> Any:
    if not key:
        if isinstance(item, dict | list):
            raise StrategicMergeError("an element of a list of plain values is none")
        return item
    if not isinstance(item, dict) or item.get(key) is None:
        raise StrategicMergeError(f"a list element does not have its merge key {key!r}")
    value = item[key]
    if isinstance(value, (dict, list)):
        raise StrategicMergeError(f"the merge key {key!r} is no plain value")
    return value


def _ordered(old: list[Any], touched: list[Any], order: list[Any] | None, key: str) -> list[Any]:
    """A merged list: patched elements in the patch's order, others at their old relative place."""
    positions = {_key_of(item, key): at for at, item in enumerate(old)}
    touched_keys = {_key_of(item, key) for item in touched}
    wanted = [_key_of(item, key) for item in order or ()]
    named = touched_keys | set(wanted)
    # Two ordered lists are merged: `left` has the untouched elements, `right` the named ones.
    left = [item for item in old if _key_of(item, key) not in named]
    right = [*touched, *(i for i in old if _key_of(i, key) in named - touched_keys)]
    if wanted:
        ranks = {name: at for at, name in enumerate(wanted)}
        right.sort(key=lambda item: ranks.get(_key_of(item, key), len(ranks)))
    merged: list[Any] = []
    while left and right:
        one, other = positions[_key_of(left[0], key)], positions.get(_key_of(right[0], key))
        # A new element has no old place: it goes before the untouched ones that are left.
        merged.append(left.pop(0) if other is not None and one < other else right.pop(0))
    return merged + left + right


def _reorder_untouched(merged: Body, patch: Body, schema: MergeSchema) -> None:
    """Reorder the lists for which the patch has an order but no elements."""
    for name, order in patch.items():
        field_name = name.removeprefix(ELEMENT_ORDER)
        if name == field_name or field_name in patch:
            continue
        old = merged.get(field_name)
        part = schema.field(field_name)
        if isinstance(old, list) and "merge" in part.strategies:
            merged[field_name] = _ordered(old, [], order, part.merge_key)
