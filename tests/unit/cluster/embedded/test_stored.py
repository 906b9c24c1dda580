"""One version of an object in the store: what is decoded from it, and for how long it is kept."""

from __future__ import annotations

import msgspec
import pytest

from swell.api.core import Node
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.cluster.embedded.commits import OLD_BYTES_MAX, Stored
from swell.cluster.embedded.http.responses import Representation
from swell.cluster.embedded.http.routing import Form
from swell.cluster.embedded.verbs.requests import Page
from tests.unit.cluster.embedded.server import Server


def a_pod(number: int) -> Stored:
    metadata = {"name": f"p-{number}", "namespace": "default", "uid": f"u-{number}"}
    body = {"status": {"phase": "Running"}, "metadata": metadata, "apiVersion": "v1", "kind": "Pod"}
    return Stored.of(body, number)


def test_readers_by_different_structs_share_what_was_decoded() -> None:
    """Informers that take turns hold one object of each struct, not one each."""
    stored = a_pod(1)
    first, other = stored.typed(Pod), stored.typed(Node)

    assert stored.typed(Pod) is first
    assert stored.typed(Node) is other


def test_superseded_state_keeps_nothing_decoded() -> None:
    """The log has thousands of them."""
    stored = a_pod(1)
    first = stored.typed(Pod)
    stored.forget_decoded()

    assert stored.typed(Pod) is not first


def test_late_reader_of_a_large_old_state_leaves_nothing() -> None:
    """Two hundred pods with long lists took half a gigabyte in the log."""
    body: Body = {"metadata": {"name": "p", "annotations": {"a": "x" * OLD_BYTES_MAX}}}
    stored = Stored.of(body, 2)
    assert stored.typed(Pod) is stored.typed(Pod)
    assert stored.body is stored.body
    stored.forget_decoded()

    assert stored.typed(Pod) is not stored.typed(Pod)
    assert stored.body is not stored.body
    small = a_pod(1)
    small.forget_decoded()
    assert small.typed(Pod) is small.typed(Pod)


def test_type_is_written_first() -> None:
    """Whatever the order of the body: lists cut it off the bytes."""
    raw = a_pod(1).raw

    assert raw.startswith(b'{"apiVersion":"v1","kind":"Pod",')
    assert msgspec.json.decode(raw)["status"] == {"phase": "Running"}


@pytest.mark.parametrize("form", [Form.OBJECT, Form.TABLE, Form.PARTIAL_LIST])
def test_list_keeps_nothing_decoded(form: Form) -> None:
    """All objects of a large list would take ten times the memory of their bytes."""
    page = Page(tuple(a_pod(number) for number in range(1, 4)), 3)
    Representation(Server().kind("pods"), form, 0.0).page(page)

    assert [stored._body for stored in page.items] == [None] * 3
