"""The command `swell history`: what became of jobs, also of those that were deleted."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli import options
from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.connection import connected
from swell.cli.options import ClusterOptions, option_groups

if TYPE_CHECKING:
    from swell.history.life import JobLife
    from swell.history.reading import LabelMatch


class HistoryFormat(StrEnum):
    """Formats of the history; without one it is a table."""

    JSON = "json"
    CSV = "csv"


Since = Annotated[
    float | None,
    typer.Option(
        "--since",
        metavar="DURATION",
        parser=options.days_or_seconds_of,
        help="Jobs that ended within it, such as 7d or 12h; others are left out.",
        show_default=False,
    ),
]


@option_groups
def history(
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="One job, with its timeline; or sweep/NAME.")
    ] = "",
    *,
    since: Since = None,
    labels: options.Labels = "",
    output: Annotated[
        HistoryFormat | None,
        typer.Option("-o", "--output", help="Format; csv is a trace that swell replay reads."),
    ] = None,
    namespace: options.Namespace = "",
    everywhere: options.AllNamespaces = False,
    cluster: ClusterOptions,
) -> None:
    """Show what became of jobs: where their time went, what they held, and how they ended."""
    from swell.cli.history.lives import filter_of, read_lives

    now = time.time()
    matching = _matching(labels) if labels else None
    wanted = filter_of(job, matching, now - since if since is not None else None)
    with connected(cluster) as connection:
        where = "" if everywhere else connection.namespace(namespace)
        lives = read_lives(connection, where, wanted, now)
    if job and not lives:
        raise CommandError(
            f"there is no record of a job {job!r} in namespace {where or '(any)'}",
            "see all of them: swell history -A",
        )
    if not lives and output is None:
        note("no jobs have been recorded")
        return
    sys.stdout.write(
        _text(lives, output, now, is_single=wanted.name is not None, everywhere=everywhere)
    )


def _text(
    lives: list[JobLife],
    output: HistoryFormat | None,
    now: float,
    *,
    is_single: bool,
    everywhere: bool,
) -> str:
    from swell.cli.output import aligned, to_json
    from swell.history.export import to_csv
    from swell.history.summary import details_of, history_rows, summary_of, timeline_rows

    if output is HistoryFormat.CSV:
        return to_csv(lives, now)
    if output is HistoryFormat.JSON:
        show = details_of if is_single else summary_of
        return to_json([show(life, now) for life in lives])
    table = aligned(history_rows(lives, now, with_namespace=everywhere))
    if not is_single:
        return table + "\n"
    timelines = (aligned(timeline_rows(life, now)) for life in lives)
    return "\n\n".join([table, *timelines]) + "\n"


def _matching(selector: str) -> LabelMatch:
    from swell.cluster.embedded.selectors import SelectorError, parse_labels

    try:
        return parse_labels(selector).matches
    except SelectorError as error:
        raise CommandError(f"-l {selector}: {error}", exit_code=USAGE) from error
