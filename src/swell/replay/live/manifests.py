"""Jobs of a trace and nodes as API objects. Values only."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJob
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body
from swell.api.times import format_time
from swell.autoscaler.job_views import PROFILE
from swell.operator.framework.training import TRAINING
from swell.replay.physics import JobRun

NAMESPACE = "default"
ROLE = "trainer"
DEVICE = "nvidia.com/gpu"
HOSTNAME = "kubernetes.io/hostname"
# Cpus and memory of a node and of one replica: far more than is needed, so that devices decide.
_CPUS, _MEMORY = 1024, "1024Gi"


def job_name(index: int) -> str:
    """Returns the name of the object of a trace's job: names in traces may be no DNS labels."""
    return f"job-{index:06}"


def address_of(name: str) -> str:
    """Returns the address of all pods of a job: it says which job it is, and nothing else."""
    index = int(name.rpartition("-")[2])
    return f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}"


def job_body(
    index: int, job: JobRun, capacity: int, *, is_elastic: bool, shares: bool = False
) -> Body:
    """Returns the object of a job. A rigid one has the size that it requested."""
    rigid = min(job.requested, capacity)
    least = job.minimum if is_elastic else rigid
    most = max(min(job.size_max, capacity), least) if is_elastic else rigid
    container = {
        "name": "main",
        "image": job.program.name,
        "resources": {"limits": {DEVICE: "1"}, "requests": {"cpu": "1"}},
    }
    return {
        "apiVersion": AI_TRAINING_JOBS.api_version,
        "kind": "AITrainingJob",
        "metadata": {
            "name": job_name(index),
            "namespace": NAMESPACE,
            "annotations": {TRAINING: "true", **({PROFILE: job.program.name} if shares else {})},
        },
        "spec": {
            # Saving is part of what a start costs: programs are always ready to leave.
            "saveSeconds": 0,
            "replicaSpecs": {
                ROLE: {
                    "replicas": least,
                    "minReplicas": least,
                    "maxReplicas": most,
                    "edlPolicy": "Auto" if most > least else "Never",
                    "template": {"spec": {"containers": [container]}},
                }
            },
        },
    }


def node_body(index: int, n_devices: int, now: float) -> Body:
    """Returns a ready node."""
    name = f"node-{index:04}"
    amounts = {"cpu": str(_CPUS), "memory": _MEMORY, "pods": "1000", DEVICE: str(n_devices)}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(now)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name}},
        "status": {"conditions": [ready], "allocatable": amounts, "capacity": amounts},
    }


def target_of(job: AITrainingJob) -> int:
    """Returns the replicas that a job is meant to have."""
    return job.status.target_replicas.get(ROLE, 0)
