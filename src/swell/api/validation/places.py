"""Hints for fields that exist, but somewhere else: `restartPolicy` is a role's, not the job's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from swell.api.schemas.model import Schema
from swell.api.validation.problems import FieldProblem
from swell.api.validation.structure import UNKNOWN_FIELD

Places = Mapping[str, str]


def places_of(schema: Schema) -> Places:
    """Where each field of the spec belongs; fields of several places are left out."""
    found: dict[str, set[str]] = {}
    for name, place in _walk(schema.properties["spec"], "spec"):
        found.setdefault(name, set()).add(place)
    return {name: min(places) for name, places in found.items() if len(places) == 1}


def with_place(problem: FieldProblem, places: Places) -> FieldProblem:
    """The problem, with the right place for a field that stands in the wrong one."""
    name = problem.steps[-1] if problem.steps else ""
    if problem.message != UNKNOWN_FIELD or not isinstance(name, str) or name not in places:
        return problem
    return replace(problem, hint=f"it belongs to {places[name]}")


def _walk(schema: Schema, place: str) -> Iterator[tuple[str, str]]:
    """The fields of a schema and of those in it, each with the object it belongs to."""
    for name, part in schema.properties.items():
        yield name, place
        yield from _walk(part, f"{place}.{name}")
    if schema.values is not None:
        yield from _walk(schema.values, f"{place}.<name>")
    if schema.items is not None:
        yield from _walk(schema.items, f"{place}[]")
