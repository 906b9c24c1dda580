"""An event is encoded once for all watches of one form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swell.cluster.embedded.http.responses import Representation
from swell.cluster.embedded.http.routing import Form
from swell.cluster.embedded.http.watches import SHARED_LINES_MAX, SharedLines
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.requests import StoredEvent
from swell.runtime.cluster import EventType
from tests.unit.cluster.embedded.server import Server


def _event(version: int, kind: EventType = EventType.ADDED) -> StoredEvent:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"a{version}"}}
    return StoredEvent(kind, Stored.of(body, version), version)


@pytest.mark.parametrize("form", [Form.OBJECT, Form.TABLE, Form.PARTIAL])
def test_watches_of_one_form_share_lines(form: Form) -> None:
    shown = Representation(Server().kind("configmaps"), form, now=10.0)
    shared, event = SharedLines(), _event(5)
    first = shared.line(shown, event, first=False)

    assert shared.line(replace(shown), event, first=False) is first
    assert first == shown.event(event, first=False)


def test_lines_differ_by_type_form_kind_and_head() -> None:
    server = Server()
    kind = server.kind("configmaps")
    shown, event = Representation(kind, Form.TABLE, now=10.0), _event(5)
    shared = SharedLines()
    lines = {
        shared.line(shown, event, first=False),
        shared.line(shown, event, first=True),
        shared.line(shown, _event(5, EventType.MODIFIED), first=False),
        shared.line(shown, _event(6), first=False),
        shared.line(replace(shown, include="None"), event, first=False),
        shared.line(replace(shown, form=Form.PARTIAL), event, first=False),
        shared.line(replace(shown, form=Form.OBJECT), event, first=False),
    }
    columns = replace(kind, columns=())

    assert len(lines) == 7
    assert shared.line(replace(shown, kind=columns), event, first=True) not in lines


def test_old_lines_are_forgotten() -> None:
    shown = Representation(Server().kind("configmaps"), Form.OBJECT, now=10.0)
    shared = SharedLines()
    for version in range(2, SHARED_LINES_MAX + 50):
        shared.line(shown, _event(version), first=False)

    assert len(shared._lines) == SHARED_LINES_MAX
