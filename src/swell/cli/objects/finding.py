"""Finds the objects that a command is about, in the namespaces that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from swell.api.kinds import AI_TRAINING_JOBS, NAMESPACES
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cli.arguments import ObjectArguments, parse_object_arguments
from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.connection import ClusterConnection
from swell.cli.job_kinds import by_kind
from swell.cli.sweep_names import sweep_names
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection
from swell.runtime.errors import ClusterError, NotFoundError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WantedObjects:
    """Objects of one kind: those of some names, or all that a selection finds."""

    resource: Resource[Body]
    names: tuple[str, ...]
    selection: Selection


def wanted_objects(
    arguments: Sequence[str],
    connection: ClusterConnection,
    asked: Selection,
    *,
    everywhere: bool = False,
) -> list[WantedObjects]:
    """Parse `[KIND] [NAME]...`; `asked` has the namespace flag and the selectors."""
    wanted: list[WantedObjects] = []
    sweeps = sweep_names(arguments)
    if sweeps is not None:
        return _jobs_of_sweeps(sweeps, connection, asked)
    for target in parse_object_arguments(arguments, connection.client):
        if target.names and (asked.labels or asked.fields):
            raise CommandError("names and a selector cannot be given together", exit_code=USAGE)
        scope = scope_of(target, connection, asked.namespace, everywhere=everywhere)
        selection = Selection(scope, asked.labels, asked.fields)
        wanted += [
            WantedObjects(one.resource, one.names, selection)
            for one in by_kind(target, connection, scope)
        ]
    return wanted


def wanted_in_files(
    files: Sequence[str], connection: ClusterConnection, namespace: str
) -> list[WantedObjects]:
    """Return the objects that manifests name, in their order."""
    # Imported here: objects that are named need no manifests.
    from swell.cli.manifests import read_files
    from swell.cli.objects.apply import resolve

    documents = [document for reading in read_files(files) for document in reading.documents]
    named = [resolve(document.body, connection, namespace) for document in documents]
    return [
        WantedObjects(one.resource, (one.key.name,), Selection(one.key.namespace)) for one in named
    ]


@dataclass(frozen=True, slots=True)
class ObjectChoice:
    """The ways to say which objects, besides their names: manifests, labels, fields, or all."""

    files: Sequence[str] = ()
    labels: str = ""
    fields: str = ""
    every: bool = False
    everywhere: bool = False


def chosen_objects(
    arguments: Sequence[str], chosen: ObjectChoice, connection: ClusterConnection, namespace: str
) -> list[WantedObjects]:
    """Return the objects of a command that changes them; CommandError if nothing says which.

    Without names, a kind alone is too little: it takes a selector, or the word that all are meant.
    """
    if bool(chosen.files) == bool(arguments):
        raise CommandError("say which objects: [KIND] NAME..., or -f FILE", exit_code=USAGE)
    if chosen.files:
        return wanted_in_files(chosen.files, connection, namespace)
    asked = Selection(namespace, chosen.labels, chosen.fields)
    wanted = wanted_objects(arguments, connection, asked, everywhere=chosen.everywhere)
    for one in wanted:
        if not one.names and not (chosen.every or chosen.labels or chosen.fields):
            hint = "or say --all, or -l LABELS"
            raise CommandError(f"which {one.resource.plural}? give their names", hint, USAGE)
    return wanted


def _jobs_of_sweeps(
    sweeps: Sequence[str], connection: ClusterConnection, asked: Selection
) -> list[WantedObjects]:
    """Return the jobs of sweeps, which servers know by a label only."""
    from swell.cli.sweeps.state import read_sweep

    if not sweeps or asked.labels or asked.fields:
        raise CommandError("say which sweeps, by their names", "see: swell get sweeps", USAGE)
    scope = connection.namespace(asked.namespace)
    found = [read_sweep(connection, scope, sweep) for sweep in sweeps]
    return [
        WantedObjects(
            AI_TRAINING_JOBS.untyped(),
            tuple(job.key.name for job in state.jobs),
            Selection(scope),
        )
        for state in found
    ]


def scope_of(
    target: ObjectArguments, connection: ClusterConnection, asked: str, *, everywhere: bool
) -> str:
    """Return the namespace to look in; empty for all, and for kinds that have none."""
    if not target.resource.namespaced or (everywhere and not target.names):
        return ""
    if everywhere:
        raise CommandError("a name is looked for in one namespace: leave -A out", exit_code=USAGE)
    return connection.namespace(asked)


def read_objects(wanted: WantedObjects, connection: ClusterConnection) -> Sequence[Body]:
    """Return the objects; NotFoundError if one of the names, or the kind, is not there."""
    if not wanted.names:
        return connection.client.send(calls.list_page(wanted.resource, wanted.selection)).items
    keys = [Key(wanted.selection.namespace, name) for name in wanted.names]
    return [connection.client.send(calls.get(wanted.resource, key)) for key in keys]


def each_served(
    wanted: Sequence[WantedObjects], read: Callable[[WantedObjects], T]
) -> Iterator[tuple[WantedObjects, T]]:
    """Read every kind. One that the cluster does not have is left out, if it has another."""
    n_missing = 0
    for one in wanted:
        try:
            found = read(one)
        except NotFoundError:
            n_missing += 1
            if one.names or n_missing == len(wanted):
                raise
            continue
        yield one, found


def report_nothing_found(scope: str, connection: ClusterConnection) -> None:
    """Say on stderr that nothing was found, and why that may be."""
    where = f"in namespace {scope}" if scope else "in the cluster"
    note(f"nothing found {where}")
    if scope and not _has_namespace(scope, connection):
        note("  there is no such namespace; see: swell get namespaces")


def _has_namespace(name: str, connection: ClusterConnection) -> bool:
    """Whether a namespace exists. Without the right to look, it is taken to."""
    try:
        connection.client.send(calls.get(NAMESPACES, Key("", name)))
    except NotFoundError:
        return False
    except ClusterError:
        return True  # a hint that may be wrong is worse than none
    return True
