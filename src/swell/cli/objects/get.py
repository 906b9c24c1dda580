"""The command `swell get`: objects of any kind, as tables of the server or in another format.

`quick` answers its plainest forms before this file is loaded.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from swell.api import codec
from swell.api.kinds import EVENTS, NODES, RECORDED_EVENTS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.extras import can_schedule
from swell.cli.job_kinds import JOB_KINDS
from swell.cli.objects.events import event_order
from swell.cli.objects.finding import (
    WantedObjects,
    each_served,
    read_objects,
    report_nothing_found,
    wanted_in_files,
    wanted_objects,
)
from swell.cli.objects.formats import (
    ObjectFormat,
    OutputChoice,
    parse_output,
    print_objects,
    sort_key,
    without_owners,
)
from swell.cli.objects.node_faults import with_fault_columns
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import aligned, is_any_waiting, shown_rows, with_positions
from swell.cli.sweep_names import sweep_names
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection
from swell.runtime.errors import NotFoundError

# Asks for a Table as kubectl does; a server that makes none sends the objects.
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

OptionalArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KIND] [NAME]...", help="Kind, kinds by commas, or all; then names."),
]
Watch = Annotated[bool, typer.Option("-w", "--watch", help="Stay, and show every change.")]
SortBy = Annotated[str, typer.Option("--sort-by", metavar="PATH", help="Such as .metadata.name.")]


@dataclass(frozen=True, slots=True)
class TableView:
    """The columns and the order of tables, besides the server's own."""

    choice: OutputChoice
    sort_by: str = ""
    has_labels: bool = False
    has_namespaces: bool = False
    has_kinds: bool = False  # names are written kind/name
    has_owners: bool = False  # objects are printed with their managedFields
    label_columns: tuple[str, ...] = ()
    only_changes: bool = False  # of a watch: not what is there already

    @property
    def needs_objects(self) -> bool:
        """Whether rows need whole objects; servers send metadata alone by themselves."""
        return bool(self.sort_by)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The flags about what is shown of objects, and in which order."""

    sort_by: SortBy = ""
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Rows alone.")] = False
    show_labels: Annotated[bool, typer.Option("--show-labels", help="A column of labels.")] = False
    label_columns: Annotated[
        list[str] | None,
        typer.Option("-L", "--label-columns", metavar="LABEL,...", help="Columns of these labels."),
    ] = None
    show_kind: Annotated[bool, typer.Option("--show-kind", help="kind/name in tables.")] = False
    show_managed_fields: Annotated[
        bool, typer.Option("--show-managed-fields", help="Also the owners of fields, in json|yaml.")
    ] = False

    def view(self, choice: OutputChoice, *, has_kinds: bool, everywhere: bool) -> TableView:
        written = ",".join(self.label_columns or ())
        return TableView(
            choice,
            self.sort_by,
            self.show_labels,
            everywhere,
            has_kinds or self.show_kind,
            self.show_managed_fields,
            options.names_in(written),
        )


@option_groups
def get(
    arguments: OptionalArguments = None,
    *,
    output: options.ObjectOutput = "",
    watch: Watch = False,
    watch_only: Annotated[
        bool, typer.Option("--watch-only", help="As -w, without those there are already.")
    ] = False,
    files: options.ObjectFiles = None,
    raw: Annotated[
        str, typer.Option("--raw", metavar="PATH", help="What the server answers, as it is.")
    ] = "",
    table: TableOptions,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="A missing object is no error.")
    ] = False,
    namespace: options.Namespace = "",
    everywhere: options.AllNamespaces = False,
    labels: options.Labels = "",
    fields: options.FieldSelector = "",
    cluster: ClusterOptions,
) -> None:
    """Show objects: jobs, or those of KIND."""
    choice = parse_output(output, has_headers=not table.no_headers)
    if files and arguments:
        raise CommandError("give the objects by -f FILE, or by names", exit_code=USAGE)
    with (
        connected(cluster) as connection,
        suppress(NotFoundError) if ignore_not_found else nullcontext(),
    ):
        if raw:
            _print_raw(raw, connection)
            return
        if sweep_names(arguments or ()) is not None:
            from swell.cli.sweeps.actions import show_sweeps

            show_sweeps(arguments or (), connection, output, namespace, everywhere=everywhere)
            return
        asked = Selection(namespace, labels, fields)
        wanted = (
            wanted_in_files(files, connection, namespace)
            if files
            else wanted_objects(arguments or [], connection, asked, everywhere=everywhere)
        )
        has_kinds = bool(files or arguments) and len(wanted) > 1
        view = table.view(choice, has_kinds=has_kinds, everywhere=everywhere)
        if watch or watch_only:
            from swell.cli.objects.watching import watch_objects

            watch_objects(wanted, replace(view, only_changes=watch_only), connection)
        elif choice.is_table:
            _show_tables(wanted, view, connection)
        else:
            _show_objects(wanted, view, connection)


def _print_raw(path: str, connection: ClusterConnection) -> None:
    if not path.startswith("/"):
        raise CommandError(f"not a path of the server: {path}", "for example: --raw /apis", USAGE)
    answer = connection.client.send(calls.raw(path, accept="*/*"))
    sys.stdout.flush()
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()


def _show_objects(
    wanted: Sequence[WantedObjects], view: TableView, connection: ClusterConnection
) -> None:
    def read(one: WantedObjects) -> Sequence[Body]:
        items = read_objects(one, connection)
        if is_of_events(one.resource) and not one.names:
            return sorted(items, key=event_order)
        return items

    items = [item for _, page in each_served(wanted, read) for item in page]
    if view.sort_by:
        items.sort(key=lambda item: sort_key(view.sort_by, item))
    if not view.has_owners:
        items = [without_owners(item) for item in items]
    is_single = sum(len(one.names) for one in wanted) == 1 and len(wanted) == 1
    print_objects(items, view.choice, is_single=is_single)


def _show_tables(
    wanted: Sequence[WantedObjects], view: TableView, connection: ClusterConnection
) -> None:
    """Print the server's own tables: their columns are those that the kinds' authors chose."""

    def read(one: WantedObjects) -> list[list[str]]:
        answers = [connection.client.send(call) for call in _table_calls(one, view)]
        tables = [codec.decode(answer, dict) for answer in answers]
        if view.choice.format is ObjectFormat.WIDE and one.resource in JOB_KINDS:
            tables = _with_positions(tables, connection)
        pages = [rows_of(table, one, view) for table in tables]
        # Names are read one by one; each answer is a table of its own with the same heading.
        return [*pages[0], *(row for page in pages[1:] for row in page[1:])]

    tables = [rows for _, rows in each_served(wanted, read) if len(rows) > 1]
    if tables:
        first = 0 if view.choice.has_headers else 1
        sys.stdout.write("\n\n".join(aligned(rows[first:]) for rows in tables) + "\n")
    else:
        report_nothing_found(wanted[0].selection.namespace, connection)


def _with_positions(tables: Sequence[Body], connection: ClusterConnection) -> list[Body]:
    """Return tables of jobs with their positions, which no server has."""
    if not any(map(is_any_waiting, tables)) or not can_schedule():
        return [with_positions(table, [None] * len(table.get("rows") or ())) for table in tables]
    from swell.cli.positions import read_positions

    positions = read_positions(connection.client)

    def cell(row: Body) -> str | None:
        meta = row["object"]["metadata"]
        found = positions.of(meta["uid"], meta.get("namespace", ""), meta["name"])
        return found.cell if found is not None else None

    return [
        with_positions(table, [cell(row) for row in table.get("rows") or ()]) for table in tables
    ]


def rows_of(table: Body, wanted: WantedObjects, view: TableView) -> list[list[str]]:
    """Return heading and rows of a server's Table, in the order that was asked for."""
    rows = list(table.get("rows") or ())
    if view.sort_by:
        rows.sort(key=lambda row: sort_key(view.sort_by, row["object"]))
    elif is_of_events(wanted.resource) and not wanted.names:
        rows.sort(key=lambda row: event_order(row["object"]))
    is_wide = view.choice.format is ObjectFormat.WIDE
    shown = shown_rows(
        {**table, "rows": rows},
        wide=is_wide,
        with_namespace=view.has_namespaces and wanted.resource.namespaced,
        with_labels=view.has_labels,
        label_columns=view.label_columns,
        kind=wanted.resource.kind.lower() if view.has_kinds else "",
    )
    if is_wide and (wanted.resource.group, wanted.resource.kind) == (NODES.group, NODES.kind):
        # The marks are ours, so no server has columns for them.
        return with_fault_columns(shown, [row.get("object") or {} for row in rows], time.time())
    return shown


def _table_calls(wanted: WantedObjects, view: TableView) -> list[calls.KubeCall[bytes]]:
    if wanted.names:
        keys = [Key(wanted.selection.namespace, name) for name in wanted.names]
        paths = [calls.get(wanted.resource, key).path for key in keys]
    else:
        paths = [calls.list_page(wanted.resource, wanted.selection).path]
    return [calls.raw(table_path(path, wanted, view), accept=TABLE) for path in paths]


def table_path(path: str, wanted: WantedObjects, view: TableView) -> str:
    """Return the path of a table; where rows are sorted, with the objects to sort them by."""
    if is_of_events(wanted.resource) or view.needs_objects:
        return f"{path}{'&' if '?' in path else '?'}includeObject=Object"
    return path


def is_of_events(resource: Resource[Body]) -> bool:
    return resource.kind == EVENTS.kind and resource.group in {EVENTS.group, RECORDED_EVENTS.group}
