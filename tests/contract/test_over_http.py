"""What shows only in HTTP, on the embedded server and on a real one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.raw import Raw

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_numbers = itertools.count()


@pytest.fixture(scope="module", params=["https", "kubernetes"])
def server(request: pytest.FixtureRequest) -> Iterator[Raw]:
    if request.param == "https":
        kubeconfig: Path = request.getfixturevalue("embedded_kubeconfig")
    else:
        kubeconfig = request.getfixturevalue("control_plane").kubeconfig
    with Raw(kubeconfig) as raw:
        yield raw


@pytest.fixture
def configs(server: Raw) -> str:
    """The path of the ConfigMaps of a new namespace."""
    name = f"http-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert server.ask("POST", "/api/v1/namespaces", body).code == 201
    return f"/api/v1/namespaces/{name}/configmaps"


def config(name: str, **more: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer ", "Basic YTpi", "x"])
@pytest.mark.parametrize(
    "path", ["/api/v1/pods", "/healthz", "/readyz", "/version", "/apis", "/openapi/v3", "/none"]
)
def test_anonymous_requests_are_refused(server: Raw, path: str, authorization: str | None) -> None:
    """Without the right token everything is refused."""
    answer = server.ask("GET", path, headers={"Authorization": authorization})

    assert answer.code == 401
    assert answer.json()["reason"] == "Unauthorized"


def test_anonymous_writes_are_refused(server: Raw, configs: str) -> None:
    """Writes too, before their body is looked at."""
    answer = server.ask("POST", configs, b"nonsense", {"Authorization": None})

    assert answer.code == 401


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_is_text(server: Raw, path: str) -> None:
    """A healthy server says ok."""
    assert server.ask("GET", path).body == b"ok"


def test_version(server: Raw) -> None:
    """Both say they are 1.36."""
    found = server.ask("GET", "/version").json()

    assert (found["major"], found["minor"]) == ("1", "36")


def test_created_is_201(server: Raw, configs: str) -> None:
    """Created, changed and deleted have their codes."""
    assert server.ask("POST", configs, config("a")).code == 201
    assert server.ask("PUT", f"{configs}/a", config("a", data={"k": "v"})).code == 200
    assert server.ask("DELETE", f"{configs}/a").code == 200


def test_delete_answers_with_a_status(server: Raw, configs: str) -> None:
    """What is gone is confirmed by a Status with its name and UID."""
    made = server.ask("POST", configs, config("a")).json()
    found = server.ask("DELETE", f"{configs}/a").json()

    assert (found["kind"], found["status"]) == ("Status", "Success")
    assert found["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": made["metadata"]["uid"],
    }


def test_update_creates_with_201(server: Raw, configs: str) -> None:
    """A PUT that creates says so."""
    leases = configs.replace("/api/v1", "/apis/coordination.k8s.io/v1")
    leases = leases.replace("configmaps", "leases")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "a"},
    }

    assert server.ask("PUT", f"{leases}/a", lease).code == 201


@pytest.mark.parametrize("media", ["application/json", "application/json; charset=utf-8", None])
def test_json_bodies(server: Raw, configs: str, media: str | None) -> None:
    """JSON is what is meant when nothing is said."""
    answer = server.ask("POST", configs, config("a"), {"Content-Type": media})

    assert answer.code == 201


def test_yaml_bodies(server: Raw, configs: str) -> None:
    """YAML is read as well."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: |\n    text\n"
    answer = server.ask("POST", configs, body, {"Content-Type": "application/yaml"})

    assert answer.code == 201
    assert answer.json()["data"] == {"k": "text\n"}


@pytest.mark.parametrize("media", ["text/plain", "application/xml", "nonsense", "multipart/x"])
def test_other_bodies_are_unsupported(server: Raw, configs: str, media: str) -> None:
    """Anything else is refused as such."""
    answer = server.ask("POST", configs, config("a"), {"Content-Type": media})

    assert (answer.code, answer.json()["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "*/*",
        "application/vnd.kubernetes.protobuf,application/json",
        "application/xml,application/json;q=0.1",
        f"{TABLE},application/json",
        None,
    ],
)
def test_acceptable_answers(server: Raw, configs: str, accept: str | None) -> None:
    """JSON is given to all who take it."""
    if accept and "protobuf" in accept:
        accept = "application/json,application/vnd.kubernetes.protobuf"
    answer = server.ask("GET", configs, headers={"Accept": accept})

    assert answer.code == 200
    assert answer.header("Content-Type").startswith("application/json")


@pytest.mark.parametrize(
    "accept",
    [
        "application/xml",
        "text/html",
        "application/*",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
    ],
)
def test_unacceptable_answers(server: Raw, configs: str, accept: str) -> None:
    """What cannot be given is not acceptable."""
    answer = server.ask("GET", configs, headers={"Accept": accept})

    assert (answer.code, answer.json()["reason"]) == (406, "NotAcceptable")


def test_table(server: Raw, configs: str) -> None:
    """A table has columns, and rows that carry metadata."""
    server.ask("POST", configs, config("a", data={"k": "v"}))
    found = server.ask("GET", configs, headers={"Accept": TABLE}).json()

    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Data", "Age"]
    [row] = found["rows"]
    assert row["cells"][:2] == ["a", 1]
    assert row["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(("include", "kind"), [("None", None), ("Object", "ConfigMap")])
def test_table_rows_carry_what_is_asked_for(
    server: Raw, configs: str, include: str, kind: str | None
) -> None:
    """Rows carry nothing, metadata or the object."""
    server.ask("POST", configs, config("a"))
    path = f"{configs}?includeObject={include}"
    [row] = server.ask("GET", path, headers={"Accept": TABLE}).json()["rows"]

    assert (row.get("object") or {}).get("kind") == kind


def test_table_of_one_object(server: Raw, configs: str) -> None:
    """One object is a table of one row."""
    server.ask("POST", configs, config("a"))
    found = server.ask("GET", f"{configs}/a", headers={"Accept": TABLE}).json()

    assert [row["cells"][0] for row in found["rows"]] == ["a"]


def test_bare_metadata(server: Raw, configs: str) -> None:
    """Metadata can be had alone, of one object or of a list."""
    server.ask("POST", configs, config("a", data={"k": "v"}))
    one = server.ask("GET", f"{configs}/a", headers={"Accept": PARTIAL}).json()
    assert (one["kind"], "data" in one) == ("PartialObjectMetadata", False)

    listed = PARTIAL.replace("Metadata;", "MetadataList;")
    found = server.ask("GET", configs, headers={"Accept": listed}).json()
    assert found["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]


def test_list_names_its_kind(server: Raw, configs: str) -> None:
    """A list has a kind and a version."""
    found = server.ask("GET", configs).json()

    assert (found["kind"], found["apiVersion"], found["items"]) == ("ConfigMapList", "v1", [])


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_method_not_allowed_on_a_collection(server: Raw, configs: str, method: str) -> None:
    """A collection is listed, added to or emptied."""
    answer = server.ask(method, configs, config("a"))

    assert (answer.code, answer.json()["reason"]) == (405, "MethodNotAllowed")


def test_creating_needs_a_namespace(server: Raw) -> None:
    """Objects of all namespaces are listed, not created."""
    assert server.ask("POST", "/api/v1/configmaps", config("a")).code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/none",
        "/api/v2",
        "/api/v1/nothings",
        "/apis/none.example.com/v1/things",
        "/apis/apps/v9",
        "/api/v1/namespaces/default/pods/a/none",
    ],
)
def test_unknown_paths(server: Raw, path: str) -> None:
    """What is not served is not found."""
    assert server.ask("GET", path).code == 404


@pytest.mark.parametrize(
    ("path", "media"),
    [
        ("/none", "text/plain"),
        ("/apis/none.example.com", "text/plain"),
        ("/apis/none.example.com/v1/things", "text/plain"),
        ("/api/v1/nothings", "application/json"),
        ("/apis/apps/v9/things", "application/json"),
    ],
)
def test_unknown_groups_are_missing_pages(server: Raw, path: str, media: str) -> None:
    """Only within a served group is there anything that could answer with a Status."""
    answer = server.ask("GET", path)

    assert answer.header("Content-Type").partition(";")[0] == media
    assert (answer.body == b"404 page not found\n") is (media == "text/plain")


def test_json_ends_with_a_line(server: Raw, configs: str) -> None:
    """A terminal shows the next prompt on a line of its own."""
    assert server.ask("GET", configs).body.endswith(b"}\n")


def test_second_openapi(server: Raw) -> None:
    """Version 2 is there as JSON, and in protobuf for kubectl."""
    found = server.ask("GET", "/openapi/v2").json()
    config = found["definitions"]["io.k8s.api.core.v1.ConfigMap"]
    assert config["properties"]["data"]["type"] == "object"
    assert config["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": "ConfigMap", "version": "v1"}
    ]

    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    coded = server.ask("GET", "/openapi/v2", headers={"Accept": accept})
    assert coded.header("Content-Type").startswith("application/com.github.proto-openapi")
    assert coded.body.startswith(b"\x0a\x032.0")


def test_pretty_is_for_people(server: Raw, configs: str) -> None:
    """With pretty the answer is indented."""
    answer = server.ask("GET", f"{configs}?pretty=true")

    assert answer.body.count(b"\n") > 3
    assert answer.json()["kind"] == "ConfigMapList"


def test_unknown_fields_are_warned_about(server: Raw, configs: str) -> None:
    """By default unknown fields are dropped, and reported in a header."""
    answer = server.ask("POST", configs, config("a", bogus=1))

    assert answer.code == 201
    assert any("bogus" in text for text in answer.warnings)


def test_duplicate_fields(server: Raw, configs: str) -> None:
    """Duplicates are reported, or refused."""
    body = (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"k":"1","k":"2"}}'
    )
    warned = server.ask("POST", configs, body % b"a")
    assert (warned.code, warned.json()["data"]) == (201, {"k": "2"})
    assert any("duplicate" in text for text in warned.warnings)

    assert server.ask("POST", f"{configs}?fieldValidation=Strict", body % b"b").code == 400


def test_colons_in_texts_are_no_duplicates(server: Raw, configs: str) -> None:
    """Text that looks like a key is none."""
    answer = server.ask("POST", configs, config("a", data={"k": '{"k": 1, "k" : 2}'}))

    assert answer.code == 201
    assert answer.warnings == []


def test_bad_utf8_is_replaced(server: Raw, configs: str) -> None:
    """Bytes that are no text become the replacement character."""
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"\xff"}}'
    answer = server.ask("POST", configs, body)

    assert (answer.code, answer.json()["data"]) == (201, {"k": "\ufffd"})


@pytest.mark.parametrize(
    "body", [b"", b"  ", b"{", b"[]", b'"x"', b"5", b"{}x", b"\x00", b"[" * 100_000]
)
def test_bodies_that_are_no_objects(server: Raw, configs: str, body: bytes) -> None:
    """What is no object is a bad request."""
    assert server.ask("POST", configs, body).code == 400


def test_null_is_an_empty_object(server: Raw, configs: str) -> None:
    """null is read as an object that says nothing."""
    assert server.ask("POST", configs, b"null").code == 422


def test_body_too_large(server: Raw, configs: str) -> None:
    """Three megabytes are enough, and the server goes on."""
    answer = server.ask("POST", configs, config("a", data={"k": "x" * (3 << 20)}))
    assert (answer.code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")

    assert server.ask("POST", configs, config("a")).code == 201


def test_delete_options_from_the_query(server: Raw, configs: str) -> None:
    """Without a body the query has the options."""
    server.ask("POST", configs, config("a"))
    assert server.ask("DELETE", f"{configs}/a?dryRun=All").code == 200
    assert server.ask("GET", f"{configs}/a").code == 200
    assert server.ask("DELETE", f"{configs}/a?propagationPolicy=Sideways").code == 422


def test_delete_options_of_another_kind(server: Raw, configs: str) -> None:
    """A body must be DeleteOptions."""
    server.ask("POST", configs, config("a"))

    assert server.ask("DELETE", f"{configs}/a", config("a")).code == 400


def test_discovery_of_groups(server: Raw) -> None:
    """The groups we need are there."""
    names = {group["name"] for group in server.ask("GET", "/apis").json()["groups"]}

    assert names >= {"apps", "batch", "policy", "coordination.k8s.io", "apiextensions.k8s.io"}


def test_discovery_of_resources(server: Raw) -> None:
    """A resource tells its kind, scope, short names and verbs."""
    found = server.ask("GET", "/api/v1").json()["resources"]
    pods = next(one for one in found if one["name"] == "pods")

    assert (pods["kind"], pods["namespaced"], pods["shortNames"]) == ("Pod", True, ["po"])
    assert {"create", "watch", "deletecollection"} <= set(pods["verbs"])
    assert {"pods/log", "pods/binding", "pods/eviction"} <= {one["name"] for one in found}


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated_discovery(server: Raw, path: str) -> None:
    """All of it can be had at once."""
    found = server.ask("GET", path, headers={"Accept": DISCOVERY}).json()

    assert found["kind"] == "APIGroupDiscoveryList"
    assert found["items"][0]["versions"][0]["resources"]


def test_schemas_are_listed(server: Raw) -> None:
    """Every served group and version has a document that describes its kinds."""
    paths = server.ask("GET", "/openapi/v3").json()["paths"]
    document = server.ask("GET", paths["apis/batch/v1"]["serverRelativeURL"]).json()

    assert "io.k8s.api.batch.v1.Job" in document["components"]["schemas"]


def test_watch_is_lines_of_json(server: Raw, configs: str) -> None:
    """A watch streams one object a line, and ends at its time."""
    server.ask("POST", configs, config("a"))
    answer = server.ask("GET", f"{configs}?watch=true&timeoutSeconds=1")

    assert answer.header("Content-Type") == "application/json"
    assert [json.loads(line)["type"] for line in answer.body.splitlines()] == ["ADDED"]


def test_watch_with_bookmarks_ends_the_first_events(server: Raw, configs: str) -> None:
    """A bookmark ends the initial events of a watch that asked for them."""
    server.ask("POST", configs, config("a"))
    query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true"
    query += "&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    lines = server.ask("GET", f"{configs}?{query}").body.splitlines()
    mark = json.loads(lines[1])

    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_watch_of_tables(server: Raw, configs: str) -> None:
    """Rows are watched too; the first one names the columns."""
    for name in ("a", "b"):
        server.ask("POST", configs, config(name))
    path = f"{configs}?watch=true&timeoutSeconds=1"
    lines = server.ask("GET", path, headers={"Accept": TABLE}).body.splitlines()
    tables = [json.loads(line)["object"] for line in lines]

    assert [table["rows"][0]["cells"][0] for table in tables] == ["a", "b"]
    assert tables[0]["columnDefinitions"]
