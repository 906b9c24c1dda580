"""Pods of a drained node that save before they leave: they are asked, and waited for.

The request and its deadline are on the pod. The operator deletes the pods of its jobs when they
have saved; a pod without one is evicted by the drain, and so is one that its operator has not
deleted some time after the deadline.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.injection import DRAIN
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Body, Key
from swell.api.pod import Pod, PodPhase
from swell.cli.connection import ClusterConnection
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ClusterError, NotFoundError

# As long as the operator and the scheduler wait by default.
SAVE_SECONDS_MAX: Final = 120.0
# Between two looks at the pods that save: their answers come within half a second (`node`).
_LOOK_S = 0.5
_ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def let_pods_save(pods: Sequence[Body], connection: ClusterConnection, save_s_max: float) -> None:
    """Ask those pods to save that will, and wait until each has, is gone, or has no time left."""
    # Imported here: `--help` needs none of it.
    from swell.scheduler.live.saving import departure_notes, patience_s, save_seconds

    def job_of(key: Key) -> AITrainingJob | None:
        try:
            body = connection.client.send(calls.get(AI_TRAINING_JOBS.untyped(), key))
            return convert(body, AITrainingJob)
        except (NotFoundError, msgspec.ValidationError):
            return None

    asked: list[Pod] = []
    for body in pods:
        pod = convert(body, Pod)
        save_s = None if pod.status.phase is not PodPhase.RUNNING else save_seconds(pod, job_of)
        if not save_s:
            continue
        deadline = time.time() + min(save_s, save_s_max)  # wall time: others read it, too
        notes = departure_notes(pod, f"node {pod.spec.node_name}", deadline, DRAIN)
        note = merge_patch({"metadata": {"uid": pod.metadata.uid, "annotations": notes}})
        try:
            held = connection.client.send(calls.patch(PODS.untyped(), pod.metadata.key, note))
        except ClusterError as error:
            # It cannot be asked, and leaves as any other pod does.
            sys.stderr.write(f"pod/{pod.metadata.name} is not asked to save: {error}\n")
            continue
        asked.append(convert(held, Pod))
        sys.stdout.write(f"pod/{pod.metadata.name} asked to save\n")
    while asked:
        asked = [pod for pod in asked if patience_s(pod, time.time(), save_s_max) > 0]
        if asked:
            time.sleep(_LOOK_S)
            asked = [now for pod in asked if (now := _still_there(pod, connection)) is not None]


def _still_there(pod: Pod, connection: ClusterConnection) -> Pod | None:
    """Returns the pod as it is now; None if it is gone, leaves already, or has ended."""
    try:
        body = connection.client.send(calls.get(PODS.untyped(), pod.metadata.key))
    except NotFoundError:
        return None
    now = convert(body, Pod)
    is_same = now.metadata.uid == pod.metadata.uid
    is_leaving = now.metadata.deletion_timestamp is not None or now.status.phase in _ENDED
    return now if is_same and not is_leaving else None
