"""The bugs that can be planted in the operator. Each is planted in one that is put together.

A planted bug is a flaw together with the guard that is usually missing where it is made: alone,
the guards that are left hide some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec

from swell.api.aitrainingjob import (
    FINAL_PHASES,
    AITrainingJobPhase,
    AITrainingJobStatus,
    StragglerPolicy,
)
from swell.api.injection import RELEASE_ANNOTATION
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.operator.aitrainingjob import (
    causes,
    children,
    cleanup,
    decide,
    departures,
    exclusions,
    kueue_pods,
    recovery,
    restarts,
    sizes,
    status,
    suspension,
)
from swell.operator.aitrainingjob.causes import Cause
from swell.operator.aitrainingjob.instances import Instances
from swell.operator.aitrainingjob.kind import OWNED
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, Replica
from swell.operator.aitrainingjob.stragglers import straggler_cause
from swell.operator.framework import dependencies
from swell.operator.framework.fault_marks import NodeCensus
from swell.operator.framework.fencing import NodeState
from swell.runtime.cluster import Patch, merge_patch
from swell.runtime.controller import Reconciler
from swell.runtime.errors import NotFoundError
from swell.runtime.plan import (
    Action,
    DeleteObject,
    DeleteSecret,
    IssueSecret,
    PatchStatus,
    Plan,
    Step,
    Together,
    patch_object,
)
from tests.sim.operator.subject import Flaw, Operator
from tests.sim.planting import (
    act_then_record,
    believe_lists,
    blind_status,
    hide_malformed,
    trust_lost_answers,
)

suspension_release = suspension.release_actions
children_leaving = children._leaving
EPOCH_TIME = "2026-01-01T00:00:00Z"

Decide = Callable[[AITrainingJobSnapshot, float], Plan]


def _deciding(change: Callable[[Decide], Decide]) -> Flaw:
    """A flaw in what is decided."""

    def plant(operator: Operator) -> None:
        loop = operator.controller
        work = loop._reconciler
        loop._reconciler = Reconciler(work.snapshot, change(work.decide), work.malformed)

    return plant


def inside(target: object, name: str, instead: Callable[..., Any]) -> Flaw:
    """A flaw in one of the functions that decisions are made of."""

    def change(decide_: Decide) -> Decide:
        def decide_badly(seen: AITrainingJobSnapshot, now: float) -> Plan:
            with patch.object(target, name, instead):
                return decide_(seen, now)

        return decide_badly

    return _deciding(change)


def _planning(change: Callable[[AITrainingJobSnapshot, Plan], Plan]) -> Flaw:
    """A flaw in the plan as a whole."""

    def wrap(decide_: Decide) -> Decide:
        return lambda seen, now: change(seen, decide_(seen, now))

    return _deciding(wrap)


def all_of(*flaws: Flaw) -> Flaw:
    def plant(operator: Operator) -> None:
        for flaw in flaws:
            flaw(operator)

    return plant


def _act_then_record(_: AITrainingJobSnapshot, plan: Plan) -> Plan:
    return blind_status(act_then_record(plan))


def _blind_status(_: AITrainingJobSnapshot, plan: Plan) -> Plan:
    return blind_status(plan)


def _stale_lists(operator: Operator) -> None:
    believe_lists(operator.informers.jobs, operator.informers.pods)


def _ending_unrecorded(_: AITrainingJobSnapshot, plan: Plan) -> Plan:
    def forget(step: Step) -> Step:
        if (
            isinstance(step, PatchStatus)
            and step.status.get("phase") == AITrainingJobPhase.TERMINATING.value
        ):
            return replace(step, status={k: v for k, v in step.status.items() if k != "ending"})
        return step

    return replace(plan, actions=tuple(forget(step) for step in plan.actions))


def _names_for_uids(operator: Operator) -> None:
    """Pods belong to whoever has the owner's name; a lagging watch may then show another's."""
    pods = operator.informers.pods
    jobs = operator.informers.jobs

    def by_name(uid: Uid) -> Any:
        job = next((job for job in jobs.all() if job.metadata.uid == uid), None)
        return pods.by_index(OWNED.name, job.metadata.key) if job else ()

    pods.by_owner = by_name  # type: ignore[method-assign]


def _trust_lost_answers(operator: Operator) -> None:
    """A write without an answer is taken for one that did not happen, and caches for the truth."""
    uncertain = operator.controller._uncertain
    trust_lost_answers(uncertain)
    uncertain.mark = lambda owner: None  # type: ignore[method-assign]


def _deaf(operator: Operator) -> None:
    """Answers to writes do not reach the caches."""
    executor: Any = operator.controller._executor
    executor._informers = {}


def _edge_cleanup(operator: Operator) -> None:
    """Cleans up only after jobs that this very process has seen alive."""
    alive: set[Uid] = set()

    def change(decide_: Decide) -> Decide:
        def look(seen: AITrainingJobSnapshot, now: float) -> Plan:
            meta = seen.job.metadata
            if meta.deletion_timestamp is None:
                alive.add(meta.uid)
            return decide_(seen, now) if meta.uid in alive else Plan()

        return look

    _deciding(change)(operator)


def _not_final(decide_: Decide) -> Decide:
    """A job whose pods are gone is started, whatever its phase."""

    def look(seen: AITrainingJobSnapshot, now: float) -> Plan:
        if seen.job.status.phase in FINAL_PHASES and not seen.pods:
            status = msgspec.structs.replace(
                seen.job.status, phase=AITrainingJobPhase.RUNNING, ending=None
            )
            return decide_(_with_status(seen, status), now)
        return decide_(seen, now)

    return look


def _forgetful(decide_: Decide) -> Decide:
    """Restarts are counted where nobody remembers them."""

    def look(seen: AITrainingJobSnapshot, now: float) -> Plan:
        if seen.job.status.phase not in FINAL_PHASES and seen.job.status.restart is None:
            status = msgspec.structs.replace(seen.job.status, restart_counts={}, uncharged={})
            return decide_(_with_status(seen, status), now)
        return decide_(seen, now)

    return look


def _with_status(seen: AITrainingJobSnapshot, status: AITrainingJobStatus) -> AITrainingJobSnapshot:
    return replace(seen, job=msgspec.structs.replace(seen.job, status=status))


def _credulous_of_nodes(operator: Operator) -> None:
    """A node that the cache does not have is gone, and its pods with it."""
    watch, nodes = operator.nodes, operator.informers.nodes
    states = watch.states

    def believe(names: Iterable[str]) -> dict[str, NodeState]:
        asked = list(names)
        known = states(asked)
        for name in asked:
            if nodes.get(Key("", name)) is None:
                known[name] = NodeState(None)
        return known

    watch.states = believe  # type: ignore[method-assign]


def _with_deletes(plan: Plan, **changed: Any) -> Plan:
    """A plan with other deletes of pods."""

    def change(action: Action) -> Action:
        if isinstance(action, DeleteObject) and action.resource is PODS:
            return replace(action, **changed)
        return action

    steps = [
        replace(step, actions=tuple(map(change, step.actions)))
        if isinstance(step, Together)
        else change(step)
        for step in plan.actions
    ]
    return replace(plan, actions=tuple(steps))


def _impatient(_: AITrainingJobSnapshot, plan: Plan) -> Plan:
    """Every delete of a pod is forced."""
    return _with_deletes(plan, grace_s=0)


def _tenacious(_: AITrainingJobSnapshot, plan: Plan) -> Plan:
    """A plan is carried out to its end, however long that takes."""
    return _with_deletes(plan, within_s=None)


def _secrets_by_name(operator: Operator) -> None:
    """The secret that is there when a delete is applied is deleted, whichever it is."""
    executor: Any = operator.controller._executor

    async def delete(action: DeleteSecret) -> None:
        with suppress(NotFoundError):
            await executor._cluster.delete(action.resource, action.key)

    executor._delete_secret = delete


def _leaves_owners_alone(operator: Operator) -> None:
    """Nothing is written about a secret before it is replaced."""
    executor: Any = operator.controller._executor
    delete = executor._delete_secret
    executor._delete_secret = lambda action: delete(replace(action, owner=None))


def _records_at_any_time(operator: Operator) -> None:
    """The record of a secret is written over any other that has been written since."""
    executor: Any = operator.controller._executor
    cluster, blind = executor._cluster, copy(executor)

    async def patch_blindly(resource: Resource[object], key: Key, change: Patch) -> object:
        body: Any = change.body
        metadata = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
        return await cluster.patch(resource, key, merge_patch({**body, "metadata": metadata}))

    blind._cluster = SimpleNamespace(list=cluster.list, create=cluster.create, patch=patch_blindly)
    executor._issue = blind._issue


def _guesses_phases(decide_: Decide) -> Decide:
    """A pod whose status cannot be read is taken for one that has not begun."""
    return lambda seen, now: decide_(replace(seen, unread=frozenset()), now)


def _from_the_front(replica: Replica, status: AITrainingJobStatus) -> bool:
    """A role shrinks by its first pods."""
    sizes = [r.from_ for r in status.scale_records if r.role == replica.role]
    surplus = max(sizes, default=0) - status.target_replicas.get(replica.role, 0)
    return replica.index < surplus


def _let_go_first(seen: AITrainingJobSnapshot, plan: Plan) -> Plan:
    """The finalizer comes off before what it guards has gone."""
    meta = seen.job.metadata
    if meta.deletion_timestamp is None or not seen.pods:
        return plan
    body: Body = {"metadata": {"finalizers": []}}
    let_go = patch_object(AI_TRAINING_JOBS, meta.key, meta.uid, body)
    return replace(plan, actions=(*plan.actions, let_go))


def _sweep_by_memory(operator: Operator) -> None:
    """The garbage collector goes by the jobs that it found the first time."""
    collector: Any = operator.collector
    find = collector._list
    remembered: list[object] = []

    async def found(resource: object, label: str, after: int) -> object:
        if resource is not AI_TRAINING_JOBS:
            return await find(resource, label, after)
        if not remembered:
            remembered.append(await find(resource, label, after))
        return remembered[0]

    collector._list = found


def _starts_anew(seen: AITrainingJobSnapshot, _: float) -> AITrainingJobSnapshot:
    """A job whose status was lost begins at the beginning, beside the pods that it has."""
    if seen.job.status.phase is not AITrainingJobPhase.EMPTY or not seen.pods:
        return seen
    roles = {role: spec.size for role, spec in seen.roles.items()}
    fresh = AITrainingJobStatus(
        phase=AITrainingJobPhase.PENDING, target_replicas=roles, epoch=1, start_time=EPOCH_TIME
    )
    return replace(_with_status(seen, fresh), stored_status={})


def _knows_by_status(decide_: Decide) -> Decide:
    """What became of the jobs before one is kept nowhere but in its status."""

    def decide_badly(seen: AITrainingJobSnapshot, now: float) -> Plan:
        status = seen.job.status
        known = dependencies.noted(status.dependencies, seen.job.spec.after, seen.after)
        with patch.object(decide, "marked", lambda *_: known):
            return decide_(replace(seen, is_awaited=False), now)

    return decide_badly


def _unlimited(*_: object) -> int:
    return -1


# Any status is believed.
_CREDULOUS = inside(decide, "recovered", lambda seen, _: seen)


def _blind(operator: Operator) -> None:
    """An object that cannot be decoded is taken for one that does not exist."""
    for informer in (operator.informers.pods, operator.informers.nodes):
        hide_malformed(informer)


def _secret_last(_: AITrainingJobSnapshot, plan: Plan) -> Plan:
    """Pods are created before the secret that they mount."""
    secrets = [step for step in plan.actions if isinstance(step, IssueSecret | DeleteSecret)]
    others = [step for step in plan.actions if not isinstance(step, IssueSecret | DeleteSecret)]
    return replace(plan, actions=(*others, *secrets))


def _first_number(
    seen: AITrainingJobSnapshot, status: AITrainingJobStatus, *_: object
) -> Instances | None:
    """Every pod at an index is the first."""
    sizes = {role: status.target_replicas.get(role, 0) for role in seen.roles}
    return Instances({role: (1,) * n for role, n in sizes.items()}) if seen.is_training else None


def _numbers_by_memory(operator: Operator) -> None:
    """Numbers are kept by the process, which counts from the beginning when it starts."""
    counted: dict[tuple[Uid, str, int], int] = {}

    def count(
        seen: AITrainingJobSnapshot,
        status: AITrainingJobStatus,
        wanted: Iterable[tuple[str, int]],
        _: float,
    ) -> Instances | None:
        if not seen.is_training:
            return None
        uid = seen.job.metadata.uid
        for role, index in wanted:
            counted[uid, role, index] = counted.get((uid, role, index), 0) + 1
        sizes = {role: range(status.target_replicas.get(role, 0)) for role in seen.roles}
        return Instances(
            {role: tuple(counted.get((uid, role, i), 1) for i in n) for role, n in sizes.items()}
        )

    inside(children, "raised_instances", count)(operator)


def _report_often(operator: Operator) -> None:
    """Programs are asked all the time, and every report is written."""
    puller: Any = operator.reports
    puller._interval_s = lambda _: 1.0
    inside(status, "_put_off", lambda *_: None)(operator)


def _suspends_unrecorded(_: AITrainingJobSnapshot, plan: Plan) -> Plan:
    """The pods of a suspended job go, and nothing says why."""

    def forget(step: Step) -> Step:
        if isinstance(step, PatchStatus) and step.status.get("suspension"):
            return replace(step, status={k: v for k, v in step.status.items() if k != "suspension"})
        return step

    return replace(plan, actions=tuple(forget(step) for step in plan.actions))


def _suspends_on_edges(
    seen: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> list[Action]:
    """Pods are deleted in the pass that records the suspension, and in no other."""
    is_new = seen.job.status.suspension is None
    return suspension_release(seen, status, now) if is_new else []


def _asks_everybody(
    seen: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> list[tuple[Replica, str]]:
    """Whenever a pod has to go, its peers are asked to leave as well."""
    leaving = children_leaving(seen, status)
    return [(one, "oh") for one in seen.replicas] if leaving else []


def _no_deadline(pod: Pod) -> float | None:
    """A pod that was asked to save is waited for until it answers."""
    return 1e12 if RELEASE_ANNOTATION in pod.metadata.annotations else None


def _keeps_the_group(
    seen: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> list[Action]:
    """A suspended job goes on asking for room."""
    return suspension_release(replace(seen, group=None), status, now)


def _minds_everybody(operator: Operator) -> None:
    """Jobs of other managers are taken for ours."""
    part: Any = operator
    part._kind = replace(part._kind, manager_of=lambda _: "")


def _taints_every_suspect(operator: Operator) -> None:
    """Suspects are tainted however many there are."""

    async def count(_: int) -> NodeCensus:
        return NodeCensus(1000, 0)

    keeper: Any = operator.faults
    keeper._census = count


def _marks_once(operator: Operator) -> None:
    """A fault counts as marked when it was first seen."""
    keeper: Any = operator.faults
    seen: set[tuple[str, str, int]] = set()
    is_new = keeper._new_marks

    def is_unseen(node: Any, job: Any) -> bool:
        fault = (node.metadata.name, job.metadata.uid, len(job.status.node_faults))
        is_known = fault in seen
        seen.add(fault)
        return not is_known and is_new(node, job)

    keeper._new_marks = is_unseen
    keeper._queue.retry = lambda *_: 0.0


def _moves_every_straggler(
    seen: AITrainingJobSnapshot, held: AITrainingJobStatus, now: float
) -> list[Cause]:
    """Stragglers are moved, whatever their job says."""
    spec = msgspec.structs.replace(seen.job.spec, straggler_policy=StragglerPolicy.REPLACE)
    asked = replace(
        seen,
        job=msgspec.structs.replace(seen.job, spec=spec),
        has_alternative=frozenset(seen.roles),
    )
    return list(straggler_cause(asked, held, now))


def _asks_at_once(decide_: Decide) -> Decide:
    """Pods that were refused are asked for whenever the job is looked at."""
    return lambda seen, now: decide_(replace(seen, no_pods_before=0.0), now)


PLANTED: Mapping[str, Flaw] = {
    "operator restarts in a mass failure": inside(decide, "not_held", lambda found, _: found),
    "operator asks for refused pods at once": _deciding(_asks_at_once),
    "operator begins before others": inside(decide, "awaited", lambda *_: ""),
    "operator ignores the scale subresource": inside(
        sizes, "_asked", lambda _seen, _role, spec: max(spec.minimum, min(spec.size, spec.maximum))
    ),
    "operator takes hangs for failures": inside(causes, "_has_hung", lambda _: False),
    "operator takes every failure for a hang": inside(causes, "_has_hung", lambda _: True),
    "operator keeps pods that exclude all nodes": inside(
        decide, "exclusion_causes", lambda *_: iter(())
    ),
    "operator makes pods anew that must exclude nodes": inside(
        exclusions, "avoided_nodes", lambda *_: ([], [])
    ),
    "operator moves every straggler": inside(decide, "straggler_cause", _moves_every_straggler),
    "operator taints every suspect": _taints_every_suspect,
    "operator marks nodes once": _marks_once,
    "operator acts then records": _planning(_act_then_record),
    "operator takes names for UIDs": all_of(_names_for_uids, _stale_lists),
    "operator accepts stale lists": all_of(_stale_lists, _planning(_blind_status)),
    "operator takes unknown for failed": all_of(_trust_lost_answers, _deaf),
    "operator cleans up on edges": _edge_cleanup,
    # The recovery of statuses would find what these two overlook.
    "operator revives finished jobs": all_of(
        _CREDULOUS, _deciding(_not_final), _planning(_blind_status)
    ),
    "operator forgets restarts": all_of(_CREDULOUS, _deciding(_forgetful)),
    "operator ends without a record": _planning(_ending_unrecorded),
    "operator takes unseen nodes for gone": _credulous_of_nodes,
    "operator forces every delete": _planning(_impatient),
    "operator finishes old plans": _planning(_tenacious),
    "operator deletes secrets by name": _secrets_by_name,
    "operator replaces secrets of an unchanged job": _leaves_owners_alone,
    "operator records secrets at any time": _records_at_any_time,
    "operator guesses phases": _deciding(_guesses_phases),
    "operator keeps expired jobs": inside(cleanup, "plan_expiry", lambda _, steps, __: Plan(steps)),
    "operator shrinks from the front": inside(children, "is_surplus", _from_the_front),
    "operator keeps the epoch": inside(decide, "with_epoch", lambda _w, status, _m: status),
    "operator lets go first": _planning(_let_go_first),
    "operator sweeps by an old list of jobs": _sweep_by_memory,
    "operator ignores limits": inside(restarts, "_charged", _unlimited),
    "operator starts lost jobs anew": inside(decide, "recovered", _starts_anew),
    "operator forgets how others ended": _deciding(_knows_by_status),
    "operator forgets how jobs ended": inside(recovery, "read_mark", lambda *_: None),
    "operator believes any status": _CREDULOUS,
    "operator takes the undecodable for absent": _blind,
    "operator creates pods before their secret": _planning(_secret_last),
    "operator does not raise instances": inside(children, "raised_instances", _first_number),
    "operator counts instances in memory": _numbers_by_memory,
    "operator writes every report": _report_often,
    "operator suspends without a record": _planning(_suspends_unrecorded),
    "operator suspends on edges": inside(suspension, "release_actions", _suspends_on_edges),
    "operator deletes who is asked to save": inside(
        departures, "_may_save", lambda one, _: not one.is_released and one.is_bound
    ),
    "operator asks without a reason": inside(children, "_leaving", _asks_everybody),
    "operator waits for ever": inside(departures, "release_deadline", _no_deadline),
    "operator deletes jobs before their time": inside(cleanup, "has_passed", lambda *_: True),
    "operator minds the jobs of others": _minds_everybody,
    "operator keeps the group of suspended jobs": inside(
        suspension, "release_actions", _keeps_the_group
    ),
    "operator leaves what Kueue holds": inside(decide, "undone_holds", lambda _: []),
    "operator takes running pods from Kueue": inside(
        kueue_pods, "_has_left", lambda pod: pod.metadata.deletion_timestamp is not None
    ),
    "operator shrinks before a holder stays": inside(decide, "kept", lambda held, _: held),
}
