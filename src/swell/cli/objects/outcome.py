"""How a command that writes objects tells what it has done, or with --dry-run what it would do."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from swell.api.meta import Body
from swell.cli.command_line import USAGE, CommandError
from swell.cli.objects.formats import OutputChoice, parse_output, print_objects, without_owners
from swell.cli.output import kind_and_name
from swell.runtime.cluster import WriteOptions


class DryRun(StrEnum):
    """Whether nothing is written: not even sent, or sent to be checked by the server alone."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


DRY_RUN_SUFFIXES = {
    DryRun.NONE: "",
    DryRun.CLIENT: " (dry run)",
    DryRun.SERVER: " (server dry run)",
}
DryRunOption = Annotated[
    DryRun, typer.Option("--dry-run", help="Write nothing; server: let the server check it.")
]
WrittenOutput = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FORMAT",
        help="Print the objects: json, yaml, name, jsonpath=TEMPLATE.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class WritingOptions:
    """The flags of commands that write objects."""

    dry_run: DryRunOption = DryRun.NONE
    output: WrittenOutput = ""


class WrittenReport:
    """Tells of written objects: a line for each at once, or all of them in a format at the end."""

    def __init__(self, flags: WritingOptions) -> None:
        self.is_sent = flags.dry_run is not DryRun.CLIENT
        self.options = WriteOptions(dry_run=flags.dry_run is DryRun.SERVER)
        self._suffix = DRY_RUN_SUFFIXES[flags.dry_run]
        self._choice: OutputChoice | None = None
        if flags.output:
            self._choice = parse_output(flags.output)
            if self._choice.is_table:
                hint = "for example: -o json, -o yaml, -o name"
                raise CommandError("objects that are written make no table", hint, USAGE)
        self._bodies: list[Body] = []

    @property
    def wants_objects(self) -> bool:
        """Whether objects are printed as the server has stored them."""
        return self._choice is not None

    def tell(self, body: Body, done: str) -> None:
        """Tell that an object was written; `done` is the word for it."""
        if self._choice is None:
            sys.stdout.write(f"{kind_and_name(body)} {done}{self._suffix}\n")
        else:
            self._bodies.append(without_owners(body))

    def end(self) -> None:
        """Print what was asked for after the last object."""
        if self._choice is not None and self._bodies:
            print_objects(self._bodies, self._choice, is_single=len(self._bodies) == 1)
