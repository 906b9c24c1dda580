"""The command `swell sweep`: one job for each row of parameters, submitted and followed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api import codec
from swell.api.manifest import read
from swell.api.meta import Body
from swell.cli import options
from swell.cli.choice import home_to_use
from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.connection import ClusterConnection, connected, current_environment
from swell.cli.jobs.command_job import (
    COMMAND_LINE,
    CommandOptions,
    add_caller,
    command_job,
    random_name,
)
from swell.cli.jobs.run import CANNOT_START, with_embedded_cluster
from swell.cli.jobs.submission import Strict, warn
from swell.cli.manifests import problems_in, refuse_problems
from swell.cli.options import ClusterOptions, option_groups, text_of_bytes
from swell.cli.output import to_yaml
from swell.cli.progress import ProgressLine
from swell.cli.sweeps.follow import follow_sweep
from swell.cli.sweeps.row_jobs import held_back, job_of_row, unused_parameters
from swell.cli.sweeps.rows import SweepRow, array_rows, file_lines, grid_rows
from swell.cli.sweeps.submitting import create_jobs, refuse_known_sweep

if TYPE_CHECKING:
    from swell.cli.invocation import Invocation

STDIN = "-"
Parameters = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME=VALUES...] -- CMD...", help="Such as lr=1e-3,1e-4 seed=0..9."),
]


@dataclass(frozen=True, slots=True)
class RowOptions:
    """The flags that make rows, beside the parameters, and how many run at a time."""

    file: Annotated[
        str,
        typer.Option("-f", "--file", metavar="FILE", help="Rows: CSV or JSON lines; - is stdin."),
    ] = ""
    array: Annotated[
        str, typer.Option("--array", metavar="RANGE", help="Such as 0-199, as for sbatch.")
    ] = ""
    parallel: Annotated[
        int | None,
        typer.Option("--parallel", min=1, metavar="N", help="Jobs at a time, while followed."),
    ] = None


@option_groups
def sweep(
    invoked: typer.Context,
    parameters: Parameters = None,
    *,
    name: Annotated[str, typer.Option("--name", help="Name of the sweep.")] = "",
    made_of: RowOptions,
    asked: CommandOptions,
    detach: Annotated[bool, typer.Option("--detach", help="Only submit.")] = False,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the manifests, and submit nothing.")
    ] = False,
    strict: Strict = False,
    wait_forever: Annotated[
        bool, typer.Option("--wait-forever", help="Also for jobs that cannot start as things are.")
    ] = False,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Run a command once for every row of parameters, each in a job of its own.

    For example: swell sweep lr=1e-3,1e-4 seed=0..9 -- python train.py --lr {lr} --seed {seed}
    """
    invocation: Invocation = invoked.obj
    if detach and made_of.parallel is not None:
        hint = "leave --detach out, and take it up again with: swell attach sweep/NAME"
        raise CommandError("--parallel needs this command to stay", hint, USAGE)
    rows = rows_asked_for(parameters or [], made_of)
    name = name or random_name("sweep")
    document = command_job(name, invocation.command or (), asked, os.environ)
    is_embedded = home_to_use(cluster, current_environment()) is not None
    if is_embedded:
        # The processes run on this machine, where relative paths of the command are meant.
        add_caller(document.body, asked, os.environ, Path.cwd())
    bodies = bodies_of(document.body, name, rows)
    if made_of.parallel is not None:
        bodies = held_back(bodies, made_of.parallel)
    _note_unused(invocation.command or (), asked, rows)
    if print_only:
        sys.stdout.write("---\n".join(map(to_yaml, bodies)))
        return
    with connected(with_embedded_cluster(cluster), writes=True) as connection:
        scope = connection.namespace(namespace)
        refuse_known_sweep(connection, scope, name)
        warnings = warn([document], connection, is_strict=strict)
        _submit(connection, scope, name, bodies)
        if detach:
            sys.stdout.write(f"sweep/{name} created\n")
        elif not wait_forever and any(warning.is_never for warning in warnings):
            hint = f"they stay submitted; remove them: swell delete sweep/{name}; or wait for"
            message = f"the jobs of {name} cannot start on this cluster as it is"
            raise CommandError(message, f"{hint} a change: --wait-forever", CANNOT_START)
        else:
            raise typer.Exit(follow_sweep(connection, scope, name))


def rows_asked_for(parameters: Sequence[str], made_of: RowOptions) -> list[SweepRow]:
    """Return the rows of a command line; CommandError if they cannot be."""
    if made_of.array:
        if parameters or made_of.file:
            raise CommandError("--array cannot be combined with other rows", exit_code=USAGE)
        return array_rows(made_of.array)
    if not parameters and not made_of.file:
        hint = "for example: swell sweep lr=1e-3,1e-4 -- python train.py --lr {lr}"
        raise CommandError("say which rows: NAME=VALUES, -f FILE or --array", hint, USAGE)
    lines: list[dict[str, str]] = []
    if made_of.file:
        is_stdin = made_of.file == STDIN
        name = "stdin" if is_stdin else made_of.file
        content = sys.stdin.buffer.read() if is_stdin else Path(name).read_bytes()
        lines = file_lines(text_of_bytes(content, name), name)
    return grid_rows(parameters, lines)


def bodies_of(template: Body, sweep_name: str, rows: Sequence[SweepRow]) -> list[Body]:
    """Return the jobs of all rows. The one of the longest name is checked for all."""
    bodies = [job_of_row(template, sweep_name, row) for row in rows]
    longest = max(bodies, key=lambda body: len(body["metadata"]["name"]))
    refuse_problems(problems_in([read(codec.encode(longest), COMMAND_LINE)]))
    return bodies


def _submit(
    connection: ClusterConnection, namespace: str, sweep_name: str, bodies: Sequence[Body]
) -> None:
    n_jobs = len(bodies)
    with ProgressLine() as line:
        title = f"sweep/{sweep_name}: submitting"
        create_jobs(connection, namespace, bodies, lambda n: line.count(title, n, n_jobs))
    note(f"sweep/{sweep_name}: {n_jobs} {'job' if n_jobs == 1 else 'jobs'} submitted")


def _note_unused(command: Sequence[str], asked: CommandOptions, rows: Sequence[SweepRow]) -> None:
    """Say which parameters have no effect on the command itself."""
    for parameter in unused_parameters([*command, *(asked.env or ())], rows):
        note(f"note: no {{{parameter}}} in the command; programs find it in SWELL_SWEEP_ROW")
