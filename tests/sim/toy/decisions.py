"""What the toy controller decides: pure, one small step at a time, intent recorded before acts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from swell.api.codec import to_body
from swell.api.kinds import PODS
from swell.api.meta import Body, Key
from swell.api.pod import Pod, PodPhase
from swell.runtime.cluster import merge_patch
from swell.runtime.plan import (
    NOTHING,
    CreateObject,
    DeleteObject,
    PatchObject,
    PatchStatus,
    Plan,
    Together,
    Write,
    patch_object,
)
from tests.sim.toy.flaws import Flaw
from tests.sim.toy.kind import (
    ATTEMPT_LABEL,
    FAILED,
    FAILS_ANNOTATION,
    FINAL,
    FINALIZER,
    INDEX_LABEL,
    JOB_LABEL,
    RUNNING,
    SUCCEEDED,
    TOY_JOBS,
    ToyJob,
    ToyStatus,
    index_of,
)


@dataclass(frozen=True, slots=True)
class View:
    """A job and its pods at one moment."""

    job: ToyJob
    pods: tuple[Pod, ...]
    flaws: Flaw = Flaw.NONE
    saw_alive: bool = True
    suffix: Callable[[], str] = str


def decide(view: View, _now: float) -> Plan:
    job = view.job
    if job.metadata.deletion_timestamp:
        return _clean_up(view)
    if FINALIZER not in job.metadata.finalizers:
        return _set_finalizers(job, [*job.metadata.finalizers, FINALIZER])
    if job.status.phase in FINAL and (view.pods or Flaw.NOT_FINAL not in view.flaws):
        return _tidy(view)
    if job.status.target != job.spec.replicas or not job.status.phase:
        return _record(view, phase=RUNNING, target=job.spec.replicas)
    if job.status.observed_generation != job.metadata.generation:
        return _record(view)
    if job.status.restarting:
        return _replace_failed(view)
    return _run(view)


def _clean_up(view: View) -> Plan:
    """The job is being deleted: its pods go first, then the finalizer that holds it."""
    if FINALIZER not in view.job.metadata.finalizers:
        return NOTHING
    if Flaw.EDGE_CLEANUP in view.flaws and not view.saw_alive:
        return NOTHING
    if view.pods:
        return _delete(view.pods)
    return _set_finalizers(
        view.job, [name for name in view.job.metadata.finalizers if name != FINALIZER]
    )


def _tidy(view: View) -> Plan:
    """The job is over; what is left of it may be deleted if so wanted."""
    if view.job.status.observed_generation != view.job.metadata.generation:
        return _record(view)
    return _delete(view.pods) if view.job.spec.clean else NOTHING


def _replace_failed(view: View) -> Plan:
    """Finish a recorded restart: the pods it names go, then the record does."""
    to_delete = tuple(pod for pod in view.pods if pod.metadata.uid in view.job.status.restarting)
    return _delete(to_delete) if to_delete else _record(view, restarting=())


def _run(view: View) -> Plan:
    surplus = tuple(pod for pod in view.pods if index_of(pod) >= view.job.status.target)
    wanted = {index_of(pod): pod for pod in view.pods if index_of(pod) < view.job.status.target}
    failed = [p for p in wanted.values() if p.status.phase is PodPhase.FAILED and not _ending(p)]
    if surplus:
        return _delete(surplus)
    if failed:
        return _restart(view, failed)
    n_succeeded = sum(pod.status.phase is PodPhase.SUCCEEDED for pod in wanted.values())
    if n_succeeded == view.job.status.target:
        return _record(view, phase=SUCCEEDED)
    missing = [index for index in range(view.job.status.target) if index not in wanted]
    if not missing:
        return NOTHING
    return Plan((Together(tuple(_create(view, index) for index in missing)),))


def _restart(view: View, failed: list[Pod]) -> Plan:
    """Count a restart for every failed pod, then delete them; end when one has no more left."""
    status, spec = view.job.status, view.job.spec
    restarts = dict(status.restarts)
    for pod in failed:
        index = str(index_of(pod))
        restarts[index] = restarts.get(index, 0) + 1
    if max(restarts.values()) > spec.restart_limit:
        return _record(view, phase=FAILED)
    record = _record(view, restarts=restarts, restarting=tuple(p.metadata.uid for p in failed))
    if Flaw.ACT_THEN_RECORD in view.flaws:
        counted = _record(view, restarts=restarts)
        return Plan((*_delete(tuple(failed)).actions, *counted.actions))
    return record


def _record(view: View, **changes: object) -> Plan:
    job = view.job
    status = msgspec.structs.replace(
        job.status, observed_generation=job.metadata.generation, **changes
    )
    body = _status_body(status)
    if Flaw.BLIND_STATUS in view.flaws:
        uid = {"uid": job.metadata.uid}
        patch = merge_patch({"metadata": uid, "status": body})
        return Plan((PatchObject(TOY_JOBS.status, job.metadata.key, patch),))
    version = job.metadata.resource_version
    return Plan((PatchStatus(TOY_JOBS, job.metadata.key, version, body),))


def _status_body(status: ToyStatus) -> Body:
    """Every field, also those at their default: a merge patch only changes what it names."""
    return {"restarts": {}, "restarting": [], "target": 0, **to_body(status)}


def _set_finalizers(job: ToyJob, finalizers: list[str]) -> Plan:
    version = job.metadata.resource_version
    body: Body = {"metadata": {"finalizers": finalizers}}
    return Plan(
        (patch_object(TOY_JOBS, job.metadata.key, job.metadata.uid, body, version=version),)
    )


def _delete(pods: tuple[Pod, ...]) -> Plan:
    """Those that are ending already are waited for."""
    actions: list[Write] = [
        DeleteObject(PODS, pod.metadata.key, pod.metadata.uid) for pod in pods if not _ending(pod)
    ]
    return Plan((Together(tuple(actions)),)) if actions else NOTHING


def _ending(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _create(view: View, index: int) -> CreateObject:
    job = view.job
    name = f"{job.metadata.name}-{index}"
    if Flaw.RANDOM_NAMES in view.flaws:
        name += f"-{view.suffix()}"
    fails = job.spec.fails[index] if index < len(job.spec.fails) else 0
    owner = {
        "apiVersion": TOY_JOBS.api_version,
        "kind": TOY_JOBS.kind,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
    }
    body: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": {
                JOB_LABEL: job.metadata.name,
                INDEX_LABEL: str(index),
                ATTEMPT_LABEL: str(job.status.restarts.get(str(index), 0)),
            },
            "annotations": {FAILS_ANNOTATION: str(fails)},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": "node-0", "containers": [{"name": "main", "image": "toy"}]},
    }
    return CreateObject(PODS, body)


def pod_key(job: ToyJob, index: int) -> Key:
    return Key(job.metadata.namespace, f"{job.metadata.name}-{index}")
