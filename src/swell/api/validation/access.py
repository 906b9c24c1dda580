"""Reads JSON of unknown shape: a part that is missing or of another type reads as nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def at(value: object, *names: str) -> object:
    """Returns the value along these field names, or None."""
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def fields(value: object) -> Iterator[tuple[str, object]]:
    """Yields the fields of an object that have a name and a value."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if isinstance(name, str) and part is not None:
                yield name, part


def items(value: object) -> Iterator[tuple[int, object]]:
    """Yields the items of a list with their positions."""
    if isinstance(value, list):
        yield from enumerate(value)


def whole(value: object) -> int | None:
    """Returns the value if it is a whole number. In Python a bool is an int, in JSON it is not."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def same(first: object, second: object) -> bool:
    """Whether two JSON values are equal. It does not recurse, so depth cannot exhaust the stack."""
    pairs = [(first, second)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            if one.keys() != other.keys():
                return False
            pairs += [(part, other[key]) for key, part in one.items()]
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            pairs += zip(one, other, strict=True)
        elif isinstance(one, bool) != isinstance(other, bool) or one != other:
            return False
    return True
