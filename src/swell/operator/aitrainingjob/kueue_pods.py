"""Pods of a job that Kueue admits as a group of plain pods: when its hold on them is undone.

Kueue's finalizer keeps the record of a pod that has ended until another pod takes its place. A pod
that comes again has the same name here, so one would wait for the other for ever; and those of a
job that is suspended or deleted have no successor at all.
"""

from __future__ import annotations

from swell.api.kinds import PODS
from swell.api.pod import Pod, PodPhase
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.operator.framework.status import remove_finalizer
from swell.runtime.plan import PatchObject


def undone_holds(snapshot: AITrainingJobSnapshot) -> list[PatchObject]:
    """Take Kueue's finalizer from the job's pods that are deleted and have nothing that runs.

    Kueue counts such a pod as absent then, and keeps its quota for the next one of the group until
    the group has no pods left.
    """
    return [
        remove_finalizer(PODS, pod.metadata, labels.KUEUE_FINALIZER)
        for pod in snapshot.pods
        if labels.KUEUE_FINALIZER in pod.metadata.finalizers and _has_left(pod)
    ]


def _has_left(pod: Pod) -> bool:
    """Whether a pod is deleted, and no process of it is left: its node has said so, or it has none.

    The node of a pod that runs deletes it a second time, without a grace period, when it has ended.
    """
    meta = pod.metadata
    if meta.deletion_timestamp is None:
        return False
    has_ended = pod.status.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}
    return has_ended or not pod.spec.node_name or meta.deletion_grace_period_seconds == 0
