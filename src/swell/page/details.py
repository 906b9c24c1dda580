"""One job with its timeline, pods and events; and the history. Read with the user's credentials."""

from __future__ import annotations

import asyncio

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import encode
from swell.api.core import ConfigMap
from swell.api.kinds import CONFIG_MAPS, EVENTS, PODS
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.api.trainingjob import JOB_NAME_LABEL, TrainingJob
from swell.history.life import JobLife
from swell.history.observing import has_ended, observed
from swell.history.places import JOB_LABEL, ai_training_job_place, training_job_place
from swell.history.pods import is_folded, key_of, run_of, with_pods
from swell.history.reading import ALL_SHARDS, HistoryFilter, ended_lives, open_lives
from swell.history.shards import HISTORY_LABEL, ShelfName
from swell.history.summary import details_of, summary_of
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.errors import ForbiddenError

_SHARDS = 50  # of a request: they are large
_EVENTS_MAX = 200
_ENDED = f"{HISTORY_LABEL}={ShelfName.ENDED.value}"
_OPEN = f"{HISTORY_LABEL}={ShelfName.OPEN.value}"


async def job_details(cluster: Cluster, job: AITrainingJob | TrainingJob, now: float) -> Body:
    """Returns what the view of a living job shows beyond its row."""
    meta = job.metadata
    is_ai = isinstance(job, AITrainingJob)
    label = JOB_LABEL if is_ai else JOB_NAME_LABEL
    pods = await _pods(cluster, Selection(meta.namespace, labels=f"{label}={meta.name}"))
    place_of = ai_training_job_place if is_ai else training_job_place
    placed = [(pod, place_of(pod)) for pod in pods]
    own = [(pod, place) for pod, place in placed if place and place.job_uid == meta.uid]
    shards = await _shards(cluster, meta.namespace, ALL_SHARDS if has_ended(job) else _OPEN)
    life = observed(await asyncio.to_thread(_known, shards, job), job, now)
    runs = {key_of(run): run for run in life.pods}
    for pod, place in own:
        run = run_of(pod, place.role, place.index)
        if run is not None and (key_of(run) in runs or not is_folded(life, run)):
            runs[key_of(run)] = run
    return {
        **details_of(with_pods(life, runs.values()), now),
        "livePods": [_pod(pod) for pod, _ in own],
        "events": await _events(cluster, meta.key, meta.uid),
        "conditions": [
            {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message}
            for one in job.status.conditions
        ],
    }


def _known(shards: list[ConfigMap], job: AITrainingJob | TrainingJob) -> JobLife | None:
    """The record of a job: the whole one if it has ended, else its last checkpoint."""
    meta = job.metadata
    ended = ended_lives(shards, HistoryFilter(name=meta.name)) if has_ended(job) else []
    whole = next((life for life in ended if life.uid == meta.uid), None)
    return whole or open_lives(shards).get(meta.uid)


async def recorded(cluster: Cluster, namespace: str, name: str, now: float) -> Body | None:
    """Returns the details of the last job of a name that is gone; None without a record."""
    shards = await _shards(cluster, namespace, _ENDED)
    found = await asyncio.to_thread(ended_lives, shards, HistoryFilter(name=name))
    return details_of(found[0], now) if found else None


async def history(
    cluster: Cluster, namespaces: tuple[str, ...], since: float | None, now: float
) -> bytes:
    """Returns the figures of all jobs that have ended, of the namespaces of this user, as JSON.

    They are worked out in a thread: 10,000 take half a second, in which others are to be answered.
    """
    shards = [one for namespace in namespaces for one in await _shards(cluster, namespace, _ENDED)]

    def figures() -> bytes:
        lives = ended_lives(shards, HistoryFilter(since=since))
        return encode({"jobs": [summary_of(life, now) for life in lives]})

    return await asyncio.to_thread(figures)


async def _pods(cluster: Cluster, selection: Selection) -> list[Pod]:
    try:
        return list((await cluster.list(PODS, selection)).items)
    except ForbiddenError:
        return []  # a user who may see jobs need not see pods


async def _shards(cluster: Cluster, namespace: str, labels: str) -> list[ConfigMap]:
    found: list[ConfigMap] = []
    selection, token = Selection(namespace, labels=labels), ""
    while True:
        try:
            page = await cluster.list(CONFIG_MAPS, selection, limit=_SHARDS, continue_token=token)
        except ForbiddenError:
            return found  # whoever may not read ConfigMaps sees no history
        found += page.items
        token = page.continue_token
        if not token:
            return found


async def _events(cluster: Cluster, key: Key, uid: str) -> list[Body]:
    where = f"involvedObject.name={key.name},involvedObject.uid={uid}"
    try:
        page = await cluster.list(EVENTS.untyped(), Selection(key.namespace, fields=where))
    except ForbiddenError:
        return []
    shown = [
        {
            "time": one.get("lastTimestamp") or one.get("eventTime") or "",
            "type": one.get("type", ""),
            "reason": one.get("reason", ""),
            "message": one.get("message", ""),
            "count": one.get("count") or 1,
        }
        for one in page.items
    ]
    return sorted(shown, key=lambda one: str(one["time"]))[-_EVENTS_MAX:]


def _pod(pod: Pod) -> Body:
    return {
        "name": pod.metadata.name,
        "phase": pod.status.phase.value,
        "node": pod.spec.node_name,
        "reason": pod.status.reason,
        "containers": [one.name for one in pod.spec.containers],
    }
