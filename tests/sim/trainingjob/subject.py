"""The TrainingJob operator as a simulated process, with planted flaws if so wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from enum import Flag, auto
from unittest.mock import patch

import msgspec

from swell.api.kinds import JOBS, POD_GROUPS, PODS, TRAINING_JOBS
from swell.api.meta import Key, Uid
from swell.api.trainingjob import (
    FINAL_PHASES,
    TrainingJob,
    TrainingJobPhase,
    TrainingJobStatus,
)
from swell.operator.framework.controller import JobOperator
from swell.operator.framework.kind import ControllerDependencies
from swell.operator.framework.orphans import LabelledObject, OrphanCollector
from swell.operator.trainingjob import (
    cleanup,
    departures,
    membership,
    recovery,
    sizes,
    suspension,
)
from swell.operator.trainingjob import decide as decide_module
from swell.operator.trainingjob.decide import decide
from swell.operator.trainingjob.kind import TrainingJobInformers, training_job_kind
from swell.operator.trainingjob.labels import (
    FINALIZER,
    ROLE_LABELS,
    Role,
    index_label,
    workload_name,
)
from swell.operator.trainingjob.settings import TrainingJobSettings
from swell.operator.trainingjob.snapshot import TrainingJobSnapshot
from swell.operator.trainingjob.suspension import release_steps
from swell.runtime.cluster import merge_patch
from swell.runtime.controller import Controller, Reconciler
from swell.runtime.plan import (
    NOTHING,
    CreateObject,
    DeleteObject,
    PatchObject,
    PatchStatus,
    Plan,
    Step,
    Together,
)
from swell.sim.process import BugMeter, Main, Ports
from tests.sim.planting import act_then_record, believe_lists, blind_status

RESTART_LIMIT = 2
SETTINGS = TrainingJobSettings(
    workers=2, restart_limit=RESTART_LIMIT, default_scheduler="nobody", gc_period_s=120.0
)


class Flaw(Flag):
    NONE = 0
    ACT_THEN_RECORD = auto()
    BLIND_STATUS = auto()  # status is written without the version it was computed from
    NOT_FINAL = auto()  # an end is judged anew at every look
    NAME_NOT_UID = auto()
    STALE_LIST = auto()
    EDGE_CLEANUP = auto()  # a job first seen being deleted is let go
    HASTY_CLEANUP = auto()  # the finalizer goes when the deletes are sent
    BLIND_SCALE = auto()  # the trainer Job is resized without the version that was seen
    INDEX_BY_PLACE = auto()  # pservers are numbered anew at every look
    TRUSTS_EMPTY = auto()  # a job without a status is taken for a new one
    FORGETS_END = auto()  # a lost status is rebuilt without a look at the mark of an end
    ADOPT_ALWAYS = auto()  # what the original controller left is collected without being asked
    ADOPT_OWNED = auto()  # its labels are enough, whoever owns the object
    ONE_QUEUE = auto()  # every group is in the default queue
    FORGETS_NUMBERS = auto()  # trainers are numbered by the pods that are there
    KEEPS_STOPPED = auto()  # a stopped job has ended, and its pods go on
    SUSPENDS_ON_EDGES = auto()  # everything goes in the pass that records it, and in no other
    SUSPENDS_UNRECORDED = auto()  # everything goes, and nothing says why
    HURRIES_SAVERS = auto()  # trainers that were asked to save are not waited for
    EXPIRES_EARLY = auto()  # a job that has ended is deleted at once
    KEEPS_EXPIRED = auto()  # and never
    BEGINS_EARLY = auto()  # a job does not wait for those that it comes after
    IGNORES_SCALE = auto()  # the scale subresource has no effect
    MINDS_OTHERS = auto()  # jobs of other managers are taken for ours
    GROWS_UNRECORDED = auto()  # a job that begins to run grows without a record


PLANTED: Mapping[str, Flaw] = {
    "trainingjob act then record": Flaw.ACT_THEN_RECORD | Flaw.BLIND_STATUS,
    # The recovery of statuses would find the mark of the end.
    "trainingjob end not final": Flaw.NOT_FINAL | Flaw.BLIND_STATUS | Flaw.TRUSTS_EMPTY,
    "trainingjob name instead of UID": Flaw.NAME_NOT_UID,
    "trainingjob stale list accepted": Flaw.STALE_LIST | Flaw.BLIND_STATUS,
    "trainingjob edge-triggered clean-up": Flaw.EDGE_CLEANUP,
    "trainingjob hasty clean-up": Flaw.HASTY_CLEANUP,
    "trainingjob blind resize": Flaw.BLIND_SCALE,
    "trainingjob index by place": Flaw.INDEX_BY_PLACE,
    "trainingjob takes a lost status for a new job": Flaw.TRUSTS_EMPTY,
    "trainingjob forgets how it ended": Flaw.FORGETS_END,
    "trainingjob collects what others own": Flaw.ADOPT_OWNED,
    "trainingjob ignores the queue": Flaw.ONE_QUEUE,
    "trainingjob forgets the numbers of trainers": Flaw.FORGETS_NUMBERS,
    "trainingjob suspends on edges": Flaw.SUSPENDS_ON_EDGES,
    "trainingjob suspends without a record": Flaw.SUSPENDS_UNRECORDED,
    "trainingjob hurries who is asked to save": Flaw.HURRIES_SAVERS,
    "trainingjob deletes jobs before their time": Flaw.EXPIRES_EARLY,
    "trainingjob keeps expired jobs": Flaw.KEEPS_EXPIRED,
    "trainingjob begins before others": Flaw.BEGINS_EARLY,
    "trainingjob ignores the scale subresource": Flaw.IGNORES_SCALE,
    "trainingjob minds the jobs of others": Flaw.MINDS_OTHERS,
}
PLANTED_IN_KEPT: Mapping[str, Flaw] = {
    "trainingjob collects unasked": Flaw.ADOPT_ALWAYS,
    "trainingjob keeps what is stopped": Flaw.KEEPS_STOPPED,
}
PLANTED_WITH_NATIVE_GROUPS: Mapping[str, Flaw] = {
    "trainingjob grows without a record": Flaw.GROWS_UNRECORDED,
}

# Bugs that only one scenario is likely to show.
FOCUS: Mapping[str, str] = {
    "trainingjob blind resize": "scale",
    "trainingjob index by place": "index",
    "trainingjob collects what others own": "adopt",
    "trainingjob collects unasked": "adopt",
    "trainingjob ignores the queue": "adopt",
    "trainingjob forgets the numbers of trainers": "train",
    "trainingjob keeps what is stopped": "stop",
    "trainingjob suspends on edges": "suspend",
    "trainingjob suspends without a record": "suspend",
    "trainingjob hurries who is asked to save": "suspend",
    "trainingjob deletes jobs before their time": "expire",
    "trainingjob keeps expired jobs": "expire",
    "trainingjob begins before others": "wishes",
    "trainingjob ignores the scale subresource": "wishes",
    "trainingjob minds the jobs of others": "expire",
    "trainingjob grows without a record": "train",
}


def operator_main(
    flaws: Flaw = Flaw.NONE,
    *,
    autoclean: bool = True,
    adopt_original: bool = True,
    gang_api: str = SETTINGS.gang_api,
) -> Main:
    async def main(ports: Ports) -> None:
        adopts = adopt_original or Flaw.ADOPT_ALWAYS in flaws
        settings = replace(SETTINGS, autoclean=autoclean, adopt_original=adopts, gang_api=gang_api)
        await _run(ports, flaws, settings)

    return main


def new_operator(
    ports: Ports, settings: TrainingJobSettings
) -> JobOperator[TrainingJob, TrainingJobSnapshot, TrainingJobInformers]:
    dependencies = ControllerDependencies(
        ports.cluster,
        ports.clock,
        ports.random,
        passes=BugMeter(),
        draw=lambda: f"{ports.random.getrandbits(256):064x}",
    )
    return JobOperator(training_job_kind(settings), dependencies)


async def _run(ports: Ports, flaws: Flaw, settings: TrainingJobSettings) -> None:
    operator = new_operator(ports, settings)
    informers = operator.informers
    followed = {
        "jobs": informers.jobs,
        "replica sets": informers.replica_sets,
        "batch jobs": informers.batch_jobs,
        "pods": informers.pods,
        "groups": informers.groups,
        "addresses": informers.addresses,
    }
    if Flaw.STALE_LIST in flaws:
        believe_lists(*followed.values())
    ports.exposed.update(followed)
    _plant(operator.controller, informers, flaws)
    if Flaw.MINDS_OTHERS in flaws:
        operator._kind = replace(operator._kind, manager_of=lambda _: "")
    if Flaw.ADOPT_OWNED in flaws:
        _adopt_owned(operator.collector)
    await asyncio.gather(*(service.run() for service in operator.services))


def _adopt_owned(collector: OrphanCollector) -> None:
    """Have owners overlooked in the lists that are made by the original controller's labels."""
    listed = collector._labelled

    async def without_owners(label: str, version: int) -> tuple[list[LabelledObject], int]:
        found, version = await listed(label, version)
        bare = [
            replace(one, metadata=msgspec.structs.replace(one.metadata, owner_references=()))
            for one in found
        ]
        return (bare if label in ROLE_LABELS.values() else found), version

    collector._labelled = without_owners  # type: ignore[method-assign]


def _plant(
    loop: Controller[TrainingJobSnapshot], informers: TrainingJobInformers, flaws: Flaw
) -> None:
    mutants = Mutants(informers, flaws, loop._reconciler)
    if flaws:
        loop._reconciler = Reconciler(mutants.take, mutants.decide, loop._reconciler.malformed)


class Mutants:
    """The work with flaws: what is seen, or what is decided, is bent a little."""

    def __init__(
        self, informers: TrainingJobInformers, flaws: Flaw, work: Reconciler[TrainingJobSnapshot]
    ) -> None:
        self._informers = informers
        self._flaws = flaws
        self._work = work
        self._seen_alive: set[Uid] = set()

    def take(self, key: Key) -> TrainingJobSnapshot | None:
        world = self._work.snapshot(key)
        if world is None:
            return None
        if world.job.metadata.deletion_timestamp is None:
            self._seen_alive.add(world.job.metadata.uid)
        if Flaw.NAME_NOT_UID in self._flaws:
            world = self._by_name(world, key)
        if Flaw.NOT_FINAL in self._flaws and world.job.status.phase in FINAL_PHASES:
            status = msgspec.structs.replace(world.job.status, phase=TrainingJobPhase.RUNNING)
            world = replace(world, job=msgspec.structs.replace(world.job, status=status))
        return world

    def decide(self, world: TrainingJobSnapshot, now: float) -> Plan:
        meta = world.job.metadata
        was_alive = meta.deletion_timestamp is None or meta.uid in self._seen_alive
        if Flaw.EDGE_CLEANUP in self._flaws and not was_alive:
            return NOTHING
        with ExitStack() as planted:
            for flaw, (module, name, instead) in _INSIDE.items():
                if flaw in self._flaws:
                    planted.enter_context(patch.object(module, name, instead))
            plan = decide(world, now)
        for flaw, bend in _BENDS.items():
            if flaw in self._flaws:
                plan = bend(world, plan)
        return plan

    def _by_name(self, world: TrainingJobSnapshot, key: Key) -> TrainingJobSnapshot:
        def at(role: Role) -> Key:
            return Key(key.namespace, workload_name(key.name, role))

        seen = self._informers
        return replace(
            world,
            pserver=seen.replica_sets.get(at(Role.PSERVER)),
            trainer=seen.batch_jobs.get(at(Role.TRAINER)),
        )


def _hasty_cleanup(world: TrainingJobSnapshot, plan: Plan) -> Plan:
    meta = world.job.metadata
    if meta.deletion_timestamp is None or FINALIZER not in meta.finalizers:
        return plan
    gone = world.trainer is None and world.pserver is None and world.master is None
    body = {"metadata": {"uid": meta.uid, "finalizers": None}}
    last = PatchObject(TRAINING_JOBS, meta.key, merge_patch(body))
    is_deleting = any(isinstance(action, DeleteObject) for action in plan.each_action())
    return plan if gone or not is_deleting else Plan((*plan.actions, last))


def _blind_scale(_: TrainingJobSnapshot, plan: Plan) -> Plan:
    def blind(step: Step) -> Step:
        if not isinstance(step, PatchObject) or str(step.resource) != str(JOBS):
            return step
        body = step.patch.body
        if not isinstance(body, dict):
            return step
        metadata = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
        return PatchObject(step.resource, step.key, merge_patch({**body, "metadata": metadata}))

    return replace(plan, actions=tuple(map(blind, plan.actions)))


def _index_by_place(world: TrainingJobSnapshot, plan: Plan) -> Plan:
    if world.job.status.phase is not TrainingJobPhase.RUNNING or not world.indexes_pservers:
        return plan
    label = index_label(world.job.metadata.name, Role.PSERVER)
    ordered = sorted(world.pservers, key=lambda pod: pod.metadata.name)
    numbered = tuple(
        PatchObject(
            PODS,
            pod.metadata.key,
            merge_patch({"metadata": {"uid": pod.metadata.uid, "labels": {label: str(index)}}}),
        )
        for index, pod in enumerate(ordered)
        if pod.metadata.labels.get(label) != str(index)
    )
    return replace(plan, actions=(*plan.actions, Together(numbered))) if numbered else plan


def _one_queue(_: TrainingJobSnapshot, plan: Plan) -> Plan:
    def moved(step: Step) -> Step:
        if not isinstance(step, CreateObject) or str(step.resource) != str(POD_GROUPS):
            return step
        spec = {**step.body["spec"], "queue": "default"}
        return CreateObject(step.resource, {**step.body, "spec": spec})

    return replace(plan, actions=tuple(map(moved, plan.actions)))


def _suspended_on_edges(world: TrainingJobSnapshot, now: float) -> list[Step]:
    return release_steps(world, now) if world.job.status.suspension is None else []


def _unrecorded(_: TrainingJobSnapshot, plan: Plan) -> Plan:
    def forget(step: Step) -> Step:
        if isinstance(step, PatchStatus) and step.status.get("suspension"):
            return replace(step, status={k: v for k, v in step.status.items() if k != "suspension"})
        return step

    return replace(plan, actions=tuple(map(forget, plan.actions)))


_with_record = sizes.with_record


def _recorded_unless_it_begins(
    world: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> TrainingJobStatus:
    was, is_now = world.job.status.phase, status.phase
    begins = was is TrainingJobPhase.CREATING and is_now is TrainingJobPhase.RUNNING
    return status if begins else _with_record(world, status, now)


_INSIDE: Mapping[Flaw, tuple[object, str, Callable[..., object]]] = {
    Flaw.TRUSTS_EMPTY: (decide_module, "recovered", lambda world, _: world),
    Flaw.KEEPS_STOPPED: (decide_module, "is_stopped", lambda _: False),
    Flaw.FORGETS_END: (recovery, "read_mark", lambda *_: None),
    Flaw.FORGETS_NUMBERS: (membership, "_read", lambda _: {}),
    Flaw.SUSPENDS_ON_EDGES: (suspension, "release_steps", _suspended_on_edges),
    Flaw.HURRIES_SAVERS: (departures, "_is_open", lambda *_: False),
    Flaw.EXPIRES_EARLY: (cleanup, "has_passed", lambda *_: True),
    Flaw.BEGINS_EARLY: (decide_module, "awaited", lambda *_: ""),
    Flaw.GROWS_UNRECORDED: (sizes, "with_record", _recorded_unless_it_begins),
    Flaw.IGNORES_SCALE: (sizes, "with_scale", lambda _, status, __: status),
    Flaw.KEEPS_EXPIRED: (decide_module, "plan_expiry", lambda _, steps, __: Plan(steps)),
}
_BENDS: Mapping[Flaw, Callable[[TrainingJobSnapshot, Plan], Plan]] = {
    Flaw.ACT_THEN_RECORD: lambda _, plan: act_then_record(plan),
    Flaw.BLIND_STATUS: lambda world, plan: blind_status(plan, uid=world.job.metadata.uid),
    Flaw.HASTY_CLEANUP: _hasty_cleanup,
    Flaw.BLIND_SCALE: _blind_scale,
    Flaw.INDEX_BY_PLACE: _index_by_place,
    Flaw.ONE_QUEUE: _one_queue,
    Flaw.SUSPENDS_UNRECORDED: _unrecorded,
}
