"""Objects on stdout: JSON, YAML, or `kind/name`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec
import yaml

from swell.api.meta import Body


def print_object(body: Body, *, as_yaml: bool) -> None:
    sys.stdout.write(to_yaml(body) if as_yaml else to_json(body))


def print_list(items: list[Body], *, as_yaml: bool) -> None:
    print_object({"apiVersion": "v1", "kind": "List", "items": items}, as_yaml=as_yaml)


def print_names(items: Iterable[Body], suffix: str = "") -> None:
    for body in items:
        sys.stdout.write(f"{slashed(body)}{suffix}\n")


def slashed(body: Body) -> str:
    """`kind/name`, the kind in lower case and without its group."""
    return f"{str(body.get('kind', '')).lower()}/{body.get('metadata', {}).get('name', '')}"


def to_json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def to_yaml(value: object) -> str:
    return yaml.dump(value, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=1000)


class _PlainDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes repeated values out: an alias would puzzle a reader and some parsers."""

    def ignore_aliases(self, _: object) -> bool:
        return True


_DUMPER = _PlainDumper
