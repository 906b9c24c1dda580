"""Reads the simulated world as its rules need it: jobs, pods, and what was true at a version."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJob
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod, PodPhase
from swell.cluster.embedded.storage import Commit, Stored
from swell.operator import labels
from swell.sim.world import World
from tests.sim.operator.jobs import NAMESPACE

AITJ = str(AI_TRAINING_JOBS)
ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def job_at(world: World, name: str) -> AITrainingJob | None:
    stored = world.storage.get(AITJ, Key(NAMESPACE, name))
    return read(stored) if stored else None


def jobs_in(world: World) -> list[AITrainingJob]:
    found = (read(stored) for _, stored in world.storage.list(AITJ).items)
    return [job for job in found if job is not None]


def pods_in(world: World) -> list[Pod]:
    return [stored.typed(Pod) for _, stored in world.storage.list(str(PODS)).items]


def read(stored: Stored) -> AITrainingJob | None:
    return stored.typed(AITrainingJob)


def owner_of(pod: Pod) -> Uid:
    owner = pod.metadata.controller
    return owner.uid if owner else Uid("")


def replica_of(pod: Pod) -> tuple[str, int]:
    """Role and index; a pod that is none of ours has neither."""
    marks = pod.metadata.labels
    return marks.get(labels.REPLICA_NAME, ""), int(marks.get(labels.REPLICA_INDEX, "-1"))


def count_of(pod: Pod) -> int:
    return int(pod.metadata.labels.get(labels.RESTART_COUNT, "0"))


def pod_states(commit: Commit) -> tuple[Pod | None, Pod | None]:
    """The pod before and after; nothing if the commit is about something else."""
    if commit.collection != str(PODS):
        return None, None
    return (
        commit.before.typed(Pod) if commit.before else None,
        commit.after.typed(Pod) if commit.after else None,
    )


def job_states(commit: Commit) -> tuple[AITrainingJob | None, AITrainingJob | None]:
    if commit.collection != AITJ:
        return None, None
    return (
        read(commit.before) if commit.before else None,
        read(commit.after) if commit.after else None,
    )


def owned(world: World, collection: str, uid: Uid) -> list[Body]:
    """Objects of a kind whose controller has this UID."""
    return [
        stored.body
        for _, stored in world.storage.list(collection).items
        if any(o["uid"] == uid for o in stored.body["metadata"].get("ownerReferences", ()))
    ]


class History:
    """Every job's states by version: what was true when a write was sent.

    A job that others tore away (finalizer and all) counts as it last was: nobody can see at once
    what others do, only what it did itself.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._states: dict[Uid, list[tuple[int, AITrainingJob | None]]] = {}
        self._gone: dict[Uid, int] = {}

    def on_commit(self, commit: Commit) -> None:
        before, after = job_states(commit)
        job = after or before
        if before is not None and after is None:
            self._gone[before.metadata.uid] = commit.version
        if job is None or (after is None and not self._world.is_subject(commit.actor)):
            return
        self._states.setdefault(job.metadata.uid, []).append((commit.version, after))

    def was_gone(self, uid: Uid, version: int) -> bool:
        """Whether the job did not exist any more, whoever deleted it."""
        return self._gone.get(uid, version + 1) <= version

    def at(self, uid: Uid, version: int) -> AITrainingJob | None:
        found = None
        for at, state in self._states.get(uid, []):
            if at > version:
                break
            found = state
        return found
