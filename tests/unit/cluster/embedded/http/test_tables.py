"""Tables: ages, paths, and the cells of every built-in kind."""

from __future__ import annotations

import pytest

from swell.api.meta import Body
from swell.api.times import format_time
from swell.cluster.embedded.http.tables.cells import cells_of
from swell.cluster.embedded.http.tables.formats import age, human_duration
from swell.cluster.embedded.http.tables.jsonpath import find_first
from swell.cluster.embedded.http.tables.podcells import completion, pod_cells

NOW = 1_700_000_000.0
FAILED = {"type": "Failed", "status": "True"}
GATED = {"type": "PodScheduled", "reason": "SchedulingGated"}
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
META = {"name": "a", "creationTimestamp": format_time(NOW - 90)}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (659, "10m"),
        (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (9 * 3600, "9h"), (47 * 3600, "47h"),
        (48 * 3600, "2d"), (49 * 3600, "2d1h"), (8 * 86400, "8d"), (300 * 86400, "300d"),
        (730 * 86400, "2y"), (731 * 86400, "2y1d"), (9 * 365 * 86400, "9y"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds: float, text: str) -> None:
    """Two units at most."""
    assert human_duration(seconds) == text


def test_age_without_a_time() -> None:
    """What has no time has no age."""
    assert age(None, NOW) == age("", NOW) == age("yesterday", NOW) == "<unknown>"


BODY = {
    "spec": {
        "size": 3,
        "a.b": "dotted",
        "list": [1, 2],
        "c": [{"type": "x", "v": 1}, {"type": "y"}],
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "n": 5}]},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".spec.size", 3),
        ("{.spec.size}", 3),
        (r".spec.a\.b", "dotted"),
        (".spec['a.b']", "dotted"),
        (".spec.list[1]", 2),
        (".spec.list[-1]", 2),
        (".spec.list[*]", 1),
        (".spec.list[7]", None),
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        (".status.conditions[?(@.type=='Old')].n", 5),
        ('.status.conditions[?(@.type=="None")].status', None),
        (".spec.none.deeper", None),
        (".spec..size", None),
    ],
)
def test_paths_of_columns(path: str, value: object) -> None:
    """A column's path leads to a value, or to nothing."""
    assert find_first(BODY, path) == value


@pytest.mark.parametrize(
    ("resource", "body", "cells"),
    [
        ("configmaps", {"data": {"k": ""}, "binaryData": {"b": ""}}, ["a", 2, "90s"]),
        ("secrets", {"type": "Opaque", "data": {"k": ""}}, ["a", "Opaque", 1, "90s"]),
        ("namespaces", {"status": {"phase": "Active"}}, ["a", "Active", "90s"]),
        ("leases.coordination.k8s.io", {"spec": {"holderIdentity": "me"}}, ["a", "me", "90s"]),
        (
            "priorityclasses.scheduling.k8s.io",
            {"value": 5, "preemptionPolicy": "Never"},
            ["a", 5, False, "90s", "Never"],
        ),
        (
            "poddisruptionbudgets.policy",
            {"spec": {"minAvailable": 1}, "status": {"disruptionsAllowed": 2}},
            ["a", "1", "N/A", 2, "90s"],
        ),
        (
            "services",
            {
                "spec": {
                    "type": "NodePort", "clusterIP": "10.0.0.1", "selector": {"b": "2", "a": "1"},
                    "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 5}],
                }
            },
            ["a", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP,5/TCP", "90s", "a=1,b=2"],
        ),
        (
            "services",
            {"spec": {"type": "LoadBalancer", "clusterIPs": ["None"]}},
            ["a", "LoadBalancer", "None", "<pending>", "<none>", "90s", "<none>"],
        ),
        (
            "endpoints",
            {
                "subsets": [
                    {"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 1}]}
                ]
            },
            ["a", "10.0.0.0:1,10.0.0.1:1,10.0.0.2:1 + 2 more...", "90s"],
        ),
        (
            "endpointslices.discovery.k8s.io",
            {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
            ["a", "IPv4", "<unset>", "10.0.0.1", "90s"],
        ),
        (
            "jobs.batch",
            {
                "spec": {"completions": 3, "template": TEMPLATE},
                "status": {"succeeded": 1, "startTime": format_time(NOW - 60)},
            },
            ["a", "Running", "1/3", "60s", "90s", "c", "i", "<none>"],
        ),
        (
            "jobs.batch",
            {"spec": {"parallelism": 2}, "status": {"conditions": [FAILED]}},
            ["a", "Failed", "0/1 of 2", "", "90s", "", "", "<none>"],
        ),
        (
            "replicasets.apps",
            {
                "spec": {
                    "replicas": 2,
                    "selector": {"matchExpressions": [
                        {"key": "a", "operator": "In", "values": ["y", "x"]},
                        {"key": "b", "operator": "NotIn", "values": ["z"]},
                        {"key": "c", "operator": "Exists"},
                        {"key": "d", "operator": "DoesNotExist"},
                    ]},
                },
                "status": {"replicas": 1},
            },
            ["a", 2, 1, 0, "90s", "", "", "a in (x,y),b notin (z),c,!d"],
        ),
        (
            "events",
            {
                "type": "Warning", "reason": "R", "message": " m ", "count": 3,
                "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
                "source": {"component": "c", "host": "h"},
                "firstTimestamp": format_time(NOW - 60), "lastTimestamp": format_time(NOW - 5),
            },
            ["5s", "Warning", "R", "pod/p", "spec", "c, h", "m", "60s", 3, "a"],
        ),
        (
            "events.events.k8s.io",
            {
                "type": "Normal", "reason": "R", "note": "n", "regarding": {"kind": "Node"},
                "reportingController": "rc", "eventTime": format_time(NOW - 7),
                "series": {"count": 9, "lastObservedTime": format_time(NOW - 2)},
            },
            ["2s", "Normal", "R", "node", "", "rc", "n", "7s", 9, "a"],
        ),
        (
            "customresourcedefinitions.apiextensions.k8s.io",
            {},
            ["a", META["creationTimestamp"]],
        ),
    ],
)  # fmt: skip
def test_cells_of_built_in_kinds(resource: str, body: Body, cells: list[object]) -> None:
    """Every kind shows what kubectl's users know."""
    assert cells_of(resource, {"metadata": META, **body}, NOW) == cells


def test_cells_of_a_node() -> None:
    """A node shows its readiness, roles and versions."""
    meta = {**META, "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    info = {
        "nodeInfo": {"kubeletVersion": "v1"},
        "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
    }
    body = {"metadata": meta, "spec": {"unschedulable": True}, "status": {**ready, **info}}
    cells = cells_of("nodes", body, NOW)
    assert cells is not None

    assert cells[1:7] == [
        "Ready,SchedulingDisabled",
        "gpu,worker",
        "90s",
        "v1",
        "1.2.3.4",
        "<none>",
    ]


def container(state: Body, *, ready: bool = False, **more: object) -> Body:
    return {"name": "c", "ready": ready, "restartCount": 0, "state": state, **more}


RUNNING: Body = {"running": {}}


def main(*states: Body) -> Body:
    return {"containerStatuses": [container(state, ready=state == RUNNING) for state in states]}


def init(state: Body) -> Body:
    return {"initContainerStatuses": [container(state)]}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"conditions": [GATED]}, "SchedulingGated"),
        (main({"waiting": {"reason": "ErrImagePull"}}), "ErrImagePull"),
        (main({"terminated": {"exitCode": 3}}), "ExitCode:3"),
        (main({"terminated": {"signal": 9}}), "Signal:9"),
        (main({"terminated": {"reason": "Completed"}}, RUNNING), "NotReady"),
        (init({"terminated": {"exitCode": 2}}), "Init:ExitCode:2"),
        (init({"waiting": {"reason": "PodInitializing"}}), "Init:0/1"),
        ({**init({"terminated": {"exitCode": 0}}), "phase": "Pending"}, "Pending"),
    ],
)
def test_pod_state(status: Body, state: str) -> None:
    """One word is the state of a pod."""
    spec = {"containers": [{"name": "c"}], "initContainers": [{"name": "c"}]}

    assert pod_cells({"metadata": META, "spec": spec, "status": status}, NOW)[2] == state


def test_dying_pod_is_terminating() -> None:
    """Until it has finished."""
    meta = {**META, "deletionTimestamp": "x"}
    for phase, state in (("Running", "Terminating"), ("Succeeded", "Succeeded")):
        assert pod_cells({"metadata": meta, "status": {"phase": phase}}, NOW)[2] == state


def test_restarts_have_the_time_of_the_last() -> None:
    """Restarts are counted, and the last one dated."""
    last = {"terminated": {"finishedAt": format_time(NOW - 300)}}
    status = {"containerStatuses": [container(RUNNING, restartCount=2, lastState=last, ready=True)]}
    cells = pod_cells({"metadata": META, "spec": {"containers": [{}]}, "status": status}, NOW)

    assert (cells[1], cells[3]) == ("1/1", "2 (5m ago)")


def test_finished_pods_are_marked() -> None:
    """Rows of finished pods carry a condition."""
    assert completion({"status": {"phase": "Running"}}) == []
    assert completion({"status": {"phase": "Failed"}})[0]["reason"] == "Failed"
