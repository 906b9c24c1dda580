"""The command `swell explain`: why a job waits, in numbers, and what would let it start.

A kind in place of a name, such as `pod.spec`, tells what its fields mean (`fields`).

It lists the objects and runs a scheduling session over them itself, so that it works on any cluster
for every user who may list them. What the scheduler itself has reported is shown beside it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import printable

Arguments = Annotated[
    list[str],
    typer.Argument(
        metavar="[KIND] JOB",
        help="A job, PodGroup or pod: name, ns/name, kind/name; or KIND.FIELD for what it means.",
    ),
]


class ExplainFormat(StrEnum):
    """Formats of a report; without one it is text."""

    JSON = "json"
    YAML = "yaml"


@option_groups
def explain(
    arguments: Arguments,
    *,
    files: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", metavar="FILE", help="Objects instead of a cluster's."),
    ] = None,
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="The scheduler's, if not the default.")
    ] = "",
    scheduler_name: Annotated[
        list[str] | None,
        typer.Option("--scheduler-name", metavar="NAME", help="Other names it is known by."),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", help="Of a kind: all fields inside its fields.")
    ] = False,
    output: Annotated[
        ExplainFormat | None, typer.Option("-o", "--output", help="Format; text without it.")
    ] = None,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Tell why a job waits: what it asks, who holds the room, what would free it."""
    from swell.cli.explain.target import parse_target_name, read_target, target_in
    from swell.cli.explain.text import render
    from swell.cli.output import print_object
    from swell.cli.plan.input import read_config, read_objects
    from swell.outlook.explaining import report_on
    from swell.outlook.reading import ExplainInput, read_input

    name = parse_target_name(arguments)
    settings = read_config(config)
    names = frozenset(scheduler_name or ())
    if namespace and name.namespace and namespace != name.namespace:
        raise CommandError("two namespaces are given", "leave one of them out", 2)
    if files:
        objects = read_objects(files)
        target = target_in(name, namespace or name.namespace or "default", objects)
        found = ExplainInput(objects, is_live=False)
    else:
        with connected(cluster) as connection:
            scope = connection.namespace(namespace, name.namespace)
            try:
                target = read_target(name, scope, connection.client)
            except CommandError:
                # No object has this name: it may be a kind, and be meant as for kubectl.
                if not _print_fields(arguments, connection, is_recursive=recursive):
                    raise
                return
            found = read_input(connection.client, target)
            names |= connection.scheduler_names
    now = time.time()  # wall time: it is compared with timestamps of the cluster
    report = report_on(target, found, settings, names, now)
    if output is None:
        sys.stdout.write(printable(render(report, now)))
    else:
        print_object(report.body(), as_yaml=output is ExplainFormat.YAML)


def _print_fields(
    arguments: Sequence[str], connection: ClusterConnection, *, is_recursive: bool
) -> bool:
    """Print what fields mean, if the one argument is a kind or begins with one; else say no."""
    from swell.cli.explain.fields import field_page, kind_of_path

    path = arguments[0]
    kind = kind_of_path(path, connection) if len(arguments) == 1 and "/" not in path else None
    if kind is None:
        return False
    sys.stdout.write(field_page(kind, path, connection, is_recursive=is_recursive))
    return True
