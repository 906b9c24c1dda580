"""How the pods, roles and log folders of a job are recognised, for each kind of job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swell.api.meta import Body
from swell.api.trainingjob import JOB_UID_LABEL
from swell.cli.job_kinds import FoundJob
from swell.node.pods import JOB_LABEL
from swell.node.process.folders import (
    INDEX_LABEL,
    ROLE_LABEL,
    Folders,
    training_job_logs,
    training_job_replica,
)


@dataclass(frozen=True, slots=True)
class LoggedRole:
    """A role of a job: the size it may have at most, and the names of its containers."""

    maximum: int
    containers: frozenset[str]


def pod_selector(job: FoundJob) -> str:
    """Return the label selector of the job's pods; it may select those of a former job, too."""
    if job.is_ai_training_job:
        return f"{JOB_LABEL}={job.key.name}"
    return f"{JOB_UID_LABEL}={job.uid}"


def replica_of(job: FoundJob, pod: Body) -> tuple[str, str] | None:
    """Return role and index of a pod that was selected; None if it is not of this job."""
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    if not job.is_ai_training_job:
        return training_job_replica(labels, meta.get("annotations") or {}, meta["name"])
    # The label holds the job's name only; the owner's uid excludes a former job of it.
    owners = meta.get("ownerReferences") or []
    if not any(owner.get("uid") == job.uid for owner in owners):
        return None
    return labels.get(ROLE_LABEL, ""), labels.get(INDEX_LABEL, "0")


def log_folder(home: Path, job: FoundJob) -> Path:
    """Return the folder of the job's logs in the home of an embedded cluster."""
    logs, key = Folders(home).logs, job.key
    return (
        logs / key.namespace / key.name if job.is_ai_training_job else training_job_logs(logs, key)
    )


def roles_of(job: FoundJob) -> dict[str, LoggedRole]:
    """Return the roles of the job by their names in lower case."""
    if job.is_ai_training_job:
        specs = job.as_ai_training_job().spec.replica_specs
        return {
            name.lower(): LoggedRole(spec.maximum, frozenset(_container_names(spec.template)))
            for name, spec in specs.items()
        }
    spec = job.as_training_job().spec
    roles = {"trainer": LoggedRole(spec.trainer_maximum, frozenset({"trainer"}))}
    if spec.has_pservers:
        roles["pserver"] = LoggedRole(spec.pserver.minimum, frozenset({"pserver"}))
    if spec.fault_tolerant:
        roles["master"] = LoggedRole(1, frozenset({"master", "etcd"}))
    return roles


def _container_names(template: Body) -> Iterator[str]:
    spec = template.get("spec") or {}
    for part in ("initContainers", "containers"):
        yield from (container.get("name", "") for container in spec.get(part) or ())
