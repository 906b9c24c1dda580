"""Objects in the form a client asked for: as they are, as rows of a table, as bare metadata."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swell.api import codec
from swell.api.meta import Body
from swell.cluster.embedded.http import answers, tables
from swell.cluster.embedded.http.accepting import Form
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import Kind
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.calls import Event, Page
from swell.runtime.cluster import EventType

INCLUDES = ("", "None", "Metadata", "Object")
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class View:
    """How one request wants its objects shown."""

    kind: Kind
    form: Form
    now: float
    include: str = "Metadata"

    def object(self, stored: Stored) -> bytes:
        if self.form is Form.TABLE:
            meta = {"resourceVersion": str(stored.version)}
            return codec.encode(self._table([stored.body], meta))
        if self.form is Form.PARTIAL:
            return codec.encode(tables.partial(stored.body))
        return stored.raw

    def page(self, page: Page) -> bytes:
        meta: Body = {"resourceVersion": str(page.version)}
        if page.continue_token:
            meta["continue"] = page.continue_token
        if page.remaining is not None:
            meta["remainingItemCount"] = page.remaining
        return self.items(page.items, meta)

    def items(self, items: Iterable[Stored], meta: Body) -> bytes:
        if self.form is Form.TABLE:
            return codec.encode(self._table([stored.body for stored in items], meta))
        if self.form is Form.PARTIAL:
            shown = [codec.encode(tables.partial(stored.body)) for stored in items]
            return answers.list_bytes("PartialObjectMetadataList", tables.META_VERSION, meta, shown)
        name = self.kind.list_kind or f"{self.kind.kind}List"
        raws = [stored.raw for stored in items]
        return answers.list_bytes(name, self.kind.api_version, meta, raws)

    def event(self, event: Event, *, first: bool) -> bytes:
        """One line of a watch. Only the first row's table says what its columns are."""
        if event.stored is None:
            return event_line(EventType.BOOKMARK.value, codec.encode(self._bookmark(event)))
        if self.form is Form.TABLE:
            meta = {"resourceVersion": str(event.version)}
            shown = codec.encode(self._table([event.stored.body], meta, headed=first))
        else:
            shown = self.object(event.stored)
        return event_line(event.type.value, shown)

    def _table(self, bodies: list[Body], meta: Body, *, headed: bool = True) -> Body:
        return tables.table(
            self.kind, bodies, meta, include=self.include, now=self.now, headed=headed
        )

    def _bookmark(self, event: Event) -> Body:
        meta: Body = {"resourceVersion": str(event.version), "creationTimestamp": None}
        if event.ends_initial:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        if self.form is Form.TABLE:
            return self._table([], meta, headed=False)
        if self.form is Form.PARTIAL:
            return tables.partial({"metadata": meta})
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": meta}


def view_of(kind: Kind, form: Form, include: str, now: float) -> View:
    """The view a request asks for; `include` is the query's includeObject."""
    if form is Form.TABLE and include not in INCLUDES:
        raise bad_request(f"unrecognized includeObject value: {include!r}")
    return View(kind, Form.OBJECT if form is Form.DISCOVERY else form, now, include or "Metadata")


def event_line(kind: str, shown: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), shown)
