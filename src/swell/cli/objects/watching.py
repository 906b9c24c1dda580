"""Shows objects, and then every change of them, until it is interrupted: `swell get -w`.

One thread for every kind reads its watch; the command prints what comes, in the order of arrival.
"""

from __future__ import annotations

import queue
import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from swell.api import codec
from swell.api.meta import Body
from swell.cli.connection import ClusterConnection
from swell.cli.objects.finding import WantedObjects
from swell.cli.objects.formats import print_objects, without_owners
from swell.cli.objects.get import TABLE, TableView, rows_of, table_path
from swell.cli.output import printable, to_yaml
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.cluster import Selection
from swell.runtime.errors import ClusterError, GoneError, NotFoundError, UnreachableError

# A server that ends every watch at once must not be asked as fast as it can answer.
REOPEN_S = 1.0
# How often a waiting command looks whether it was interrupted.
POLL_S = 0.5
_BOOKMARK, _ERROR = "BOOKMARK", "ERROR"

# A batch of objects or of table rows of one kind, or the error that ended its watch.
_Batch = tuple[WantedObjects, Body] | BaseException


def watch_objects(
    wanted: Sequence[WantedObjects], view: TableView, connection: ClusterConnection
) -> None:
    """Print objects and their changes. Ends by Ctrl-C, or with the error of a watch."""
    batches: queue.Queue[_Batch] = queue.Queue(maxsize=1000)
    parts = [part for one in wanted for part in _by_name(one)]
    for part in parts:
        client = OneShot(connection.access, random.Random())  # noqa: S311
        watch = _Watch(client, part, view, is_alone=len(parts) == 1)
        threading.Thread(target=watch.run, args=(batches,), daemon=True).start()
    printer = _Printer(view)
    while True:
        try:
            batch = batches.get(timeout=POLL_S)
        except queue.Empty:
            continue
        if isinstance(batch, BaseException):
            raise batch
        printer.show(*batch)


def _by_name(wanted: WantedObjects) -> Iterator[WantedObjects]:
    """Yield a part for each name: a watch selects by the field of the name."""
    if not wanted.names:
        yield wanted
    for name in wanted.names:
        selection = Selection(wanted.selection.namespace, fields=f"metadata.name={name}")
        yield replace(wanted, selection=selection)


class _Watch:
    """Lists the objects of one kind, then follows them, from the last version that was seen."""

    def __init__(
        self, client: OneShot, wanted: WantedObjects, view: TableView, *, is_alone: bool
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._view = view
        self._is_alone = is_alone
        self._version = ""
        self._accept = TABLE if view.choice.is_table else calls.JSON
        self._path = calls.list_page(wanted.resource, wanted.selection).path

    def run(self, batches: queue.Queue[_Batch]) -> None:
        try:
            while True:
                try:
                    if not self._version:
                        self._put(batches, self._listed())
                    for body in self._changes():
                        batches.put((self._wanted, body))
                except GoneError:
                    self._version = ""
                except UnreachableError:
                    if not self._version:  # not even a list came back
                        raise
                    self._version = ""
                time.sleep(REOPEN_S)
        except NotFoundError as error:
            if self._is_alone:  # among several kinds, one that the cluster lacks is left out
                batches.put(error)
        except (ClusterError, UnreachableError) as error:
            batches.put(error)

    def _put(self, batches: queue.Queue[_Batch], listed: Body) -> None:
        if not self._view.only_changes:
            batches.put((self._wanted, listed))

    def _listed(self) -> Body:
        path = table_path(self._path, self._wanted, self._view)
        body = codec.decode(self._client.send(calls.raw(path, accept=self._accept)), dict)
        self._version = str(body["metadata"]["resourceVersion"])
        return body

    def _changes(self) -> Iterator[Body]:
        path = table_path(self._path, self._wanted, self._view)
        mark = "&" if "?" in path else "?"
        query = f"watch=true&allowWatchBookmarks=true&resourceVersion={self._version}"
        for line in self._client.lines(calls.raw(f"{path}{mark}{query}", accept=self._accept)):
            event: dict[str, Any] = codec.decode(line, dict)
            body = event["object"]
            if event["type"] == _ERROR:
                self._version = ""  # too old, or refused: a new list says which
                return
            rows = body.get("rows")
            newest = rows[-1]["object"] if rows else body
            version = (newest.get("metadata") or {}).get("resourceVersion")
            self._version = str(version or self._version)
            if event["type"] != _BOOKMARK and rows != []:
                yield body


class _Printer:
    """Prints batches. Columns keep the width of the widest cell so far; a heading comes once."""

    def __init__(self, view: TableView) -> None:
        self._view = view
        self._widths: dict[str, list[int]] = {}
        self._columns: dict[str, list[Body]] = {}

    def show(self, wanted: WantedObjects, body: Body) -> None:
        if self._view.choice.is_table:
            self._show_rows(wanted, body)
        else:
            kind = {"apiVersion": wanted.resource.api_version, "kind": wanted.resource.kind}
            is_list = "items" in body
            items = [{**kind, **item} for item in body["items"]] if is_list else [body]
            for item in items:
                self._show_object(item)
        sys.stdout.flush()

    def _show_object(self, item: Body) -> None:
        item = item if self._view.has_owners else without_owners(item)
        if self._view.choice.format.value == "yaml":
            sys.stdout.write(f"---\n{to_yaml(item)}")
        else:
            print_objects([item], self._view.choice, is_single=True)

    def _show_rows(self, wanted: WantedObjects, table: Body) -> None:
        key = str(wanted.resource)
        is_first = key not in self._widths
        # Servers send the columns with the first table of a watch alone.
        columns = table.get("columnDefinitions") or self._columns.get(key) or []
        self._columns[key] = columns
        rows = rows_of({**table, "columnDefinitions": columns}, wanted, self._view)
        if len(rows) < 2:
            return
        widths = self._widths.setdefault(key, [0] * len(rows[0]))
        for row in rows:
            widths[:] = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
        with_heading = is_first and self._view.choice.has_headers
        for row in rows if with_heading else rows[1:]:
            cells = (cell.ljust(width + 3) for cell, width in zip(row, widths, strict=True))
            sys.stdout.write(printable("".join(cells)).rstrip() + "\n")
