"""Bugs planted in the autoscaler: rules that are not kept must be found out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from msgspec import structs

from swell.api.meta import Key
from swell.api.scheduling import PodGroup, Queue
from swell.autoscaler.cluster_resource import AutoscalerSnapshot, IntArray
from swell.autoscaler.controller import Autoscaler
from swell.autoscaler.goodput.evidence import SpeedEvidence
from swell.autoscaler.job_state import ReplicaCount, RoleState, tally
from swell.autoscaler.needs import NO_POD_LIMIT
from swell.autoscaler.policies.dry_run import scale_all_jobs_dry_run
from swell.autoscaler.policies.fulfillment import (
    find_jobs_that_might_be_rescheduled,
    fulfill,
    fulfillment,
    set_targets,
)
from swell.autoscaler.policies.interface import Parameters, RoleTargets, SizeReason
from swell.autoscaler.policies.pools import Pools
from swell.autoscaler.policies.room import Room
from swell.autoscaler.policies.sized_roles import WantedSizes
from swell.autoscaler.policies.waiting import WaitingPlan
from swell.autoscaler.status import SizeChange, decide_write
from swell.autoscaler.views import AutoscalerJob, JobId
from swell.runtime.controller import Reconciler
from swell.runtime.plan import Plan

DEPARTMENT = "department"  # the queue above those of the teams
# Plants a bug in an autoscaler that has been put together and does not run yet.
Flaw = Callable[[Autoscaler], None]


def forgets_bounds(autoscaler: Autoscaler) -> None:
    """Grows by more than was decided."""
    propose = autoscaler._propose

    def propose_more(targets: RoleTargets, now: float) -> None:
        more = {i: replace(t, target=t.target + 3 * (t.delta > 0)) for i, t in targets.items()}
        propose(more, now)

    autoscaler._propose = propose_more  # type: ignore[method-assign]


def never_cools_down(autoscaler: Autoscaler) -> None:
    autoscaler._memory._cooldown_s = 0.0


def ignores_load(autoscaler: Autoscaler) -> None:
    """Takes the cluster for twice as large as it is."""
    parameters = Parameters(Fraction(2))
    autoscaler._settings = replace(autoscaler._settings, parameters=parameters)


def writes_on_any_version(autoscaler: Autoscaler) -> None:
    """Writes what it decided about a job that has changed since."""
    for kind, writer in autoscaler._writers.items():
        owners = writer._owners

        def take(key: Key, owners: object = owners, kind: str = kind) -> SizeChange | None:
            job = owners.get(key)  # type: ignore[attr-defined]
            found = [p for i, p in autoscaler._proposals.items() if (i.key, i.kind) == (key, kind)]
            return SizeChange(job, found[0] if found else None) if job else None

        def decide(change: SizeChange, now: float) -> Plan:
            if change.proposal is None or change.job.status.phase.value == "":
                return Plan()
            version = change.job.metadata.resource_version
            return decide_write(
                SizeChange(change.job, replace(change.proposal, version=version)), now
            )

        writer._reconciler = Reconciler(take, decide)


def hopes_in_vain(autoscaler: Autoscaler) -> None:
    """Makes room for jobs that cannot start."""
    ledger = autoscaler._ledger
    count = ledger._job_counts

    def count_hopeless(job: JobId) -> tuple[ReplicaCount, ...]:
        counts = count(job)
        state = ledger._states.get(job)
        if state is None or not state.is_hopeless:
            return counts
        ledger._states[job] = replace(state, is_pending=True, is_hopeless=False)
        pods = [pod for role in state.roles for pod in role.pods]
        return tally(state.view, pods, ledger._is_counted).counts

    ledger._job_counts = count_hopeless  # type: ignore[method-assign]
    # Whether a gang can start is tried once more before anything shrinks for it: that is left out.
    shrinks_for_the_hopeless(autoscaler)


def forgets_the_missing(autoscaler: Autoscaler) -> None:
    """Shrinks a role as far as is wanted, whichever of its pods are missing."""
    propose = autoscaler._propose

    def propose_wanted(targets: RoleTargets, now: float) -> None:
        snapshot, settings = autoscaler._ledger.snapshot(), autoscaler._settings
        wanted = fulfillment(snapshot.jobs, snapshot.cluster, settings.parameters)
        is_spared = SizeReason.PODS_MISSING
        propose({i: wanted[i] if t.reason is is_spared else t for i, t in targets.items()}, now)

    autoscaler._propose = propose_wanted  # type: ignore[method-assign]


def ignores_ancestors(autoscaler: Autoscaler) -> None:
    """Knows the limits of the queues that jobs are in, and none of those above."""
    ledger = autoscaler._ledger
    put = ledger.put_queue

    def put_unlimited(queue: Queue, *, is_unreadable: bool = False) -> None:
        is_above = queue.metadata.name == DEPARTMENT
        spec = structs.replace(queue.spec, capability={}) if is_above else queue.spec
        put(structs.replace(queue, spec=spec), is_unreadable=is_unreadable)

    ledger.put_queue = put_unlimited  # type: ignore[method-assign]


def shrinks_for_the_hopeless(autoscaler: Autoscaler) -> None:
    """Makes room by amounts alone, whether the waiting gang can start with it or not."""
    propose = autoscaler._propose

    def propose_by_amounts(targets: RoleTargets, now: float) -> None:
        snapshot, settings = autoscaler._ledger.snapshot(), autoscaler._settings
        jobs = snapshot.jobs
        room = Room(snapshot.cluster, settings.parameters.max_load)
        pending = [job.view.id for job in jobs if job.is_pending]
        roles = find_jobs_that_might_be_rescheduled(jobs, have_pending=bool(pending))
        deltas = scale_all_jobs_dry_run(roles, room)
        wanted = set_targets(jobs, roles, deltas, room, WaitingPlan(order=pending))
        propose({i: wanted[i] if wanted[i].delta < 0 else t for i, t in targets.items()}, now)

    autoscaler._propose = propose_by_amounts  # type: ignore[method-assign]


def counts_no_pods(autoscaler: Autoscaler) -> None:
    """Takes every node for one that has room for any number of pods."""
    ledger = autoscaler._ledger

    def endless() -> IntArray:
        return np.full(len(ledger._counted_nodes.nodes), NO_POD_LIMIT, np.int64)

    ledger._pod_slots = endless  # type: ignore[method-assign]


def raises_at_once(autoscaler: Autoscaler) -> None:
    """Raises roles to what is worth most, however short ago they shrank."""
    propose = autoscaler._propose

    def propose_early(targets: RoleTargets, now: float) -> None:
        snapshot, settings = autoscaler._ledger.snapshot(), autoscaler._settings
        parameters = replace(settings.parameters, now=now)
        pools = Pools(snapshot.cluster, snapshot.cluster.gpu_resources, parameters.max_load)
        sizing = WantedSizes(snapshot.jobs, snapshot.cluster, pools, parameters)
        found = sizing.choose({})
        sizes = {id_: one.size for id_, one in found.items()}
        wanted = fulfill(snapshot.jobs, snapshot.cluster, parameters, sizes)
        propose({i: wanted[i] if wanted[i].delta > 0 else t for i, t in targets.items()}, now)

    autoscaler._propose = propose_early  # type: ignore[method-assign]


def oscillates(autoscaler: Autoscaler) -> None:
    """Takes one replica back from every role that has the size that is worth most."""
    propose = autoscaler._propose

    def propose_back(targets: RoleTargets, now: float) -> None:
        less = {
            i: replace(t, target=t.current - 1) if not t.delta and t.current > 1 else t
            for i, t in targets.items()
        }
        propose(less, now)

    autoscaler._propose = propose_back  # type: ignore[method-assign]


def believes_the_absurd(autoscaler: Autoscaler) -> None:
    """Takes every number of a report for what it says."""

    def speed_of(view: AutoscalerJob) -> SpeedEvidence | None:
        job = autoscaler._informers.jobs.get(view.id.key)
        told = job.status.training if job is not None else None
        if told is None or told.total_samples is None:
            return view.speed
        rates = sorted((int(size), float(rate)) for size, rate in told.rates.items())
        return SpeedEvidence(tuple(rates), float(told.samples), float(told.total_samples))

    _with_speeds(autoscaler, speed_of)


def believes_the_dead(autoscaler: Autoscaler) -> None:
    """Takes the report of an earlier job for that of one with the same name and another UID."""
    last: dict[JobId, SpeedEvidence] = {}

    def speed_of(view: AutoscalerJob) -> SpeedEvidence | None:
        if view.speed is not None:
            last[view.id] = view.speed
        return view.speed or last.get(view.id)

    _with_speeds(autoscaler, speed_of)


def _with_speeds(
    autoscaler: Autoscaler, speed_of: Callable[[AutoscalerJob], SpeedEvidence | None]
) -> None:
    ledger = autoscaler._ledger
    take = ledger.snapshot

    def snapshot() -> AutoscalerSnapshot:
        seen = take()
        jobs = (replace(j, view=replace(j.view, speed=speed_of(j.view))) for j in seen.jobs)
        return replace(seen, jobs=tuple(jobs))

    ledger.snapshot = snapshot  # type: ignore[method-assign]


def starves_long_jobs(autoscaler: Autoscaler) -> None:
    """Has jobs that need much wait until others have ended: nobody shrinks for them."""
    propose = autoscaler._propose

    def propose_others(targets: RoleTargets, now: float) -> None:
        propose(
            {
                id_: replace(one, target=one.current)
                if one.delta < 0 and one.reason is SizeReason.PENDING_JOB
                else one
                for id_, one in targets.items()
            },
            now,
        )

    autoscaler._propose = propose_others  # type: ignore[method-assign]


def stops_what_saves_nothing(autoscaler: Autoscaler) -> None:
    """Takes every job for one that loses nothing when it is stopped."""
    ledger = autoscaler._ledger
    take = ledger.snapshot

    def snapshot() -> AutoscalerSnapshot:
        seen = take()
        jobs = (replace(j, view=replace(j.view, may_yield=True)) for j in seen.jobs)
        return replace(seen, jobs=tuple(jobs))

    ledger.snapshot = snapshot  # type: ignore[method-assign]


def forgets_the_stopped(autoscaler: Autoscaler) -> None:
    """Stops jobs for as long as nobody else needs their devices, and lets none go on."""
    parameters = replace(autoscaler._settings.parameters, starve_after_s=1e7)
    autoscaler._settings = replace(autoscaler._settings, parameters=parameters)


def stops_at_once(autoscaler: Autoscaler) -> None:
    """Takes the time since the job was created for that of its turn."""
    ledger = autoscaler._ledger
    take = ledger.snapshot

    def snapshot() -> AutoscalerSnapshot:
        seen = take()
        jobs = (replace(job, roles=tuple(map(_long_there, job.roles))) for job in seen.jobs)
        return replace(seen, jobs=tuple(jobs))

    ledger.snapshot = snapshot  # type: ignore[method-assign]


def despairs_of_a_full_cluster(autoscaler: Autoscaler) -> None:
    """Takes jobs that the scheduler does not admit to a full cluster for ones that never start."""
    ledger = autoscaler._ledger
    put = ledger.put_group

    def put_refused(group: PodGroup, *, is_unreadable: bool = False) -> None:
        put(group, is_unreadable=is_unreadable)
        if any(c.status == "True" and c.reason == "ClusterFull" for c in group.status.conditions):
            ledger._refuse(group.metadata.key, True)

    ledger.put_group = put_refused  # type: ignore[method-assign]


def _long_there(state: RoleState) -> RoleState:
    return replace(state, pods=tuple(replace(pod, created_at=0.0) for pod in state.pods))


PLANTED_BY_GOODPUT: Mapping[str, Flaw] = MappingProxyType(
    {
        "autoscaler raises at once": raises_at_once,
        "goodput raises above the allowance of queues": ignores_ancestors,
        "goodput oscillates between two sizes": oscillates,
        "goodput starves a long job": starves_long_jobs,
        "goodput believes the report of another UID": believes_the_dead,
        "goodput believes absurd reports": believes_the_absurd,
        "goodput stops what saves nothing": stops_what_saves_nothing,
        "goodput forgets the stopped": forgets_the_stopped,
        "goodput stops at once": stops_at_once,
        "goodput despairs of a full cluster": despairs_of_a_full_cluster,
    }
)
PLANTED_AMONG_TRAINERS: Mapping[str, Flaw] = MappingProxyType(
    {"autoscaler forgets the missing": forgets_the_missing}
)
PLANTED: Mapping[str, Flaw] = MappingProxyType(
    {
        "autoscaler forgets bounds": forgets_bounds,
        "autoscaler never cools down": never_cools_down,
        "autoscaler ignores the load": ignores_load,
        "autoscaler writes on any version": writes_on_any_version,
        "autoscaler makes room in vain": hopes_in_vain,
        "autoscaler ignores the limits of ancestors": ignores_ancestors,
        "autoscaler shrinks for a hopeless gang": shrinks_for_the_hopeless,
        "autoscaler counts no pods per node": counts_no_pods,
    }
)
