"""Request bodies, from bytes to JSON data: JSON as leniently as Go reads it, YAML, duplicates.

Valid JSON is decoded by msgspec alone. Only a body that msgspec refuses is read a second time with
Go's leniency. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NoReturn

import msgspec

from swell.api import codec
from swell.cluster.embedded.refusals import bad_request

DEPTH_MAX = 200  # no real object comes near, and every recursion of ours survives it
# Only a number of 19 or more digits can be beyond 64 bits.
_LONG_NUMBER = re.compile(rb"\d{19}")
_DOCUMENT_END = re.compile(r"^---$|^--- ", re.MULTILINE)
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


def read_yaml(raw: bytes) -> object:
    """Decode YAML into JSON data; 400 when it is invalid."""
    import yaml

    try:
        text = _first_document(raw.decode("utf-8", "replace"))
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.CSafeLoader)):
            raise bad_request(
                "YAML aliases are not accepted"
            )  # a few bytes could expand to gigabytes
        value: object = yaml.load(text, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error
    try:
        return read_json(codec.encode(value))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error


def duplicate_fields(raw: bytes, value: object) -> list[str]:
    """The paths of the fields that a JSON text gives more than once. The last value counts.

    Colons after quotes are counted first, which is cheap: there is one for every written key (and
    some inside texts), so that a text with as many of them as the data has keys has no duplicate.
    """
    if len(_KEY_MARK.findall(raw)) == _n_keys(value):
        return []
    try:
        pairs = json.loads(raw.decode("utf-8", "replace"), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return []
    return list(dict.fromkeys(_duplicates(pairs, "")))


def read_merged(raw: bytes) -> object:
    """Decode JSON with duplicate fields: two objects of one name are merged, else the last counts.

    This is how Go decodes into a value of a fixed type.
    """
    return json.loads(raw.decode("utf-8", "replace"), object_pairs_hook=_merged)


def _merged(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        old = found.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            found[name] = _merged([*old.items(), *value.items()])
        else:
            found[name] = value
    return found


def duplicate_yaml_keys(raw: bytes) -> list[str]:
    """The keys that a map of a YAML text has twice, with their lines, as a real server says it."""
    import yaml

    found: list[str] = []
    pending = [yaml.compose(_first_document(raw.decode("utf-8", "replace")), yaml.CSafeLoader)]
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.SequenceNode):
            pending.extend(node.value)
        if not isinstance(node, yaml.MappingNode):
            continue
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key.value, str) and key.value in seen:
                line = key.start_mark.line + 1
                found.append(f'line {line}: key "{key.value}" already set in map')
            elif isinstance(key.value, str):
                seen.add(key.value)
            pending.append(value)
    return found


def _first_document(text: str) -> str:
    """The first document of a YAML stream; a real server reads no further."""
    return _DOCUMENT_END.split(text.removeprefix("---\n"), maxsplit=1)[0]


class _Pairs(list[tuple[str, object]]):
    """The members of a JSON object, duplicates included."""


def _duplicates(value: object, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, inner in value:
            here = f"{path}.{name}" if path else name
            if name in seen:
                yield here
            seen.add(name)
            yield from _duplicates(inner, here)
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from _duplicates(inner, f"{path}[{n}]")


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
        return float(value)
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
