"""Where pods share one address, which ports two of a job would both listen on. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from swell.node.pods import BoundContainer, BoundPod
from swell.node.process.fields import ConfigError
from swell.node.process.folders import JOB_LABEL


def check_ports(pod: BoundPod, container: BoundContainer, others: Iterable[BoundPod]) -> None:
    """ConfigError when a running pod of the same job has a port that the container wants."""
    wanted = {port.container_port for port in container.ports}
    for other in others:
        if not _is_of_same_job(pod, other):
            continue
        theirs = {port.container_port for c in other.spec.containers for port in c.ports}
        if taken := wanted & theirs:
            message = (
                f"port {min(taken)} is used by pod {other.metadata.name} of the same job, and "
                "this machine has one address for all pods"
            )
            raise ConfigError(message, "CreateContainerError")


def _is_of_same_job(pod: BoundPod, other: BoundPod) -> bool:
    job = pod.metadata.labels.get(JOB_LABEL)
    return (
        job is not None
        and job == other.metadata.labels.get(JOB_LABEL)
        and pod.metadata.namespace == other.metadata.namespace
        and pod.metadata.uid != other.metadata.uid
    )
