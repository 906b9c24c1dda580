"""Server-side apply on the embedded server and on a real one: the same answers, the same owners."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.raw import Answer, Raw
from tests.contract.swell_command import Swell
from tests.testbed.control_plane import ControlPlane

APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}


class Applier:
    """Applies objects of one namespace over HTTP, each for a manager."""

    def __init__(self, raw: Raw, namespace: str) -> None:
        self.raw = raw
        self.namespace = namespace

    def path(self, kind: str, name: str, query: str = "") -> str:
        group = "/apis/elasticdeeplearning.ai/v1" if kind == "aitrainingjobs" else "/api/v1"
        return f"{group}/namespaces/{self.namespace}/{kind}/{name}{query}"

    def apply(
        self, kind: str, name: str, manager: str, body: dict[str, Any], *, force: bool = False
    ) -> Answer:
        query = f"?fieldManager={manager}{'&force=true' if force else ''}"
        return self.raw.ask("PATCH", self.path(kind, name, query), body, dict(APPLY))

    def settings(self, manager: str, *, force: bool = False, **data: str) -> Answer:
        return self.apply("configmaps", "settings", manager, _settings(data), force=force)

    def merge(self, kind: str, name: str, manager: str, body: dict[str, Any]) -> Answer:
        query = f"?fieldManager={manager}"
        return self.raw.ask("PATCH", self.path(kind, name, query), body, dict(MERGE))

    def read(self, kind: str, name: str) -> Any:
        return self.raw.ask("GET", self.path(kind, name)).json()

    def owners(self, kind: str, name: str) -> list[tuple[str, str, Any]]:
        entries = self.read(kind, name)["metadata"]["managedFields"]
        return sorted((one["operation"], one["manager"], one["fieldsV1"]) for one in entries)


@pytest.fixture(params=["embedded", "kubernetes"])
def applier(request: pytest.FixtureRequest) -> Iterator[Applier]:
    if request.param == "embedded":
        kubeconfig: Path = request.getfixturevalue("embedded_kubeconfig")
    else:
        plane: ControlPlane = request.getfixturevalue("control_plane")
        kubeconfig = plane.kubeconfig
    name = f"ssa-{abs(hash(request.node.name)):x}"[:40]
    with Raw(kubeconfig) as raw:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert raw.ask("POST", "/api/v1/namespaces", body).code == 201
        yield Applier(raw, name)


def _settings(data: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": data,
    }


def _said(answer: Answer) -> tuple[int, str, str]:
    body = answer.json()
    return answer.code, body.get("reason", ""), body.get("message", "")


def test_apply_creates_then_changes_and_remembers_the_owner(applier: Applier) -> None:
    """201, then 200; an apply that changes nothing makes no new version."""
    assert applier.settings("a", x="1").code == 201
    first = applier.read("configmaps", "settings")
    assert applier.settings("a", x="1").code == 200
    again = applier.read("configmaps", "settings")
    assert again == first
    entry = dict(first["metadata"]["managedFields"][0])
    assert entry.pop("time")
    assert entry == {
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:x": {}}},
        "manager": "a",
        "operation": "Apply",
    }


def test_field_that_is_no_longer_applied_goes(applier: Applier) -> None:
    """Unless another manager applies it, too."""
    applier.settings("a", x="1", y="2", z="3")
    assert applier.settings("b", y="2").code == 200
    assert applier.settings("a", x="1").code == 200
    assert applier.read("configmaps", "settings")["data"] == {"x": "1", "y": "2"}
    assert applier.settings("b").code == 200
    assert applier.read("configmaps", "settings")["data"] == {"x": "1"}


def test_change_of_another_managers_field_is_a_conflict(applier: Applier) -> None:
    """One conflict, several, of several managers; causes name the fields."""
    applier.settings("a", x="1", y="2")
    one = applier.settings("b", x="9", z="3")
    assert _said(one) == (
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "a": .data.x',
    )
    assert one.json()["details"] == {
        "causes": [
            {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".data.x"}
        ]
    }
    two = applier.settings("b", x="9", y="8")
    assert _said(two)[2] == (
        'Apply failed with 2 conflicts: conflicts with "a":\n- .data.x\n- .data.y'
    )
    assert applier.settings("c", z="3").code == 200
    three = applier.settings("b", x="9", y="8", z="7")
    assert _said(three)[2] == (
        'Apply failed with 3 conflicts: conflicts with "a":\n- .data.x\n- .data.y\n'
        'conflicts with "c":\n- .data.z'
    )
    assert applier.read("configmaps", "settings")["data"] == {"x": "1", "y": "2", "z": "3"}


def test_same_value_is_owned_together_and_force_takes_it(applier: Applier) -> None:
    """No conflict about equal values; force leaves the others what is not changed."""
    applier.settings("a", x="1", y="2")
    assert applier.settings("b", x="1").code == 200
    assert applier.settings("b", x="5", force=True).code == 200
    assert applier.owners("configmaps", "settings") == [
        ("Apply", "a", {"f:data": {"f:y": {}}}),
        ("Apply", "b", {"f:data": {"f:x": {}}}),
    ]


def test_other_writes_take_fields_over(applier: Applier) -> None:
    """A patch owns what it changes, and the next apply of another value meets it."""
    applier.settings("a", x="1", y="2")
    assert applier.merge("configmaps", "settings", "m", {"data": {"x": "7", "w": "1"}}).code == 200
    assert applier.owners("configmaps", "settings") == [
        ("Apply", "a", {"f:data": {"f:y": {}}}),
        ("Update", "m", {"f:data": {"f:w": {}, "f:x": {}}}),
    ]
    refused = applier.settings("a", x="1", y="2")
    assert _said(refused)[2] == (
        'Apply failed with 1 conflict: conflict with "m" using v1: .data.x'
    )
    assert applier.merge("configmaps", "settings", "m", {"data": {"x": None}}).code == 200
    assert ("Update", "m", {"f:data": {"f:w": {}}}) in applier.owners("configmaps", "settings")


def test_items_of_lists_meet_by_their_keys(applier: Applier) -> None:
    """Containers by name and ports by number and protocol; an atomic map is one field."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]},
    }
    assert applier.apply("services", "web", "a", service).code == 201
    more = {**service, "metadata": {"name": "web"}, "spec": {"ports": [{"name": "x", "port": 90}]}}
    assert applier.apply("services", "web", "b", more).code == 200
    ports = applier.read("services", "web")["spec"]["ports"]
    assert [(one["name"], one["port"]) for one in ports] == [("http", 80), ("x", 90)]
    clash = {**more, "spec": {"ports": [{"name": "y", "port": 80}], "selector": {"app": "x"}}}
    key = '.spec.ports[port=80,protocol="TCP"].name'
    assert _said(applier.apply("services", "web", "b", clash))[2] == (
        f'Apply failed with 2 conflicts: conflicts with "a":\n- .spec.selector\n- {key}'
    )
    assert ("Apply", "a", _WEB_FIELDS) in applier.owners("services", "web")


_WEB_FIELDS = {
    "f:metadata": {"f:labels": {"f:team": {}}},
    "f:spec": {
        "f:ports": {
            'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}},
        },
        "f:selector": {},
    },
}


@pytest.mark.parametrize(
    ("query", "body", "code", "part"),
    [
        ("", {}, 422, "fieldManager: Required value: is required for apply patch"),
        ("?fieldManager=a", {"metadata": {"managedFields": []}}, 400, "managedFields must be nil"),
        ("?fieldManager=a", {"apiVersion": "v2"}, 400, ""),
    ],
)
def test_wrong_applies_are_refused(
    applier: Applier, query: str, body: dict[str, Any], code: int, part: str
) -> None:
    """Without a manager, with managers, of another version."""
    path = applier.path("configmaps", "settings", query)
    answer = applier.raw.ask("PATCH", path, {**_settings({}), **body}, dict(APPLY))
    assert (answer.code, part in answer.json()["message"]) == (code, True), answer.body


def test_force_is_for_applies_only(applier: Applier) -> None:
    """Another patch with it is refused."""
    applier.settings("a", x="1")
    path = applier.path("configmaps", "settings", "?force=true")
    answer = applier.raw.ask("PATCH", path, {"data": {}}, dict(MERGE))
    assert answer.code == 422
    assert "force: Forbidden: may not be specified for non-apply patch" in answer.json()["message"]


def test_empty_list_forgets_the_managers(applier: Applier) -> None:
    """A client may clear managedFields; nobody owns anything then."""
    applier.settings("a", x="1")
    cleared: dict[str, Any] = {"metadata": {"managedFields": [{}]}}
    assert applier.merge("configmaps", "settings", "m", cleared).code == 200
    assert "managedFields" not in applier.read("configmaps", "settings")["metadata"]


def test_yaml_is_taken(applier: Applier) -> None:
    """The content type says YAML, and means it."""
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  x: '1'\n"
    path = applier.path("configmaps", "settings", "?fieldManager=a")
    assert applier.raw.ask("PATCH", path, text, dict(APPLY)).code == 201
    assert json.dumps(applier.read("configmaps", "settings")["data"]) == '{"x": "1"}'


def test_jobs_are_applied_and_their_status_has_owners_of_its_own(swell: Swell) -> None:
    """A custom resource: entries of maps are fields, and the status is applied at its own path."""
    with Raw(Path(os.environ["KUBECONFIG"])) as raw:
        _apply_a_job(Applier(raw, swell.namespace))


def _apply_a_job(applier: Applier) -> None:
    container = {"name": "aitj-trainer", "image": "local"}
    template = {"spec": {"containers": [container]}}
    job = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": "fit"},
        "spec": {"replicaSpecs": {"trainer": {"replicas": 1, "template": template}}},
    }
    assert applier.apply("aitrainingjobs", "fit", "a", job).code == 201
    [entry] = applier.read("aitrainingjobs", "fit")["metadata"]["managedFields"]
    trainer = entry["fieldsV1"]["f:spec"]["f:replicaSpecs"]["f:trainer"]
    assert (trainer["."], trainer["f:replicas"]) == ({}, {})
    resized = {"spec": {"replicaSpecs": {"trainer": {"replicas": 2}}}}
    assert applier.merge("aitrainingjobs", "fit", "sizer", resized).code == 200
    refused = applier.apply("aitrainingjobs", "fit", "a", job)
    assert _said(refused)[2] == (
        'Apply failed with 1 conflict: conflict with "sizer" using elasticdeeplearning.ai/v1:'
        " .spec.replicaSpecs.trainer.replicas"
    )
    status = {**{k: v for k, v in job.items() if k != "spec"}, "status": {"phase": "Pending"}}
    assert applier.apply("aitrainingjobs", "fit/status", "s", status).code == 200
    found = applier.read("aitrainingjobs", "fit")
    assert (found["status"]["phase"], found["metadata"]["generation"]) == ("Pending", 2)
    entries = found["metadata"]["managedFields"]
    owner = next(one for one in entries if one["manager"] == "s")
    assert (owner["subresource"], owner["fieldsV1"]) == ("status", {"f:status": {}})
    path = applier.path("aitrainingjobs", "fit/status", "?fieldManager=t")
    failed = {**status, "status": {"phase": "Failed"}}
    assert _said(applier.raw.ask("PATCH", path, failed, dict(APPLY)))[2] == (
        'Apply failed with 1 conflict: conflict with "s" with subresource "status": .status'
    )


MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {x: "1"}
"""


def test_command_applies_on_the_servers_side(swell: Swell) -> None:
    """`swell apply --server-side`: owners, the conflict in the server's words, and force."""
    first = swell.here("apply", "--server-side", "-f", swell.file(MANIFEST))
    assert (first.code, first.out) == (0, "configmap/settings serverside-applied\n")
    changed = swell.file(MANIFEST.replace('"1"', '"2"'))
    other = ("apply", "--server-side", "--field-manager", "other", "-f", changed)
    refused = swell.here(*other)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.splitlines()[-2:] == [
        'error: configmap/settings: Apply failed with 1 conflict: conflict with "swell": .data.x',
        "  leave the fields to their owners, or take them over: --force-conflicts",
    ]
    assert swell.here(*other, "--force-conflicts").code == 0
    plain = swell.here("get", "cm", "settings", "-o", "json").json
    shown = swell.here("get", "cm", "settings", "-o", "json", "--show-managed-fields").json
    assert plain["data"] == {"x": "2"}
    assert "managedFields" not in json.dumps(plain)
    assert '"manager": "other"' in json.dumps(shown)
    assert swell.here("apply", "--force-conflicts", "-f", changed).code == 2
