"""A suspended job: all its pods and its PodGroup go, and it waits until it may queue anew.

    (none) --suspend--> recorded: pods and group are deleted --all gone--> at rest
       ^                                    |                                 |
       +---- all gone, and suspend is false +---------------------------------+

The record (`status.suspension`) is written before anything is deleted for it. It is taken away
again only when everything is gone, however often users change their mind meanwhile. So no pod of
before is ever beside one of after, and no pod counts as lost. The members ConfigMap and the
services stay: the next pods need them, and they take up no room. A job that yields to others
(`status.yielded`, which the autoscaler writes and takes away) is suspended for as long.
"""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobStatus, Suspension
from swell.api.kinds import POD_GROUPS
from swell.api.times import SKEW_S, format_time, parse_time
from swell.operator.aitrainingjob.cleanup import delete_native_groups
from swell.operator.aitrainingjob.departures import depart
from swell.operator.aitrainingjob.phases import REASON_TEXT, JobReason
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.runtime.plan import Action, DeleteObject


def is_wanted(snapshot: AITrainingJobSnapshot, now: float) -> bool:
    """Whether the job is to have no pods now: by its spec, or for the time that it has yielded."""
    job = snapshot.job
    return job.is_suspended_by_spec or (job.yields and _is_yielding(job.status, now))


def without_past_yield(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> AITrainingJobStatus:
    """The status without the record of a yield that is over, or that users have ended."""
    if snapshot.job.yields and _is_yielding(status, now):
        return status
    return replace(status, yielded=None)


def yields_until(status: AITrainingJobStatus) -> float | None:
    """When a job that has yielded goes on in any case."""
    return None if status.yielded is None else parse_time(status.yielded.until)


def reason_of(snapshot: AITrainingJobSnapshot) -> tuple[JobReason, str]:
    """Why a job is held, for programs and for people."""
    job, yielded = snapshot.job, snapshot.job.status.yielded
    if yielded is None or job.is_suspended_by_spec or not job.yields:
        return JobReason.SUSPENDED, REASON_TEXT[JobReason.SUSPENDED]
    text = f"{REASON_TEXT[JobReason.YIELDED]}, until {yielded.until} at the latest"
    return JobReason.YIELDED, f"{text}: {yielded.reason}" if yielded.reason else text


def _is_yielding(status: AITrainingJobStatus, now: float) -> bool:
    """Whether a yield lasts. One that began in the future is of a clock that was set back."""
    record = status.yielded
    if record is None:
        return False
    return parse_time(record.since) <= now + SKEW_S and now < parse_time(record.until)


def is_over(snapshot: AITrainingJobSnapshot, now: float) -> bool:
    """Whether a recorded suspension can be taken away: it is not wanted, and all pods are gone."""
    groups = snapshot.group or snapshot.native_groups
    return not is_wanted(snapshot, now) and not snapshot.pods and not groups


def begun(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> AITrainingJobStatus:
    """The status with the suspension on record.

    A restart that was under way is done with: all its pods go as well. Pods of afterwards are a
    new membership, so the epoch grows if there is one now.
    """
    at = format_time(now)
    has_run = status.start_running_time is not None
    return replace(
        status,
        suspension=Suspension(started_at=at),
        paused_at=status.paused_at or (at if has_run else None),
        restart=None,
        epoch=status.epoch + 1 if snapshot.members is not None else status.epoch,
    )


def ended(status: AITrainingJobStatus) -> AITrainingJobStatus:
    return replace(status, suspension=None, yielded=None)


def running_again(status: AITrainingJobStatus, now: float) -> AITrainingJobStatus:
    """The status of a job that runs, with the time of its suspension added to what was paused."""
    if status.paused_at is None:
        return status
    paused_s = max(0, int(now - parse_time(status.paused_at)))
    return replace(status, paused_at=None, paused_seconds=status.paused_seconds + paused_s)


def release_actions(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> list[Action]:
    """Every pod leaves, and the group is deleted, which would go on asking for room."""
    is_yield = reason_of(snapshot)[0] is JobReason.YIELDED
    why = "its job gives its devices to others" if is_yield else "its job is suspended"
    leaving = [(one, why) for one in snapshot.everything]
    actions = depart(leaving, snapshot, status, now)
    group = snapshot.group
    if group is not None and group.metadata.deletion_timestamp is None:
        actions.append(DeleteObject(POD_GROUPS, group.metadata.key, group.metadata.uid))
    return [*actions, *delete_native_groups(snapshot)]
