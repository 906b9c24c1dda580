"""Short ways to write down pods, Jobs and sets for decisions about them."""

from __future__ import annotations

from swell.api.codec import convert
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.times import format_time
from swell.api.workloads import Job, ReplicaSet

NOW = 1_750_000_000.0
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
TEMPLATE: Body = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]},
}


def ago(seconds: float) -> str:
    return format_time(NOW - seconds)


def a_pod(name: str = "p", **changes: object) -> Pod:
    """A pod of the owner with UID `owner`; `metadata` and others are merged into it."""
    body: Body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": ago(60),
            "labels": {"app": "a"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "a", "uid": "owner"}],
        },
        "spec": changes.pop("spec", {}),
        "status": {"phase": changes.pop("phase", "Running"), **_body(changes.pop("status", {}))},
    }
    body["metadata"]["ownerReferences"][0]["controller"] = True
    body["metadata"] |= _body(changes.pop("metadata", {}))
    assert not changes
    return convert(body, Pod)


def ready(since: str | None = None, status: str = "True") -> Body:
    return {"type": "Ready", "status": status, "lastTransitionTime": since or ago(30)}


def exited(code: int, at: str | None = None, name: str = "main") -> Body:
    ended = {"exitCode": code, "finishedAt": at or ago(3600)}
    return {"name": name, "state": {"terminated": ended}}


def a_job_pod(name: str, phase: str = "Running", index: int | None = None, **more: object) -> Pod:
    """A pod of a Job, not counted yet; `failures` are those of its index before it."""
    annotations = {} if index is None else {INDEX: str(index)}
    if (failures := more.pop("failures", None)) is not None:
        annotations[FAILURES] = str(failures)
    metadata: Body = {
        "ownerReferences": [{"kind": "Job", "name": "j", "uid": "owner", "controller": True}],
        "finalizers": [TRACKING],
        "annotations": annotations,
        **_body(more.pop("metadata", {})),
    }
    status = _body(more.pop("status", {}))
    return a_pod(name, phase=phase, metadata=metadata, status=status, **more)


def a_job(*, status: Body | None = None, metadata: Body | None = None, **spec: object) -> Job:
    given: Body = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": TEMPLATE}
    selector = {"matchLabels": {"app": "a"}}
    return convert(
        {
            "metadata": {**_owner("j"), **(metadata or {})},
            "spec": {**given, "selector": selector, **spec},
            "status": status or {},
        },
        Job,
    )


def a_replica_set(
    replicas: int, *, status: Body | None = None, metadata: Body | None = None, **spec: object
) -> ReplicaSet:
    selector = {"matchLabels": {"app": "a"}}
    return convert(
        {
            "metadata": {**_owner("a"), **(metadata or {})},
            "spec": {"replicas": replicas, "selector": selector, "template": TEMPLATE, **spec},
            "status": status or {},
        },
        ReplicaSet,
    )


def _owner(name: str) -> Body:
    return {
        "name": name,
        "namespace": "default",
        "uid": "owner",
        "resourceVersion": "7",
        "generation": 1,
    }


def _body(value: object) -> Body:
    assert isinstance(value, dict)
    return value
