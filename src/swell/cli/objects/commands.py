"""The commands `swell describe` and `delete`: objects of any kind, on any cluster."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from swell.api.kinds import QUEUES
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.connection import ClusterConnection, connected
from swell.cli.objects.deleting import delete_one, wait_until_gone
from swell.cli.objects.describe import describe_object
from swell.cli.objects.finding import (
    ObjectChoice,
    WantedObjects,
    chosen_objects,
    each_served,
    read_objects,
    report_nothing_found,
    wanted_in_files,
    wanted_objects,
)
from swell.cli.objects.outcome import DRY_RUN_SUFFIXES, DryRun, DryRunOption
from swell.cli.options import ClusterOptions, option_groups, seconds_of
from swell.cli.output import print_names, printable
from swell.cli.progress import ProgressLine
from swell.cluster.kube import calls
from swell.runtime.cluster import Deletion, Selection
from swell.runtime.errors import NotFoundError

OptionalArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KIND] [NAME]...", help="Kind (jobs without it); names."),
]


@option_groups
def describe(
    arguments: OptionalArguments = None,
    *,
    files: options.ObjectFiles = None,
    labels: options.Labels = "",
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Tell all about objects, with their events."""
    with connected(cluster) as connection:
        if bool(files) == bool(arguments):
            raise CommandError("say which objects: [KIND] NAME..., or -f FILE", exit_code=USAGE)
        wanted = (
            wanted_in_files(files, connection, namespace)
            if files
            else wanted_objects(arguments or (), connection, Selection(namespace, labels))
        )
        texts = [
            describe_object(body, connection.client)
            for _, bodies in each_served(wanted, lambda one: read_objects(one, connection))
            for body in bodies
        ]
        if texts:
            sys.stdout.write(printable("\n\n".join(texts)) + "\n")
        else:
            report_nothing_found(wanted[0].selection.namespace, connection)


class Cascade(StrEnum):
    """The ways in which objects go that a deleted one owns."""

    BACKGROUND = "background"
    FOREGROUND = "foreground"
    ORPHAN = "orphan"


class NameFormat(StrEnum):
    """The one format of a command that prints names."""

    NAME = "name"


@dataclass(frozen=True, slots=True)
class _Way:
    """How objects are deleted."""

    waits: bool
    grace_s: int | None
    ignores_missing: bool
    propagation: str = "Background"
    dry_run: DryRun = DryRun.NONE
    deadline: float = math.inf

    @property
    def deletion(self) -> Deletion:
        is_tried = self.dry_run is DryRun.SERVER
        return Deletion(grace_s=self.grace_s, propagation=self.propagation, dry_run=is_tried)


@option_groups
def delete(
    arguments: OptionalArguments = None,
    *,
    files: options.ObjectFiles = None,
    every: options.EveryObject = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is gone.")] = True,
    grace_period: Annotated[
        int | None, typer.Option("--grace-period", min=0, help="Seconds to end in.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="At once, as --grace-period 0.")] = False,
    now: Annotated[bool, typer.Option("--now", help="As --grace-period 1.")] = False,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="A missing object is no error.")
    ] = False,
    cascade: Annotated[
        Cascade, typer.Option("--cascade", help="When owned objects go; orphan: they stay.")
    ] = Cascade.BACKGROUND,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", parser=seconds_of, metavar="DURATION", help="Wait no longer."),
    ] = None,
    dry_run: DryRunOption = DryRun.NONE,
    output: Annotated[
        NameFormat | None, typer.Option("-o", "--output", help="name: kind/name alone.")
    ] = None,
    labels: options.Labels = "",
    fields: options.FieldSelector = "",
    namespace: options.Namespace = "",
    everywhere: options.AllNamespaces = False,
    cluster: ClusterOptions,
) -> None:
    """Delete objects and wait until they are gone."""
    grace_s = 0 if force else 1 if now else grace_period
    deadline = time.monotonic() + timeout if timeout else math.inf
    waits = wait and dry_run is DryRun.NONE
    way = _Way(waits, grace_s, ignore_not_found, cascade.value.title(), dry_run, deadline)
    done = "" if output else f" deleted{DRY_RUN_SUFFIXES[dry_run]}"
    if bool(files) == bool(arguments):
        raise CommandError(
            "say which objects: [KIND] NAME..., or -f FILE", "see: swell delete --help", USAGE
        )
    with connected(cluster, writes=True) as connection:
        if files:
            found = _of_files(files, connection, namespace, way)
        else:
            chosen = ObjectChoice((), labels, fields, every, everywhere)
            found = _of_arguments(arguments or [], connection, chosen, namespace, way)
        if not found and not ignore_not_found:
            note("nothing was found to delete")
        # All are deleted before the first is waited for: they end side by side.
        with ProgressLine() as line:
            for resource, body in line.counting("deleting objects", found):
                if dry_run is not DryRun.CLIENT:
                    delete_one(resource, body, connection, way.deletion)
        for resource, body in found:
            if way.waits:
                wait_until_gone(resource, body, connection, way.deadline)
            print_names([body], suffix=done)


def _of_files(
    files: Sequence[str], connection: ClusterConnection, namespace: str, way: _Way
) -> list[tuple[Resource[Body], Body]]:
    """Return the live objects of manifests; those that are not there are an error, or left out."""
    # Imported here: deleting by name needs no manifests.
    from swell.cli.manifests import read_files
    from swell.cli.objects.apply import resolve

    documents = [document for reading in read_files(files) for document in reading.documents]
    named = [resolve(document.body, connection, namespace) for document in documents]
    _refuse_built_in([WantedObjects(one.resource, (one.key.name,), Selection()) for one in named])
    found = []
    for one in named:
        try:
            found.append((one.resource, connection.client.send(calls.get(one.resource, one.key))))
        except NotFoundError:
            if not way.ignores_missing:
                raise
    return found


def _of_arguments(
    arguments: Sequence[str],
    connection: ClusterConnection,
    chosen: ObjectChoice,
    namespace: str,
    way: _Way,
) -> list[tuple[Resource[Body], Body]]:
    wanted = chosen_objects(arguments, chosen, connection, namespace)
    _refuse_built_in(wanted)
    try:
        return [
            (one.resource, body)
            for one, bodies in each_served(wanted, lambda one: read_objects(one, connection))
            for body in bodies
            if one.names or not _is_built_in(one.resource, body["metadata"]["name"])
        ]
    except NotFoundError:
        if not way.ignores_missing:
            raise
        return []


def _refuse_built_in(wanted: Sequence[WantedObjects]) -> None:
    """Refuse to delete queues that the scheduler would only create again."""
    for one in wanted:
        for name in one.names:
            if _is_built_in(one.resource, name):
                raise CommandError(f"queue {name} is always there", "it would come again at once")


def _is_built_in(resource: Resource[Body], name: str) -> bool:
    if str(resource) != str(QUEUES):
        return False
    # Imported here: other kinds need nothing of the scheduler.
    from swell.scheduler.model.queue_rules import BUILT_IN

    return name in BUILT_IN
