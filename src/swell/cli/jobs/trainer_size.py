"""Sets the number of a TrainingJob's trainers: in `spec.scale` of a job that has a size there.

Of any other it is set as the autoscaler does, in the status, and may be changed by that again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from swell.api.aitrainingjob import RECORDS_MAX, ResizeAuthor
from swell.api.codec import to_body
from swell.api.kinds import TRAINING_JOBS
from swell.api.meta import Body
from swell.api.times import format_time
from swell.api.trainingjob import TrainerScaleRecord, TrainingJob
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection
from swell.cli.job_kinds import FoundJob
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch

_ROLES = ("master", "pserver", "trainer")


def write_trainer_target(
    connection: ClusterConnection, found: FoundJob, sizes: Mapping[str, int]
) -> None:
    """Write the new number of trainers; ConflictError if the job has changed since it was read."""
    job = found.as_training_job()
    size = _checked(found, job, sizes)
    version = {"resourceVersion": job.metadata.resource_version}
    if job.spec.scaled_trainers is not None:
        change: Body = {"metadata": version, "spec": {"scale": {"replicas": size}}}
        connection.client.send(calls.patch(TRAINING_JOBS, found.key, merge_patch(change)))
        return
    if size == job.status.trainer_target:
        return
    record = TrainerScaleRecord(
        time=format_time(time.time()),
        from_=job.status.trainer_target or 0,
        to=size,
        by=ResizeAuthor.USER.value,
        reason="swell scale",
    )
    records = (*job.status.scale_records, record)[-RECORDS_MAX:]
    body: Body = {
        "metadata": version,
        "status": {"trainer_target": size, "scale_records": [to_body(one) for one in records]},
    }
    connection.client.send(calls.patch(TRAINING_JOBS.status, found.key, merge_patch(body)))


def _checked(found: FoundJob, job: TrainingJob, sizes: Mapping[str, int]) -> int:
    """Return the size that is asked for; CommandError if the job cannot have it."""
    name, spec = found.key.name, job.spec
    for role in sizes:
        if role.lower() not in _ROLES:
            raise CommandError(f"{name} has no role {role}", "the one to scale is trainer")
        if role.lower() != "trainer":
            raise CommandError(f"{role} has a fixed size", "only trainers are scaled")
    (size,) = sizes.values()
    if found.has_ended:
        hint = f"see: swell describe tj {name}"
        raise CommandError(f"{name} has ended already: {found.phase}", hint)
    least, most = spec.trainer_minimum, spec.trainer_maximum
    if not least <= size <= most:
        hint = "change min-instance or max-instance first"
        raise CommandError(f"{name} may have {least} to {most} trainers", hint)
    if job.status.trainer_target is None:
        raise CommandError(f"{name} has not begun yet", "wait until it is Creating")
    return size
