"""Pods: the fields the server sets, and the fields that may change."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api.meta import Body
from swell.cluster.embedded.builtin.pods import qos_class
from swell.runtime.errors import ForbiddenError, InvalidError
from tests.unit.cluster.embedded.server import Server, a_pod, causes


@pytest.fixture
def server() -> Server:
    return Server()


def with_container(**fields: object) -> Body:
    pod = a_pod()
    pod["spec"]["containers"][0] |= fields
    return pod


def test_requests_come_from_limits(server: Server) -> None:
    """A limit without a request is asked for in full; quantities are canonical."""
    pod = with_container(resources={"limits": {"cpu": "2.0", "memory": "1024Mi"}})
    stored = server.create("pods", pod)

    resources = stored["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert stored["status"]["qosClass"] == "Guaranteed"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("a:1", "IfNotPresent"),
        ("host:5000/a", "Always"),
        ("host:5000/a:1", "IfNotPresent"),
        (f"a@sha256:{'0' * 64}", "IfNotPresent"),
        ("NoImage", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(server: Server, image: str, policy: str) -> None:
    """Only images whose tag may move are always pulled."""
    stored = server.create("pods", with_container(image=image))

    assert stored["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_host_ports_follow_the_host_network(server: Server) -> None:
    """On the host's network every port of a container is one of the host."""
    pod = with_container(ports=[{"containerPort": 80}])
    pod["spec"]["hostNetwork"] = True
    stored = server.create("pods", pod)

    assert stored["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1"}}], "Burstable"),
        (
            [{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}],
            "Guaranteed",
        ),
        (
            [{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}, {}],
            "Burstable",
        ),
    ],
)
def test_qos_class(containers: list[Any], expected: str) -> None:
    """All containers must have equal requests and limits of both to be Guaranteed."""
    assert qos_class({"containers": [{"resources": r} for r in containers]}) == expected


def a_class(name: str, value: int, **fields: object) -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }


def test_priority_is_taken_from_the_class(server: Server) -> None:
    """The value and the preemption policy of the class are written into the pod."""
    server.create(
        "priorityclasses", a_class("low", 7, preemptionPolicy="Never"), "scheduling.k8s.io"
    )
    spec = server.create("pods", a_pod(priorityClassName="low"))["spec"]

    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")


@pytest.mark.parametrize("spec", [{"priorityClassName": "none"}, {"priority": 5}])
def test_priority_without_its_class_is_forbidden(server: Server, spec: dict[str, object]) -> None:
    """A pod with a missing class or a priority of its own is refused."""
    with pytest.raises(ForbiddenError):
        server.create("pods", a_pod(**spec))


def test_global_default_class_is_given(server: Server) -> None:
    """A pod that names no class gets the default one."""
    server.create("priorityclasses", a_class("usual", 3, globalDefault=True), "scheduling.k8s.io")
    spec = server.create("pods", a_pod())["spec"]

    assert (spec["priority"], spec["priorityClassName"]) == (3, "usual")


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], 2),
        ([{"operator": "Exists"}], 0),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}], 1),
        ([{"operator": "Exists", "effect": "NoSchedule"}], 2),
    ],
)
def test_short_absences_of_a_node_are_tolerated(
    server: Server, given: list[dict[str, object]], added: int
) -> None:
    """A pod tolerates a lost node for five minutes, unless it sets the time itself."""
    stored = server.create("pods", a_pod(tolerations=given))

    assert len(stored["spec"]["tolerations"]) == len(given) + added


def a_stored_pod(server: Server) -> Body:
    tolerations = [{"key": "a", "operator": "Exists"}]
    return server.create("pods", a_pod(activeDeadlineSeconds=60, tolerations=tolerations))


@pytest.mark.parametrize(
    ("edit", "field", "reason"),
    [
        ({"restartPolicy": "Never"}, "spec", "FieldValueForbidden"),
        ({"activeDeadlineSeconds": 70}, "spec.activeDeadlineSeconds", "FieldValueInvalid"),
        ({"tolerations": []}, "spec.tolerations", "FieldValueForbidden"),
        (
            {"schedulingGates": [{"name": "g"}]},
            "spec.schedulingGates[0].name",
            "FieldValueForbidden",
        ),
    ],
)
def test_most_fields_may_not_change(
    server: Server, edit: dict[str, object], field: str, reason: str
) -> None:
    """Other fields of a pod may not change after its creation."""
    pod = a_stored_pod(server)

    with pytest.raises(InvalidError) as caught:
        server.update("pods", {**pod, "spec": {**pod["spec"], **edit}})

    assert causes(caught.value) == [[field, reason]]


def test_some_fields_may_change(server: Server) -> None:
    """Images, a shorter deadline and additional tolerations may be written."""
    pod = a_stored_pod(server)
    spec = {**pod["spec"], "activeDeadlineSeconds": 50}
    spec["containers"] = [{**spec["containers"][0], "image": "other:2"}]
    spec["tolerations"] = [*spec["tolerations"], {"key": "b", "operator": "Exists"}]
    stored = server.update("pods", {**pod, "spec": spec})

    assert stored["spec"] == spec
    assert stored["metadata"]["generation"] == 2


def test_status_write_reaches_labels_but_no_spec(server: Server) -> None:
    """A write of /status changes the metadata, except the owners, and the status."""
    server.create("pods", a_pod())
    patch = {
        "metadata": {"labels": {"a": "b"}, "ownerReferences": [{"name": "x"}]},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }
    stored = server.patch("pods", "p", patch, subresource="status")

    assert stored["metadata"]["labels"] == {"a": "b"}
    assert "ownerReferences" not in stored["metadata"]
    assert "nodeName" not in stored["spec"]
    assert stored["status"]["podIPs"] == [{"ip": "10.0.0.1"}]
    assert stored["metadata"]["generation"] == 1


def test_ended_container_stays_ended(server: Server) -> None:
    """With restartPolicy Never a terminated state is final."""
    server.create("pods", a_pod(restartPolicy="Never"))
    base = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    ended = {"containerStatuses": [{**base, "state": {"terminated": {"exitCode": 1}}}]}
    server.patch("pods", "p", {"status": ended}, subresource="status")
    revived = {"containerStatuses": [{**base, "state": {"running": {}}}]}

    with pytest.raises(InvalidError) as caught:
        server.patch("pods", "p", {"status": revived}, subresource="status")

    assert causes(caught.value) == [["status.containerStatuses[0].state", "FieldValueForbidden"]]
