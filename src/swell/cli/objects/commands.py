"""The commands `swell describe` and `delete`: objects of any kind, on any cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
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
    WantedObjects,
    each_served,
    read_objects,
    report_nothing_found,
    wanted_objects,
)
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import print_names
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection
from swell.runtime.errors import NotFoundError

Arguments = Annotated[
    list[str], typer.Argument(metavar="[KIND] NAME...", help="Kind (jobs without it); names.")
]
OptionalArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KIND] [NAME]...", help="Kind (jobs without it); names."),
]


@option_groups
def describe(
    arguments: Arguments,
    *,
    labels: options.Labels = "",
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Tell all about objects, with their events."""
    with connected(cluster) as connection:
        wanted = wanted_objects(arguments, connection, Selection(namespace, labels))
        texts = [
            describe_object(body, connection.client)
            for _, bodies in each_served(wanted, lambda one: read_objects(one, connection))
            for body in bodies
        ]
        if texts:
            sys.stdout.write("\n\n".join(texts) + "\n")
        else:
            report_nothing_found(wanted[0].selection.namespace, connection)


@dataclass(frozen=True, slots=True)
class _Way:
    """How objects are deleted."""

    waits: bool
    grace_s: int | None
    ignores_missing: bool


@option_groups
def delete(
    arguments: OptionalArguments = None,
    *,
    files: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", metavar="FILE", help="The objects of a manifest."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All objects of the kind.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is gone.")] = True,
    grace_period: Annotated[
        int | None, typer.Option("--grace-period", min=0, help="Seconds to end in.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="At once, as --grace-period 0.")] = False,
    now: Annotated[bool, typer.Option("--now", help="As --grace-period 1.")] = False,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="A missing object is no error.")
    ] = False,
    labels: options.Labels = "",
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Delete objects and wait until they are gone."""
    grace_s = 0 if force else 1 if now else grace_period
    way = _Way(wait, grace_s, ignore_not_found)
    if bool(files) == bool(arguments):
        raise CommandError(
            "say which objects: [KIND] NAME..., or -f FILE", "see: swell delete --help", USAGE
        )
    with connected(cluster, writes=True) as connection:
        if files:
            found = _of_files(files, connection, namespace, way)
        else:
            found = _of_arguments(
                arguments or [], connection, Selection(namespace, labels), way, every=every
            )
        if not found and not ignore_not_found:
            note("nothing was found to delete")
        # All are deleted before the first is waited for: they end side by side.
        for resource, body in found:
            delete_one(resource, body, connection, way.grace_s)
        for resource, body in found:
            if way.waits:
                wait_until_gone(resource, body, connection)
            print_names([body], suffix=" deleted")


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
    asked: Selection,
    way: _Way,
    *,
    every: bool,
) -> list[tuple[Resource[Body], Body]]:
    wanted = wanted_objects(arguments, connection, asked)
    for one in wanted:
        if not one.names and not every and not asked.labels:
            plural = one.resource.plural
            hint = "or say --all, or -l LABELS"
            raise CommandError(f"which {plural}? give their names", hint, USAGE)
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
