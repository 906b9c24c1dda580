"""Manifests and changes that every API server with our CRDs must accept or refuse alike."""

from __future__ import annotations

from tests.property.broken_by_hand import written_by_hand
from tests.property.broken_manifests import Broken, generated

REFUSED = [broken for broken in (*generated(), *written_by_hand()) if broken.on_server]

_KINDS = {
    "aitrainingjob-full": "AITrainingJob",
    "trainingjob-full": "TrainingJob",
    "podgroup": "PodGroup",
    "queue": "Queue",
}


def kind_of(broken: Broken) -> str:
    """The kind that a broken manifest was made from; its own `kind` may be broken."""
    return _KINDS[broken.name.partition(":")[0]]


# The status of a job that is under way.
STARTED = {"phase": "Running", "lastReconcileTime": "2026-01-01T00:00:00Z"}
LATER = "2026-01-01T00:00:01Z"

# A field of a job that is under way, its new value, and whether the change is allowed.
WORKER = "spec.replicaSpecs.Worker"
CHANGES: list[tuple[str, object, bool]] = [
    (f"{WORKER}.minReplicas", 1, True),
    (f"{WORKER}.maxReplicas", 9, True),
    (f"{WORKER}.edlPolicy", "Manual", True),
    (f"{WORKER}.restartLimit", 9, True),
    ("spec.timeLimit", 60, True),
    ("spec.cleanPodPolicy", "None", True),
    ("spec.suspend", True, True),
    ("spec.ttlSecondsAfterFinished", 0, True),
    ("spec.saveSeconds", 60, True),
    ("spec.deadline", "2026-02-01T00:00:00Z", True),
    ("spec.managedBy", "example.com/other", False),
    ("spec.after", ["prepare"], False),
    ("spec.afterPolicy", "Wait", False),
    ("spec.requeuePolicy", "End", False),
    ("spec.maxRetriesOnPreemption", 3, False),
    (f"{WORKER}.replicas", 5, False),
    (f"{WORKER}.restartPolicy", "Always", False),
    (f"{WORKER}.restartScope", "All", False),
    (f"{WORKER}.failPolicy", "Any", False),
    (f"{WORKER}.completePolicy", "All", False),
    (f"{WORKER}.template.spec.containers[0].image", "other", False),
    (f"{WORKER}.template.spec.containers[0].command", ["sh"], False),
    (f"{WORKER}.template.spec.hostNetwork", True, False),
    (f"{WORKER}.template.metadata.labels.tier", "cpu", False),
    ("spec.frameworkType", "jax", False),
    ("spec.faultTolerant", True, False),
    ("spec.priority", "low", False),
    ("spec.schedulerName", "other", False),
    ("spec.queue", "other", False),
    ("spec.failPolicy", "All", False),
    ("spec.completePolicy", "Any", False),
    ("spec.restartingExitCode", "137", False),
    (
        "spec.replicaSpecs.extra",
        {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}},
        False,
    ),
]

# The size of a job's name, how many workers it may have, and whether their names fit.
POD_NAMES: list[tuple[int, int, bool]] = [
    (54, 10, True),
    (54, 11, False),
    (55, 10, False),
    (45, 2**31 - 1, True),
    (46, 2**31 - 1, False),
    (46, 10**9, True),
]
