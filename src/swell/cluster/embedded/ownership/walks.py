"""Walks over bodies by their structure: their fields, merging, comparing, and taking fields out."""

from __future__ import annotations

from typing import Any, NamedTuple

from swell.cluster.embedded.ownership.fieldsets import FieldPath, FieldSet, field_step
from swell.cluster.embedded.ownership.structure import Structure

_MISSING: Any = object()


class Comparison(NamedTuple):
    """The paths by which a body differs from an earlier one."""

    written: FieldSet  # added, or with another value
    removed: FieldSet


def fields_of(value: object, structure: Structure) -> FieldSet:
    """Returns the paths that a body speaks of: values, items, entries of maps, empty objects."""
    found: set[FieldPath] = set()
    _collect(value, structure, (), found)
    return frozenset(found)


def _collect(value: object, structure: Structure, path: FieldPath, found: set[FieldPath]) -> None:
    if isinstance(value, dict) and not structure.is_atomic_map:
        for name, inner in value.items():
            part, is_declared = structure.at_field(name)
            place = (*path, field_step(name))
            _collect(inner, part, place, found)
            if (not inner and isinstance(inner, dict | None)) or not is_declared:
                found.add(place)
    elif isinstance(value, list) and not structure.is_atomic_list:
        for step, item in structure.by_step(value).items():
            _collect(item, structure.items, (*path, step), found)
            found.add((*path, step))
    elif path:
        found.add(path)


def merged(old: object, new: object, structure: Structure) -> Any:
    """Returns the old value with all that the new one says; items of lists meet by their keys."""
    if isinstance(old, dict) and isinstance(new, dict) and not structure.is_atomic_map:
        result = dict(old)
        for name, value in new.items():
            part = structure.at_field(name).structure
            result[name] = merged(old[name], value, part) if name in old else value
        return result
    if isinstance(old, list) and isinstance(new, list) and not structure.is_atomic_list:
        return _merged_items(structure.by_step(old), structure.by_step(new), structure.items)
    return new


def _merged_items(old: dict[str, Any], new: dict[str, Any], items: Structure) -> list[Any]:
    """The items of both: those of the new list in its order, others after their neighbours."""
    result: list[Any] = []
    waiting = list(new)
    for step, item in old.items():
        if step not in new:
            result.append(item)
            continue
        while waiting:
            following = waiting.pop(0)
            before = old.get(following, _MISSING)
            value = new[following]
            result.append(value if before is _MISSING else merged(before, value, items))
            if following in old:
                break
    return [*result, *(new[step] for step in waiting)]


def compared(old: object, new: object, structure: Structure) -> Comparison:
    """Returns which paths of a body were written and removed since an earlier state of it."""
    written: set[FieldPath] = set()
    removed: set[FieldPath] = set()
    _compare((old, new), structure, (), (written, removed))
    return Comparison(frozenset(written), frozenset(removed))


def _compare(
    pair: tuple[Any, Any],
    structure: Structure,
    path: FieldPath,
    found: tuple[set[FieldPath], set[FieldPath]],
) -> None:
    old, new = pair
    if old is new or (old == new and type(old) is type(new)):
        return
    written, removed = found
    for kind, is_atomic in ((dict, structure.is_atomic_map), (list, structure.is_atomic_list)):
        is_inner = all(one is _MISSING or isinstance(one, kind) for one in pair)
        if not is_inner or is_atomic:
            continue
        before, after = (_children(one, structure) for one in pair)
        for step in dict.fromkeys((*before, *after)):
            part = structure.at_field(step[2:]).structure if kind is dict else structure.items
            inner = (before.get(step, _MISSING), after.get(step, _MISSING))
            _compare(inner, part, (*path, step), found)
        if path and old is _MISSING:
            written.add(path)
        if path and new is _MISSING:
            removed.add(path)
        return
    (removed if new is _MISSING else written).add(path)


def _children(value: object, structure: Structure) -> dict[str, object]:
    if isinstance(value, dict):
        return {field_step(name): inner for name, inner in value.items()}
    return structure.by_step(value) if isinstance(value, list) else {}


def without(value: Any, paths: FieldSet, kept: FieldSet, structure: Structure) -> Any:
    """Returns a body without these paths, except for what is on the way to a kept one."""
    needed = {path[:n] for path in kept for n in range(1, len(path) + 1)}
    return _without(value, structure, (), frozenset(paths) - needed)


def _without(value: Any, structure: Structure, path: FieldPath, gone: FieldSet) -> Any:
    if isinstance(value, dict) and not structure.is_atomic_map:
        result = {}
        for name, inner in value.items():
            place = (*path, field_step(name))
            if place in gone:
                continue
            left = _without(inner, structure.at_field(name).structure, place, gone)
            # An object that has lost its last field goes, too.
            if left or left == inner:
                result[name] = left
        return result
    if isinstance(value, list) and not structure.is_atomic_list:
        return [
            _without(item, structure.items, (*path, step), gone)
            for step, item in structure.by_step(value).items()
            if (*path, step) not in gone
        ]
    return value
