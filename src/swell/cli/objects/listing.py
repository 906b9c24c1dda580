"""The commands `swell events` and `api-resources`: what a cluster tells of itself."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, NoReturn

import typer

from swell.api.kinds import EVENTS
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.arguments import discovered
from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.connection import ClusterConnection, connected
from swell.cli.job_kinds import JOB_KINDS
from swell.cli.objects.events import event_order, events_table
from swell.cli.objects.waiting import found_objects
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import aligned, print_list, printable
from swell.cluster.kube import calls
from swell.cluster.kube.watching import WatchedObjects
from swell.runtime.cluster import EventType, Selection

# How often a command that stays looks whether it was interrupted.
_POLL_S = 0.5


class ResourceFormat(StrEnum):
    """The formats in which kinds are listed; without one they are a table."""

    JSON = "json"
    NAME = "name"
    WIDE = "wide"


@option_groups
def events(
    *,
    for_: Annotated[
        str, typer.Option("--for", metavar="[KIND/]NAME", help="About this object alone.")
    ] = "",
    types: Annotated[
        str, typer.Option("--types", metavar="TYPE,...", help="Normal, Warning, or both.")
    ] = "",
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Stay, and show every new one.")
    ] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Rows alone.")] = False,
    output: options.JsonOption = None,
    namespace: options.Namespace = "",
    everywhere: options.AllNamespaces = False,
    cluster: ClusterOptions,
) -> None:
    """Show what has happened, the oldest first; of a job, also what happened to its pods."""
    wanted_types = {one.lower() for one in options.names_in(types)}
    if not wanted_types <= {"normal", "warning"}:
        raise CommandError(f"not a type of events: {types}", "Normal, Warning, or both", USAGE)
    if watch and output is not None:
        raise CommandError("events that are watched are lines", "leave -o out", USAGE)
    with connected(cluster) as connection:
        scope = "" if everywhere else connection.namespace(namespace)
        bodies = found_objects([for_], connection, scope) if for_ else []

        def is_wanted(event: Body) -> bool:
            is_of_type = not wanted_types or str(event.get("type", "")).lower() in wanted_types
            return is_of_type and (not for_ or any(is_about(event, body) for body in bodies))

        selection = Selection(scope)
        if watch:
            _follow(connection, selection, is_wanted, has_heading=not no_headers)
        found = connection.client.send(calls.list_page(EVENTS.untyped(), selection)).items
        shown = sorted(filter(is_wanted, found), key=event_order)
        if output is not None:
            print_list(shown, as_yaml=False)
        elif shown:
            rows = events_table(shown, time.time(), with_object=True)
            sys.stdout.write(aligned(rows[1:] if no_headers else rows) + "\n")
        else:
            note("no events")


def _follow(
    connection: ClusterConnection,
    selection: Selection,
    is_wanted: Callable[[Body], bool],
    *,
    has_heading: bool,
) -> NoReturn:
    """Print events and every new one, until Ctrl-C. Columns keep the width of the widest cell."""
    widths: list[int] = []
    rng = random.Random()  # noqa: S311
    with WatchedObjects(connection.client, EVENTS.untyped(), selection, rng) as watched:
        while True:
            watched.poll(_POLL_S)
            new = [body for kind, body in watched.take_changes() if kind is not EventType.DELETED]
            new = sorted(filter(is_wanted, new), key=event_order)
            heading, *rows = events_table(new, time.time(), with_object=True)
            rows = [heading, *rows] if rows and has_heading else rows
            has_heading = has_heading and not rows
            for row in rows:
                old = widths or [0] * len(row)
                widths = [max(width, len(cell)) for width, cell in zip(old, row, strict=True)]
            for row in rows:
                cells = (cell.ljust(width + 3) for cell, width in zip(row, widths, strict=True))
                sys.stdout.write(printable("".join(cells)).rstrip() + "\n")
            sys.stdout.flush()


@option_groups
def api_resources(
    *,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Rows alone.")] = False,
    namespaced: Annotated[
        bool | None,
        typer.Option("--namespaced/--not-namespaced", help="Only kinds that have namespaces."),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--api-group", metavar="GROUP", help="Only kinds of this group.")
    ] = None,
    output: Annotated[
        ResourceFormat | None, typer.Option("-o", "--output", help="Format; a table without it.")
    ] = None,
    cluster: ClusterOptions,
) -> None:
    """Show the kinds that the cluster serves."""
    with connected(cluster) as connection:
        kinds = [
            one
            for one in discovered(connection.client)
            if namespaced in {None, one.namespaced} and group in {None, one.group}
        ]
    if output is ResourceFormat.JSON:
        print_list([_kind_body(one) for one in kinds], as_yaml=False)
    elif output is ResourceFormat.NAME:
        for one in kinds:
            sys.stdout.write(f"{one.plural}{'.' if one.group else ''}{one.group}\n")
    else:
        rows = [["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]]
        for one in kinds:
            names, scope = ",".join(one.short_names), str(one.namespaced).lower()
            rows.append([one.plural, names, one.api_version, scope, one.kind])
        sys.stdout.write(aligned(rows[1:] if no_headers else rows) + "\n")


def _kind_body(resource: Resource[Body]) -> Body:
    return {
        "name": resource.plural,
        "shortNames": list(resource.short_names),
        "apiVersion": resource.api_version,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
    }


def is_about(event: Body, body: Body) -> bool:
    """Whether an event is about an object, or about a pod that an object of this name owns."""
    about, meta = event.get("involvedObject") or {}, body["metadata"]
    if about.get("uid"):
        is_itself = about["uid"] == meta["uid"]
    else:
        is_itself = (about.get("kind"), about.get("name")) == (body.get("kind"), meta["name"])
    # The operator names pods JOB-ROLE-INDEX, and events outlive pods: their owner cannot be asked.
    is_job = body.get("kind") in {kind.kind for kind in JOB_KINDS}
    is_of_pod = about.get("kind") == "Pod" and str(about.get("name", "")).startswith(
        f"{meta['name']}-"
    )
    is_of_group = (about.get("kind"), about.get("name")) == ("PodGroup", meta["name"])
    return is_itself or (is_job and (is_of_pod or is_of_group))
