"""The command `swell report`: what became of jobs, as one file that needs nothing else."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import connected
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.progress import ProgressLine


class ReportFormat(StrEnum):
    """Formats of a report; both have the same numbers."""

    HTML = "html"
    JSON = "json"


@option_groups
def report(
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="The job, sweep/NAME, or --all.")
    ] = "",
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every job of the history.")] = False,
    output: Annotated[ReportFormat, typer.Option("-o", "--output", help="Format.")] = (
        ReportFormat.HTML
    ),
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", metavar="FILE", help="Write it there instead of to stdout."),
    ] = None,
    namespace: options.Namespace = "",
    everywhere: options.AllNamespaces = False,
    cluster: ClusterOptions,
) -> None:
    """Write a report of a job, also of one that was deleted, or of all: one file, nothing else."""
    if bool(job) == everything:
        raise CommandError("say which job, or --all", exit_code=USAGE)
    from swell.cli.history.lives import filter_of, read_lives
    from swell.cli.output import to_json, to_yaml
    from swell.history.report import report_page
    from swell.history.summary import details_of

    now = time.time()
    with connected(cluster) as connection:
        where = "" if everywhere else connection.namespace(namespace)
        lives = read_lives(connection, where, filter_of(job), now)
    if not lives:
        what = f"a job {job!r}" if job else "any job"
        raise CommandError(f"there is no record of {what} in namespace {where or '(any)'}")
    with ProgressLine() as line:
        each = line.counting("writing jobs", lives)
        if output is ReportFormat.JSON:
            page = to_json([details_of(life, now) for life in each])
        else:
            manifests = (to_yaml(life.spec) if life.spec else "" for life in each)
            page = report_page(lives, now, manifests=manifests)
    if file is None:
        sys.stdout.write(page)
    else:
        file.write_text(page, encoding="utf-8")
