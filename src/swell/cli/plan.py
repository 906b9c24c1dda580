"""`swell plan`: what would be decided about given objects, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from swell.cli import options
from swell.cli.failure import CommandError
from swell.cli.plan_objects import UnreadableError, add_document, add_json
from swell.scheduler.config import DEFAULT, Config, ConfigError
from swell.scheduler.plan import Objects, answer, plan_schedule

app = typer.Typer(help="Decide without a cluster: what would happen.", no_args_is_help=True)


class Format(StrEnum):
    JSON = "json"
    TABLE = "table"


@app.callback()
def plan() -> None:
    """Decide without a cluster: what would happen."""


@app.command()
def schedule(
    files: options.Files,
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="Scheduler configuration.")
    ] = "",
    scheduler_name: Annotated[
        list[str] | None,
        typer.Option("--scheduler-name", metavar="NAME", help="Also plan this scheduler's pods."),
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="Format.")] = Format.TABLE,
) -> None:
    """One scheduling session over the objects in FILES: who is placed where, who waits and why."""
    settings = _config(config) if config else DEFAULT
    objects = Objects()
    for name in files:
        _read(name, objects)
    decided = plan_schedule(objects, settings, scheduler_name or ())
    if output is Format.JSON:
        from swell.cli.printing import to_json

        sys.stdout.write(to_json(answer(decided)))
    else:
        from swell.cli.plan_table import render

        sys.stdout.write(render(decided))


def _config(name: str) -> Config:
    """The configuration in a file; what it does not know it says on stderr."""
    from swell.scheduler.config import parse
    from swell.scheduler.cycle import KNOWN

    try:
        parsed = parse(next(_documents(name, _bytes_of(name)), None), KNOWN)
    except ConfigError as error:
        raise CommandError(f"{name}: {error}") from error
    for warning in parsed.warnings:
        sys.stderr.write(f"warning: {name}: {warning}\n")
    return parsed.config


def _read(name: str, into: Objects) -> None:
    raw = _bytes_of(name)
    try:
        if _is_json(raw):
            add_json(raw, into)
        else:
            for document in _documents(name, raw):
                add_document(document, into)
    except UnreadableError as error:
        raise CommandError(f"{name}: {error}") from error


def _bytes_of(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from error


def _is_json(raw: bytes) -> bool:
    """Whether this is one JSON document; several, or YAML, are for the slower reader."""
    import msgspec

    if not raw.lstrip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def _documents(name: str, raw: bytes) -> Iterator[object]:
    import yaml

    try:
        yield from yaml.load_all(raw, Loader=_loader())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandError(f"{name}: is neither JSON nor YAML: {error}") from error


def _loader() -> type:
    """The fastest safe loader there is, with times left as the text they are."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc, valid-type]
        yaml_implicit_resolvers = {  # noqa: RUF012 - yaml's own way to say it
            first: [(tag, rule) for tag, rule in rules if tag != "tag:yaml.org,2002:timestamp"]
            for first, rules in base.yaml_implicit_resolvers.items()
        }

    return Loader
