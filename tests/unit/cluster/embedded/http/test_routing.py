"""Paths, options and Accept headers."""

from __future__ import annotations

import pytest

from swell.cluster.embedded.http.options import (
    delete_request_from_body,
    delete_request_from_query,
    is_true,
    list_options,
    number,
    parse_query,
    watch_options,
    write_context,
)
from swell.cluster.embedded.http.routing import (
    JSON,
    YAML,
    Form,
    ResourcePath,
    negotiate,
    parse_resource_path,
    split_path,
)
from swell.cluster.embedded.verbs.requests import DeleteOptions
from swell.runtime.errors import BadRequestError, ClusterError, InvalidError


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/api/v1", ResourcePath("", "v1")),
        ("/api/v1/", ResourcePath("", "v1")),
        ("/apis/apps", ResourcePath("apps")),
        ("/api/v1/pods", ResourcePath("", "v1", "pods")),
        ("/api/v1/nodes/n/status", ResourcePath("", "v1", "nodes", "", "n", "status")),
        ("/api/v1/namespaces", ResourcePath("", "v1", "namespaces")),
        ("/api/v1/namespaces/x", ResourcePath("", "v1", "namespaces", "", "x")),
        (
            "/api/v1/namespaces/x/finalize",
            ResourcePath("", "v1", "namespaces", "", "x", "finalize"),
        ),
        ("/api/v1/namespaces/x/pods", ResourcePath("", "v1", "pods", "x")),
        ("/api/v1/namespaces/x/pods/a%2eb/log", ResourcePath("", "v1", "pods", "x", "a.b", "log")),
        ("/apis/batch/v1/namespaces/x/jobs/j", ResourcePath("batch", "v1", "jobs", "x", "j")),
        ("/apis", None),
        ("/api/v1//pods", None),
        ("/api/v1/namespaces/x/pods/a/b/c", None),
    ],
)
def test_path_names_a_resource(path: str, address: ResourcePath | None) -> None:
    """A path is a collection, an object, a subresource, or none of these."""
    assert parse_resource_path(split_path(path)) == address


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.OBJECT),
        ("*/*", Form.OBJECT),
        ("application/json", Form.OBJECT),
        ("application/vnd.kubernetes.protobuf,application/json", Form.OBJECT),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form.TABLE),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Form.OBJECT),
        ("application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io", Form.TABLE),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Form.PARTIAL_LIST),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form.TABLE),
        ("application/yaml", Form.OBJECT),
    ],
)
def test_accept_chooses_a_form(accept: str, form: Form) -> None:
    """The best form the client takes is given."""
    assert negotiate(accept).form is form


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("application/yaml", YAML),
        ("application/json;q=0.1,application/yaml", YAML),
        ("application/json,application/yaml", JSON),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", YAML),
    ],
)
def test_accept_chooses_an_encoding(accept: str, media: str) -> None:
    """YAML is sent to the clients that prefer it, in every form."""
    assert negotiate(accept).media == media


def test_unrouted_paths_take_any_type() -> None:
    """A range of types is understood only where no router compares types letter by letter."""
    assert negotiate("application/*", routed=False).media == JSON


@pytest.mark.parametrize(
    "accept",
    [
        "APPLICATION/JSON",
        "text/html",
        "application/*",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        ";",
    ],
)
def test_accept_of_nothing_we_have(accept: str) -> None:
    """A client that accepts none of our forms gets 406."""
    with pytest.raises(ClusterError) as refusal:
        negotiate(accept)

    assert refusal.value.status.code == 406


@pytest.mark.parametrize(
    ("text", "value"),
    [("watch", True), ("watch=", True), ("watch=1", True), ("watch=x", True),
     ("watch=0", False), ("watch=False", False), ("", False)],
)  # fmt: skip
def test_flags(text: str, value: bool) -> None:
    """A flag is set by being there, unless it says no."""
    assert is_true(parse_query(text), "watch") is value


@pytest.mark.parametrize(("text", "value"), [("limit=5", 5), ("limit=-1", -1), ("", None)])
def test_numbers(text: str, value: int | None) -> None:
    """Numbers are read."""
    assert number(parse_query(text), "limit") == value


@pytest.mark.parametrize("text", ["limit=", "limit=x", "limit=1.5", f"limit={2**63}", "limit=--1"])
def test_numbers_that_are_none(text: str) -> None:
    """What is no number of 64 bits is refused."""
    with pytest.raises(BadRequestError):
        number(parse_query(text), "limit")


def test_list_and_watch_options() -> None:
    """Options are taken from the query, percent-decoded."""
    query = parse_query("labelSelector=a%3Db&limit=2&continue=x&sendInitialEvents=false")

    assert list_options(query, "ns").labels == "a=b"
    assert (list_options(query, "ns").limit, list_options(query, "ns").continue_token) == (2, "x")
    assert watch_options(query, "ns").send_initial_events is False
    assert watch_options({}, "ns").send_initial_events is None


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("dryRun=Some", "dryRun"),
        ("fieldValidation=x", "fieldValidation"),
        (f"fieldManager={'x' * 129}", "fieldManager"),
        ("fieldManager=a%00", "fieldManager"),
    ],
)
def test_write_options_that_are_none(text: str, field: str) -> None:
    """An unknown value is invalid, and the options are named."""
    with pytest.raises(InvalidError) as refusal:
        write_context(parse_query(text), "me", "CreateOptions", [])

    details = refusal.value.status.details
    assert details is not None
    assert details.kind == "CreateOptions"
    assert [cause.field for cause in details.causes] == [field]


def test_deletion_from_query_and_body() -> None:
    """Both say the same in their own way."""
    query = parse_query("gracePeriodSeconds=5&propagationPolicy=Orphan&dryRun=All")
    body = {"gracePeriodSeconds": 5, "propagationPolicy": "Orphan", "dryRun": ["All"]}
    wanted = (DeleteOptions(grace_s=5, propagation="Orphan"), True)

    assert delete_request_from_query(query) == wanted
    assert delete_request_from_body({"kind": "DeleteOptions", "apiVersion": "v1", **body}) == wanted


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"kind": "Pod"},
        {"gracePeriodSeconds": "5"},
        {"preconditions": {"uid": 5}},
        {"dryRun": "All"},
    ],
)
def test_deletion_of_another_shape(body: object) -> None:
    """A body of another kind or type is a bad request."""
    with pytest.raises(BadRequestError):
        delete_request_from_body(body)
