"""A suspended job: all its pods and its PodGroup go, and it waits until it may queue anew.

    (none) --suspend--> recorded: pods and group are deleted --all gone--> at rest
       ^                                    |                                 |
       +---- all gone, and suspend is false +---------------------------------+

The record (`status.suspension`) is written before anything is deleted for it. It is taken away
again only when everything is gone, however often users change their mind meanwhile. So no pod of
before is ever beside one of after, and no pod counts as lost. The members ConfigMap and the
services stay: the next pods need them, and they take up no room.
"""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobStatus, Suspension
from swell.api.kinds import POD_GROUPS
from swell.api.times import format_time, parse_time
from swell.operator.aitrainingjob.cleanup import delete_native_groups
from swell.operator.aitrainingjob.departures import depart
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.runtime.plan import Action, DeleteObject


def is_over(snapshot: AITrainingJobSnapshot) -> bool:
    """Whether a recorded suspension can be taken away: it is not wanted, and all pods are gone."""
    groups = snapshot.group or snapshot.native_groups
    return not snapshot.job.wants_suspension and not snapshot.pods and not groups


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
    return replace(status, suspension=None)


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
    leaving = [(one, "its job is suspended") for one in snapshot.everything]
    actions = depart(leaving, snapshot, status, now)
    group = snapshot.group
    if group is not None and group.metadata.deletion_timestamp is None:
        actions.append(DeleteObject(POD_GROUPS, group.metadata.key, group.metadata.uid))
    return [*actions, *delete_native_groups(snapshot)]
