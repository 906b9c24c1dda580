"""`swell explain`: why a job waits, in numbers, and what would let it start.

Lists the objects and runs a scheduling session over them itself, so that it works on any cluster
and for whoever may list; beside it stands what the scheduler has written down.
"""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from typing import Annotated

import typer

from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.connection import connected
from swell.cli.options import ClusterOptions, option_groups

Words = Annotated[
    list[str],
    typer.Argument(metavar="[KIND] JOB", help="A job, PodGroup or pod: name, ns/name, kind/name."),
]


class Format(StrEnum):
    JSON = "json"
    YAML = "yaml"


@option_groups
def explain(
    words: Words,
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
    output: Annotated[
        Format | None, typer.Option("-o", "--output", help="Format; text without it.")
    ] = None,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Tell why a job waits: what it asks, who holds the room, what would free it."""
    from swell.cli.explain.report import ExplainInput, read_input, report_on
    from swell.cli.explain.target import parse_target_name, read_target, target_in
    from swell.cli.explain.text import render
    from swell.cli.output import print_object
    from swell.cli.plan.input import read_config, read_objects

    wanted = parse_target_name(words)
    settings = read_config(config)
    if namespace and wanted.namespace and namespace != wanted.namespace:
        raise CommandError("two namespaces are given", "leave one of them out", 2)
    if files:
        objects = read_objects(files)
        subject = target_in(wanted, namespace or wanted.namespace or "default", objects)
        scene = ExplainInput(objects, is_live=False)
    else:
        with connected(cluster) as connection:
            scope = connection.namespace(namespace, wanted.namespace)
            subject = read_target(wanted, scope, connection.client)
            scene = read_input(connection.client, subject)
    report = report_on(subject, scene, settings, scheduler_name or ())
    if output is None:
        sys.stdout.write(render(report, time.time()))
    else:
        print_object(report.body(), as_yaml=output is Format.YAML)
