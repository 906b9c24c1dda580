"""Records of ended jobs from the cluster's shards, and those of living jobs as of now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swell.api.core import ConfigMap
from swell.api.kinds import AI_TRAINING_JOBS, CONFIG_MAPS, PODS, TRAINING_JOBS
from swell.api.trainingjob import JOB_NAME_LABEL
from swell.cli.connection import ClusterConnection
from swell.cli.progress import ProgressLine
from swell.cli.sweep_names import one_sweep
from swell.cli.sweeps.row_jobs import SWEEP_LABEL
from swell.cluster.kube import calls
from swell.history.life import JobLife, PodRun
from swell.history.observing import HistoryJob, has_ended, observed
from swell.history.places import JOB_LABEL, ai_training_job_place, training_job_place
from swell.history.pods import is_folded, key_of, run_of, with_pods
from swell.history.reading import (
    ALL_SHARDS,
    HistoryFilter,
    LabelMatch,
    ended_lives,
    open_lives,
)
from swell.runtime.cluster import Selection
from swell.runtime.errors import NotFoundError

_PAGE = 50  # shards of a request: they are large


def filter_of(
    name: str, labels: LabelMatch | None = None, since: float | None = None
) -> HistoryFilter:
    """Return what selects a job, or all of them; `sweep/X` means the jobs of a sweep."""
    sweep = one_sweep(name)
    if sweep is None:
        return HistoryFilter(since=since, name=name or None, labels=labels)

    def matches(found: Mapping[str, str]) -> bool:
        return found.get(SWEEP_LABEL) == sweep and (labels is None or labels(found))

    return HistoryFilter(since=since, labels=matches)


def read_lives(
    connection: ClusterConnection, namespace: str, wanted: HistoryFilter, now: float
) -> list[JobLife]:
    """Return the wanted records: living jobs first, then those that ended, the last one first.

    An empty namespace is every one.
    """
    shards = _shards(connection, namespace)
    ended = ended_lives(shards, wanted)
    known = {life.uid for life in ended}
    kept = open_lives(shards)
    jobs = [
        job
        for job in _jobs(connection, namespace)
        if job.metadata.uid not in known and _is_wanted(job, wanted)
    ]
    runs = _runs(connection, namespace, wanted.name) if jobs else {}
    living = [
        _as_of_now(job, kept.get(job.metadata.uid), runs.get(job.metadata.uid, ()), now)
        for job in jobs
    ]
    living.sort(key=lambda life: (life.created, life.namespace, life.name))
    return [*living, *ended]


def _shards(connection: ClusterConnection, namespace: str) -> list[ConfigMap]:
    selection, found, token = Selection(namespace, labels=ALL_SHARDS), list[ConfigMap](), ""
    with ProgressLine() as line:
        while True:
            call = calls.list_page(CONFIG_MAPS, selection, limit=_PAGE, continue_token=token)
            page = connection.client.send(call)
            found += page.items
            token = page.continue_token
            if not token:
                return found
            line.say(f"reading the history: {len(found)} shards")


def _jobs(connection: ClusterConnection, namespace: str) -> list[HistoryJob]:
    selection = Selection(namespace)
    jobs: list[HistoryJob] = list(
        connection.client.send(calls.list_page(AI_TRAINING_JOBS, selection)).items
    )
    try:
        jobs += connection.client.send(calls.list_page(TRAINING_JOBS, selection)).items
    except NotFoundError:
        return jobs  # this cluster does not have the older kind
    return jobs


def _is_wanted(job: HistoryJob, wanted: HistoryFilter) -> bool:
    if wanted.name is not None and job.metadata.name != wanted.name:
        return False
    return wanted.labels is None or wanted.labels(job.metadata.labels)


def _as_of_now(
    job: HistoryJob, kept: JobLife | None, pods: Iterable[PodRun], now: float
) -> JobLife:
    """Return the record of a job that is not in the history, from its checkpoint and its pods."""
    life = observed(kept, job, now)
    runs = {key_of(run): run for run in life.pods}
    if not has_ended(job):
        new = (run for run in pods if key_of(run) in runs or not is_folded(life, run))
        runs |= {key_of(run): run for run in new}
    return with_pods(life, runs.values())


def _runs(
    connection: ClusterConnection, namespace: str, name: str | None
) -> dict[str, list[PodRun]]:
    """Return the runs of pods by the UID of their job: of one job, or of all."""
    found: dict[str, list[PodRun]] = {}
    for label, place_of in (
        (JOB_LABEL, ai_training_job_place),
        (JOB_NAME_LABEL, training_job_place),
    ):
        selection = Selection(namespace, labels=f"{label}={name}" if name else label)
        for pod in connection.client.send(calls.list_page(PODS, selection)).items:
            place = place_of(pod)
            run = run_of(pod, place.role, place.index) if place is not None else None
            if place is not None and run is not None:
                found.setdefault(place.job_uid, []).append(run)
    return found
