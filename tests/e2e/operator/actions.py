"""Steps that act on a job: as its user, as its pods, as its nodes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from swell.api.injection import SAVED_ANNOTATION, EvictionRecord
from swell.api.kinds import AI_TRAINING_JOBS, NODES, PODS
from swell.api.meta import Body, Key
from swell.api.pod import PodPhase
from swell.api.saving import eviction_note
from swell.node.hollow import PREFIX
from swell.node.nodes import SIMULATE_LOSS, UNREACHABLE
from swell.runtime.cluster import Deletion, Patch, PatchKind, merge_patch
from swell.runtime.errors import ConflictError, NotFoundError
from tests.e2e.operator.scenario import Step, Trial

LONG_AGO = "2024-01-01T00:00:00Z"


# -- pods --------------------------------------------------------------------------------------


def ends(*names: str, code: int = 0, also: Mapping[str, int] | None = None) -> Step:
    """Running pods end, with this exit code; `also` others at the same time, with theirs."""
    codes = {**dict.fromkeys(names, code), **(also or {})}

    async def act(trial: Trial) -> None:
        for name in codes:
            await _until_running(trial, name)
        for name, own in codes.items():
            said = {"duration": "0", "exit-code": str(own)}
            change = {"metadata": {"annotations": {PREFIX + k: v for k, v in said.items()}}}
            await trial.cluster.patch(PODS, trial.pod_key(name), merge_patch(change))

    return Step(f"{', '.join(names)} ends with {code}", act)


def somebody_deletes(*names: str) -> Step:
    """A pod is deleted by somebody who is not the operator."""

    async def act(trial: Trial) -> None:
        for name in names:
            await trial.cluster.delete(PODS, trial.pod_key(name), Deletion())

    return Step(f"somebody deletes {', '.join(names)}", act)


def is_disrupted(name: str) -> Step:
    """A pod fails because its node wanted to be rid of it."""

    async def act(trial: Trial) -> None:
        await _until_running(trial, name)
        await _disrupt(trial, name, {"phase": "Failed", "reason": "Evicted"})

    return Step(f"{name} is disrupted", act)


def is_evicted(name: str) -> Step:
    """A pod is marked and then deleted, as by whoever needs its place."""

    async def act(trial: Trial) -> None:
        await _until_running(trial, name)
        await _disrupt(trial, name, {})
        await trial.cluster.delete(PODS, trial.pod_key(name), Deletion())

    return Step(f"{name} is evicted", act)


# -- nodes -------------------------------------------------------------------------------------


def loses_node(name: str) -> Step:
    """The node of a pod falls silent, and what a node lifecycle controller does follows."""

    async def act(trial: Trial) -> None:
        await _until_running(trial, name)
        node = await _node_of(trial, name)
        dead = {"metadata": {"annotations": {SIMULATE_LOSS: "true"}}}
        await trial.cluster.patch(NODES, node, merge_patch(dead))
        await _set_condition(trial, node, "Ready", "Unknown")
        await _taint(trial, node, UNREACHABLE)

    return Step(f"the node of {name} falls silent", act)


def node_is_deleted(name: str) -> Step:
    """The node of a pod is taken out of the cluster."""

    async def act(trial: Trial) -> None:
        await _until_running(trial, name)
        node = await _node_of(trial, name)
        dead = {"metadata": {"annotations": {SIMULATE_LOSS: "true"}}}
        await trial.cluster.patch(NODES, node, merge_patch(dead))
        await trial.cluster.delete(NODES, node, Deletion())

    return Step(f"the node of {name} is deleted", act)


def node_reports(name: str, condition: str, status: str = "True", reason: str = "Told") -> Step:
    """The node of a pod gets a condition."""

    async def act(trial: Trial) -> None:
        await _set_condition(trial, await _node_of(trial, name), condition, status, reason)

    return Step(f"the node of {name} reports {condition}={status}:{reason}", act)


def node_flaps(name: str, condition: str, times: int, every_s: float) -> Step:
    """A condition of a pod's node becomes true and false again, so many times."""

    async def act(trial: Trial) -> None:
        node = await _node_of(trial, name)
        for _ in range(times):
            for status in ("True", "False"):
                await _set_condition(trial, node, condition, status)
                await asyncio.sleep(every_s)

    return Step(f"{condition} comes and goes on the node of {name}", act)


def device_is_unhealthy(name: str, resource: str) -> Step:
    """The kubelet says of a device that a pod has that it is broken."""

    async def act(trial: Trial) -> None:
        await _until_running(trial, name)
        key = trial.pod_key(name)
        found = await trial.cluster.get(PODS.untyped(), key)
        broken = {"resourceID": "GPU-3", "health": "Unhealthy"}
        containers = [
            {**one, "allocatedResourcesStatus": [{"name": resource, "resources": [broken]}]}
            for one in found["status"]["containerStatuses"]
        ]
        body = {"status": {"containerStatuses": containers}}
        await trial.cluster.patch(PODS.status, key, merge_patch(body))

    return Step(f"the kubelet says that a device of {name} is unhealthy", act)


def node_is_tainted(name: str, taint: str) -> Step:
    """The node of a pod gets a taint."""

    async def act(trial: Trial) -> None:
        await _taint(trial, await _node_of(trial, name), taint)

    return Step(f"the node of {name} is tainted {taint}", act)


# -- users -------------------------------------------------------------------------------------


def annotates(key: str, value: str) -> Step:
    async def act(trial: Trial) -> None:
        await change_job(trial, {"metadata": {"annotations": {key: value}}})

    return Step(f"somebody annotates the job {key}={value}", act)


def labels_job(labels: Mapping[str, str]) -> Step:
    async def act(trial: Trial) -> None:
        await change_job(trial, {"metadata": {"labels": dict(labels)}})

    return Step(f"somebody labels the job {labels}", act)


def changes(spec: Mapping[str, object]) -> Step:
    """A change of the spec that is accepted."""

    async def act(trial: Trial) -> None:
        await change_job(trial, {"spec": dict(spec)})

    return Step(f"somebody changes the spec: {spec}", act)


def scales(role: str, replicas: int) -> Step:
    return changes({"replicaSpecs": {role: {"replicas": replicas}}})


def sets_target(role: str, target: int) -> Step:
    """What the autoscaler does: one patch of the status, with the version it was decided on."""

    async def act(trial: Trial) -> None:
        async def write() -> None:
            held = await trial.cluster.get(AI_TRAINING_JOBS.untyped(), trial.key)
            status = held["status"]
            record = {
                "time": LONG_AGO,
                "role": role,
                "from": status["targetReplicas"][role],
                "to": target,
                "by": "autoscaler",
                "reason": "room",
                "for": "",
            }
            body: Body = {
                "metadata": {"resourceVersion": held["metadata"]["resourceVersion"]},
                "status": {
                    "targetReplicas": {role: target},
                    "scaleRecords": [*status.get("scaleRecords", []), record],
                },
            }
            await trial.cluster.patch(AI_TRAINING_JOBS.status, trial.key, merge_patch(body))

        await _despite_conflicts(write)

    return Step(f"the autoscaler sets the target of {role} to {target}", act)


def scales_by_subresource(replicas: int) -> Step:
    """What kubectl scale and a HorizontalPodAutoscaler do."""

    async def act(trial: Trial) -> None:
        scale = AI_TRAINING_JOBS.untyped().sub("scale", dict)
        body = merge_patch({"spec": {"replicas": replicas}})
        await trial.cluster.patch(scale, trial.key, body)

    return Step(f"somebody scales it to {replicas} by its subresource", act)


def answers(name: str) -> Step:
    """The program of a pod has saved, as its node hands on."""

    async def act(trial: Trial) -> None:
        await _annotate(trial, name, {SAVED_ANNOTATION: "saved"})

    return Step(f"{name} has saved", act)


def is_to_make_room(name: str) -> Step:
    """The scheduler leaves a victim to the operator."""

    async def act(trial: Trial) -> None:
        await _until_running(trial, name)
        record = EvictionRecord(trial.pod(name).metadata.uid, "default/big", LONG_AGO)
        await _annotate(trial, name, eviction_note(record))

    return Step(f"{name} is to make room", act)


async def _annotate(trial: Trial, name: str, notes: Mapping[str, str]) -> None:
    change = {"metadata": {"annotations": dict(notes)}}
    await trial.cluster.patch(PODS, trial.pod_key(name), merge_patch(change))


def deletes_job() -> Step:
    async def act(trial: Trial) -> None:
        await trial.cluster.delete(AI_TRAINING_JOBS, trial.key, Deletion())

    return Step("somebody deletes the job", act)


def tears_job_away() -> Step:
    """Somebody who cannot wait removes the finalizer: the object is gone, its pods are not."""

    async def act(trial: Trial) -> None:
        await trial.cluster.delete(AI_TRAINING_JOBS, trial.key, Deletion())
        with contextlib.suppress(NotFoundError):
            await change_job(trial, {"metadata": {"finalizers": None}})
        await trial.until(lambda: trial.observer.job(trial.name) is None, "the job is gone")

    return Step("somebody tears the job away", act)


def submits(spec: Body) -> Step:
    """A job of the same name again."""

    async def act(trial: Trial) -> None:
        await trial.submit(spec)

    return Step("somebody submits a job of the same name", act)


def others_run(spec: Body, *names: str) -> Step:
    """More jobs run beside it, on its own nodes."""

    async def act(trial: Trial) -> None:
        for name in names:
            other = replace(trial, name=f"{trial.name}-{name}", uids={}, others={})
            trial.others[name] = other
            await other.submit(spec)
        for other in trial.others.values():
            await _until_running(other, "a-0")

    return Step(f"{', '.join(names)} run beside it", act)


def waits(seconds: float) -> Step:
    async def act(_: Trial) -> None:
        await asyncio.sleep(seconds)

    return Step(f"{seconds} s pass", act)


async def change_job(trial: Trial, change: Body) -> None:
    await trial.cluster.patch(AI_TRAINING_JOBS, trial.key, merge_patch(change))


async def _until_running(trial: Trial, name: str) -> None:
    def holds() -> bool:
        pod = trial.pods().get(name)
        return (
            pod is not None
            and pod.status.phase is PodPhase.RUNNING
            and pod.metadata.deletion_timestamp is None
        )

    await trial.until(holds, f"{name} runs")


async def _disrupt(trial: Trial, name: str, status: Body) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": LONG_AGO}
    patch = Patch(PatchKind.STRATEGIC, {"status": {**status, "conditions": [condition]}})
    await trial.cluster.patch(PODS.status, trial.pod_key(name), patch)


async def _node_of(trial: Trial, name: str) -> Key:
    def node() -> str:
        pod = trial.pods().get(name)
        return pod.spec.node_name if pod else ""

    await trial.until(lambda: bool(node()), f"{name} has a node")
    return Key("", node())


async def _set_condition(
    trial: Trial, node: Key, kind: str, status: str, reason: str = "Told"
) -> None:
    condition = {"type": kind, "status": status, "lastTransitionTime": LONG_AGO, "reason": reason}
    patch = Patch(PatchKind.STRATEGIC, {"status": {"conditions": [condition]}})
    await trial.cluster.patch(NODES.status, node, patch)


async def _taint(trial: Trial, node: Key, key: str) -> None:
    patch = Patch(PatchKind.STRATEGIC, {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}})
    await trial.cluster.patch(NODES, node, patch)


async def _despite_conflicts(write: Callable[[], Awaitable[None]]) -> None:
    for _ in range(20):
        try:
            return await write()
        except ConflictError:
            continue
    raise AssertionError("twenty conflicts in a row")
