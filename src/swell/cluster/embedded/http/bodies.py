"""Request bodies, from bytes to JSON data: JSON as leniently as Go reads it, YAML, duplicates.

Valid JSON is decoded by msgspec alone. Only a body that msgspec refuses is read a second time with
Go's leniency. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, NoReturn, TypeAlias

import msgspec

from swell.api import codec
from swell.cluster.embedded.refusals import bad_request, too_many_values

DEPTH_MAX = 500  # no real object comes near, and every recursion of ours survives it
# Of one body. Every object in use has fewer by far; checking so many takes half a second, during
# which no other request is answered.
VALUES_MAX = 200_000
DUPLICATES_MAX = 100  # so many are reported; each may become a header of the response
# Only a number of 19 or more digits can be beyond 64 bits.
_LONG_NUMBER = re.compile(rb"\d{19}")
_DOCUMENT_END = re.compile(r"^---$|^--- ", re.MULTILINE)
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_KEY_MARK = re.compile(rb'"\s*:')


def read_json(raw: bytes) -> object:
    """Decode JSON; 400 when it is invalid.

    As in Go, invalid UTF-8 and half surrogates become U+FFFD.
    """
    try:
        value: object = codec.decode(raw, object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _read_leniently(raw)
    _check_depth(raw, value)
    return _with_floats(value) if _LONG_NUMBER.search(raw) else value


class ReadBody(NamedTuple):
    """A body, and what it gives more than once: paths of JSON, sentences about YAML."""

    value: object
    duplicates: list[str]


def read_yaml(raw: bytes) -> ReadBody:
    """Decode YAML into JSON data; 400 when it is invalid or too large."""
    from swell.api.manifest.composer import ManifestSyntaxError
    from swell.api.manifest.yamldata import YamlBudget, read_document

    budget = YamlBudget(depth=DEPTH_MAX, values=VALUES_MAX, aliases=False)
    repeated: list[tuple[int, str]] = []
    text = _first_document(raw.decode("utf-8", "replace"))
    try:
        value: object = read_document(text, budget, repeated)
    except ManifestSyntaxError as error:
        problem = f"yaml: line {error.line}: {error.message}"
        raise bad_request(f"error converting YAML to JSON: {problem}") from error
    found = [
        f'line {line}: key "{key}" already set in map' for line, key in repeated[:DUPLICATES_MAX]
    ]
    return ReadBody(read_json(codec.encode(value)), found)


def read_reported_json(raw: bytes) -> ReadBody:
    """Decode JSON, and find the fields that are given twice; 400 when it is invalid."""
    # Counted before they are decoded: a million empty lists would be slow to make and to free.
    # Texts are left out only where that can matter.
    if _n_values_max(raw) > VALUES_MAX and _n_values_max(_TEXT.sub(b"", raw)) > VALUES_MAX:
        raise too_many_values(VALUES_MAX)
    value = read_json(raw)
    return ReadBody(value, duplicate_fields(raw, value))


def duplicate_fields(raw: bytes, value: object) -> list[str]:
    """The paths of the fields that a JSON text gives more than once. The last value counts.

    Colons after quotes are counted first, which is cheap: there is one for every written key (and
    some inside texts), so that a text with as many of them as the data has keys has no duplicate.
    """
    if len(_KEY_MARK.findall(raw)) == _n_keys(value):
        return []
    try:
        pairs = json.loads(raw.decode("utf-8", "replace"), object_pairs_hook=_pairs)
    except (ValueError, RecursionError):
        return []
    return list(islice(dict.fromkeys(_duplicates(pairs)), DUPLICATES_MAX))


def read_merged(raw: bytes) -> object:
    """Decode JSON with duplicate fields: two objects of one name are merged, else the last counts.

    This is how Go decodes into a value of a fixed type.
    """
    merged = json.loads(raw.decode("utf-8", "replace"), object_pairs_hook=_merged)
    return _with_floats(codec.decode(_without_halves(merged), object))


def _merged(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        _merge(found, name, value)
    return found


def _merge(found: dict[str, object], name: str, value: object) -> None:
    old = found.get(name)
    if isinstance(old, dict) and isinstance(value, dict):
        # In place: a copy for every repetition would take quadratic time.
        for inner, part in value.items():
            _merge(old, inner, part)
    else:
        found[name] = value


def _first_document(text: str) -> str:
    """The first document of a YAML stream; a real server reads no further."""
    return _DOCUMENT_END.split(text.removeprefix("---\n"), maxsplit=1)[0]


# A place in the data: the place around it, and the name or index in that; None for the whole.
_Where: TypeAlias = "tuple[_Where, str | int] | None"


class _Pairs(list[tuple[str, object]]):
    """The members of a JSON object, duplicates included."""


def _pairs(members: list[tuple[str, object]]) -> _Pairs:
    # A function of Python: while it is called, other threads get their turn.
    return _Pairs(members)


def _duplicates(root: object) -> Iterator[str]:
    """Yields the paths of repeated fields in the order of the text.

    A path is written only when it is reported: written for every field, a long name at the top
    would be copied as often as there are fields below it.
    """
    pending: list[tuple[object, _Where]] = [(root, None)]
    while pending:
        value, where = pending.pop()
        below: list[tuple[object, _Where]] = []
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for name, inner in value:
                if name in seen:
                    yield _written((where, name))
                seen.add(name)
                below.append((inner, (where, name)))
        elif isinstance(value, list):
            below = [(inner, (where, n)) for n, inner in enumerate(value)]
        pending.extend(reversed(below))


def _written(where: _Where) -> str:
    steps: list[str] = []
    while where is not None:
        where, step = where
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


def _n_keys(value: object) -> int:
    found = 0
    pending = [value]
    while pending:  # not recursive, because every body goes through here
        here = pending.pop()
        if type(here) is dict:
            found += len(here)
            pending.extend(here.values())
        elif type(here) is list:
            pending.extend(here)
    return found


def _n_values_max(raw: bytes) -> int:
    """No JSON text has more values than commas and opening brackets, and one."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def _read_leniently(raw: bytes) -> object:
    """Decode JSON with bad characters replaced; 400 for everything else that is invalid."""
    try:
        value: object = json.loads(raw.decode("utf-8", "replace"), parse_constant=_refuse_constant)
        return codec.decode(_without_halves(value), object)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise bad_request(f"the body is not valid JSON: {error}") from error


def _without_halves(value: object) -> bytes:
    """Encode again, with half surrogates replaced by U+FFFD."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _with_floats(value: object) -> object:
    """The same value with integers beyond 64 bits as floats, as Go reads them."""
    if isinstance(value, dict):
        return {name: _with_floats(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_floats(inner) for inner in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        try:
            return float(value)
        except OverflowError:
            digits = f"a number of about {int(value.bit_length() * 0.30103):,} digits"
            raise bad_request(f"json: cannot unmarshal {digits} into a number") from None
    return value


def _check_depth(raw: bytes, value: object) -> None:
    # A text with few brackets cannot be nested deeply, so most bodies are done here.
    if raw.count(b"{") + raw.count(b"[") <= DEPTH_MAX:
        return
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise bad_request("the body is nested too deeply")
