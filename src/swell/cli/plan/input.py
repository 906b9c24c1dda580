"""Reads what a plan is made from: files or stdin, JSON or YAML, and the configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import yaml

from swell.cli.failure import CommandError
from swell.cli.plan.objects import UnreadableError, add_document, add_json
from swell.scheduler.config import DEFAULT, Config, SchedulerConfigError, parse
from swell.scheduler.cycle import KNOWN
from swell.scheduler.plan import SchedulerObjects

_FASTEST_SAFE: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_FASTEST_SAFE):  # type: ignore[misc]
    """Leaves times as the text they are."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - yaml's own way to say it
        first: [(tag, rule) for tag, rule in rules if not tag.endswith(":timestamp")]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_config(name: str) -> Config:
    """The configuration in a file, or the default; what it does not know it says on stderr."""
    if not name:
        return DEFAULT
    try:
        parsed = parse(next(_documents(name, _bytes_of(name)), None), KNOWN)
    except SchedulerConfigError as error:
        raise CommandError(f"{name}: {error}") from error
    for warning in parsed.warnings:
        sys.stderr.write(f"warning: {name}: {warning}\n")
    return parsed.config


def read_objects(names: Iterable[str]) -> SchedulerObjects:
    """Everything in some files that scheduling goes by."""
    objects = SchedulerObjects()
    read_into(objects, names)
    return objects


def read_into(objects: object, names: Iterable[str]) -> None:
    """Sort everything in some files into the lists it belongs in; `-` is stdin."""
    for name in names:
        raw = _bytes_of(name)
        try:
            if _is_json(raw):
                add_json(raw, objects)
            else:
                for document in _documents(name, raw):
                    add_document(document, objects)
        except UnreadableError as error:
            raise CommandError(f"{name}: {error}") from error


def _bytes_of(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from error


def _is_json(raw: bytes) -> bool:
    """Whether this is one JSON document; several, or YAML, are for the slower reader."""
    if not raw.lstrip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def _documents(name: str, raw: bytes) -> Iterator[object]:
    try:
        yield from yaml.load_all(raw, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandError(f"{name}: is neither JSON nor YAML: {error}") from error
