"""Suggestions: the word that a misspelt one probably means, the place of a misplaced field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher

from swell.api.schemas.model import Schema
from swell.api.validation.problems import UNKNOWN_FIELD, FieldProblem

_LIKENESS_MIN = 0.6  # as difflib's get_close_matches
_WORD_SIZE_MAX = 64  # no field or value of ours is longer, and comparing takes time
_LISTED_MAX = 24


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word most like this one, ignoring case and separators, or None."""
    if len(word) > _WORD_SIZE_MAX:
        return None
    plain = _plain(word)
    best, best_likeness = None, _LIKENESS_MIN
    for candidate in sorted(known):
        likeness = SequenceMatcher(None, plain, _plain(candidate), autojunk=False).ratio()
        if likeness > best_likeness or (best is None and likeness >= best_likeness):
            best, best_likeness = candidate, likeness
    return best


def choices_hint(word: object, known: Iterable[str]) -> str:
    """Returns a hint that lists the values there are, and the nearest of them."""
    values = [value or '""' for value in known]
    likely = nearest(word, values) if isinstance(word, str) else None
    return _hint(values, likely)


def fields_hint(name: str, known: Iterable[str]) -> str:
    """Returns a hint with the nearest field, or a list of the fields there are."""
    names = sorted(known)
    likely = nearest(name, names)
    return f"did you mean {likely}?" if likely else _hint(names, None)


def _hint(values: list[str], likely: str | None) -> str:
    shown = values[:_LISTED_MAX]
    more = ["…"] if len(values) > _LISTED_MAX else []
    listed = f"one of {', '.join([*shown, *more])}"
    return f"{listed}; did you mean {likely}?" if likely else listed


def _plain(word: str) -> str:
    return "".join(character for character in word.lower() if character.isalnum())


Places = Mapping[str, str]


def places_of(schema: Schema) -> Places:
    """Returns the object each field of the spec belongs to; fields of several are left out."""
    found: dict[str, set[str]] = {}
    for name, place in _walk(schema.properties["spec"], "spec"):
        # Users who write a size in the wrong place mean that of a role.
        if place != "spec.scale":
            found.setdefault(name, set()).add(place)
    return {name: min(places) for name, places in found.items() if len(places) == 1}


def with_place(problem: FieldProblem, places: Places) -> FieldProblem:
    """Returns the problem with a better hint if the field belongs to another object."""
    name = problem.steps[-1] if problem.steps else ""
    if problem.message != UNKNOWN_FIELD or not isinstance(name, str) or name not in places:
        return problem
    return replace(problem, hint=f"it belongs to {places[name]}")


def _walk(schema: Schema, place: str) -> Iterator[tuple[str, str]]:
    """Yields the fields of a schema and of those in it, each with the object it belongs to."""
    for name, part in schema.properties.items():
        yield name, place
        yield from _walk(part, f"{place}.{name}")
    if schema.values is not None:
        yield from _walk(schema.values, f"{place}.<name>")
    if schema.items is not None:
        yield from _walk(schema.items, f"{place}[]")
