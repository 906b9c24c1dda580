"""The commands `swell get`, `describe` and `delete`: objects of any kind, on any cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, TypeVar

import typer

from swell.api import codec
from swell.api.kinds import EVENTS, NAMESPACES, QUEUES, RECORDED_EVENTS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.arguments import ObjectArguments, parse_object_arguments
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.job_kinds import by_kind
from swell.cli.objects.deleting import delete_one, wait_until_gone
from swell.cli.objects.describe import describe_object
from swell.cli.objects.events import event_order
from swell.cli.options import ClusterOptions, OutputFormat, option_groups
from swell.cli.output import aligned, print_list, print_names, print_object, table_rows
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection
from swell.runtime.errors import ClusterError, NotFoundError

T = TypeVar("T")
# Asks for a Table as kubectl does; a server that makes none sends the objects.
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

OptionalArguments = Annotated[
    list[str] | None, typer.Argument(metavar="[KIND] [NAME]...", help="Kind; then names.")
]
Arguments = Annotated[
    list[str], typer.Argument(metavar="[KIND] NAME...", help="Kind (jobs without it); names.")
]


@option_groups
def get(
    arguments: OptionalArguments = None,
    *,
    output: options.OutputOption = None,
    namespace: options.Namespace = "",
    everywhere: options.AllNamespaces = False,
    labels: options.Labels = "",
    cluster: ClusterOptions,
) -> None:
    """Show objects: jobs, or those of KIND."""
    with connected(cluster) as connection:
        target = parse_object_arguments(arguments or [], connection.client)
        scope = _scope(target, connection, namespace, everywhere)
        if target.names and labels:
            raise CommandError("names and a selector cannot be given together", exit_code=2)
        targets, selection = by_kind(target, connection, scope), Selection(scope, labels)
        if output in {None, OutputFormat.WIDE}:
            wide = output is OutputFormat.WIDE
            _show_tables(targets, selection, connection, wide, everywhere)
        elif len(target.names) == 1:
            _show_one(_read(targets[0].resource, scope, target.names[0], connection), output)
        else:
            _show_all(targets, selection, connection, output)


@option_groups
def describe(
    arguments: Arguments,
    *,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Tell all about objects, with their events."""
    with connected(cluster) as connection:
        target = parse_object_arguments(arguments, connection.client)
        scope = _scope(target, connection, namespace, everywhere=False)
        texts = [
            describe_object(_read(one.resource, scope, name, connection), connection.client)
            for one in by_kind(target, connection, scope)
            for name in one.names or _names(one.resource, scope, connection)
        ]
        if texts:
            sys.stdout.write("\n\n".join(texts) + "\n")
        else:
            _report_nothing_found(scope, connection)


@option_groups
def delete(
    arguments: Arguments,
    *,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is gone.")] = True,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Delete objects and wait until they are gone."""
    with connected(cluster, writes=True) as connection:
        target = parse_object_arguments(arguments, connection.client)
        if not target.names:
            raise CommandError(f"which {target.resource.plural}? give their names", exit_code=2)
        _refuse_built_in(target)
        scope = _scope(target, connection, namespace, everywhere=False)
        found = [
            (one.resource, _read(one.resource, scope, name, connection))
            for one in by_kind(target, connection, scope)
            for name in one.names
        ]
        # All are deleted before the first is waited for: they end side by side.
        for resource, body in found:
            delete_one(resource, body, connection)
        for resource, body in found:
            if wait:
                wait_until_gone(resource, body, connection)
            print_names([body], suffix=" deleted")


def _refuse_built_in(target: ObjectArguments) -> None:
    """Refuse to delete queues that the scheduler would only create again."""
    if str(target.resource) != str(QUEUES):
        return
    # Imported here: other kinds need nothing of the scheduler.
    from swell.scheduler.model.queue_rules import BUILT_IN

    for name in target.names:
        if name in BUILT_IN:
            raise CommandError(f"queue {name} is always there", "it would come again at once")


def _scope(
    target: ObjectArguments, connection: ClusterConnection, asked: str, everywhere: bool
) -> str:
    """Return the namespace to look in; empty for all, and for kinds that have none."""
    if not target.resource.namespaced or (everywhere and not target.names):
        return ""
    if everywhere:
        raise CommandError("a name is looked for in one namespace: leave -A out", exit_code=2)
    return connection.namespace(asked)


def _read(resource: Resource[Body], scope: str, name: str, connection: ClusterConnection) -> Body:
    return connection.client.send(calls.get(resource, Key(scope, name)))


def _names(resource: Resource[Body], scope: str, connection: ClusterConnection) -> Sequence[str]:
    found = connection.client.send(calls.list_page(resource, Selection(scope)))
    return [item["metadata"]["name"] for item in found.items]


def _show_one(body: Body, output: OutputFormat | None) -> None:
    if output is OutputFormat.NAME:
        print_names([body])
    else:
        print_object(body, as_yaml=output is OutputFormat.YAML)


def _show_all(
    targets: Sequence[ObjectArguments],
    selection: Selection,
    connection: ClusterConnection,
    output: OutputFormat | None,
) -> None:
    def read(target: ObjectArguments) -> Sequence[Body]:
        items = _items(target, selection, connection)
        if _is_of_events(target.resource) and not target.names:
            return sorted(items, key=event_order)
        return items

    items = [item for _, page in _served(targets, read) for item in page]
    if output is OutputFormat.NAME:
        print_names(items)
    else:
        print_list(items, as_yaml=output is OutputFormat.YAML)


def _items(
    target: ObjectArguments, selection: Selection, connection: ClusterConnection
) -> Sequence[Body]:
    if not target.names:
        return connection.client.send(calls.list_page(target.resource, selection)).items
    return [_read(target.resource, selection.namespace, name, connection) for name in target.names]


def _served(
    targets: Sequence[ObjectArguments], read: Callable[[ObjectArguments], T]
) -> Iterator[tuple[ObjectArguments, T]]:
    """Read every target. A kind that the cluster does not have is left out, if it has another."""
    n_missing = 0
    for target in targets:
        try:
            found = read(target)
        except NotFoundError:
            n_missing += 1
            if target.names or n_missing == len(targets):
                raise
            continue
        yield target, found


def _show_tables(
    targets: Sequence[ObjectArguments],
    selection: Selection,
    connection: ClusterConnection,
    wide: bool,
    everywhere: bool,
) -> None:
    """Print the server's own tables: their columns are those that the kinds' authors chose."""

    def read(target: ObjectArguments) -> list[list[str]]:
        answers = (connection.client.send(call) for call in _table_calls(target, selection))
        tables = [codec.decode(answer, dict) for answer in answers]
        if _is_of_events(target.resource):
            for table in tables:
                rows = table.get("rows") or ()
                table["rows"] = sorted(rows, key=lambda row: event_order(row["object"]))
        with_namespace = everywhere and target.resource.namespaced
        # Names are read one by one; each answer is a table of its own with the same heading.
        pages = [table_rows(table, wide=wide, with_namespace=with_namespace) for table in tables]
        return [*pages[0], *(row for page in pages[1:] for row in page[1:])]

    shown = [aligned(rows) for _, rows in _served(targets, read) if len(rows) > 1]
    if shown:
        sys.stdout.write("\n\n".join(shown) + "\n")
    else:
        _report_nothing_found(selection.namespace, connection)


def _table_calls(target: ObjectArguments, selection: Selection) -> list[calls.KubeCall[bytes]]:
    if not target.names:
        path = calls.list_page(target.resource, selection).path
        if _is_of_events(target.resource):
            # A server lists objects by name; the times to sort events by are in the objects.
            path += f"{'&' if '?' in path else '?'}includeObject=Object"
        return [calls.raw(path, accept=TABLE)]
    keys = [Key(selection.namespace, name) for name in target.names]
    return [calls.raw(calls.get(target.resource, key).path, accept=TABLE) for key in keys]


def _is_of_events(resource: Resource[Body]) -> bool:
    return resource.kind == EVENTS.kind and resource.group in {EVENTS.group, RECORDED_EVENTS.group}


def _report_nothing_found(scope: str, connection: ClusterConnection) -> None:
    where = f"in namespace {scope}" if scope else "in the cluster"
    sys.stderr.write(f"nothing found {where}\n")
    if scope and not _has_namespace(scope, connection):
        sys.stderr.write("  there is no such namespace; see: swell get namespaces\n")


def _has_namespace(name: str, connection: ClusterConnection) -> bool:
    """Whether a namespace exists. Without the right to look, it is taken to."""
    try:
        connection.client.send(calls.get(NAMESPACES, Key("", name)))
    except NotFoundError:
        return False
    except ClusterError:
        return True  # a hint that may be wrong is worse than none
    return True
