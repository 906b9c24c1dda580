"""The running autoscaler: decides sizes periodically, and has them written.

A pass runs every period, and soon after a job begins to wait. The new sizes go to one controller
for each kind of job, so that a job whose status cannot be written does not hold up the others. The
decisions themselves are made by `policies` and `damping`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeVar

from swell.api.aitrainingjob import AITrainingJob
from swell.api.meta import Key
from swell.api.trainingjob import TrainingJob
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.damping import DampingMemory, damp
from swell.autoscaler.informers import AutoscalerInformers
from swell.autoscaler.job_views import AnyJob
from swell.autoscaler.ledger import Ledger
from swell.autoscaler.metrics import AutoscalerMeter, AutoscalerMetrics
from swell.autoscaler.needs import NeedsReader
from swell.autoscaler.policies import POLICIES
from swell.autoscaler.policies.interface import RoleId, RoleTargets, SizeReason
from swell.autoscaler.settings import AutoscalerSettings
from swell.autoscaler.status import (
    SizeChange,
    SizeProposal,
    decide_write,
    may_resize,
    refusal_event,
)
from swell.autoscaler.views import JobId, JobKind
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.controller import Controller, ControllerMeter, Reconciler
from swell.runtime.events import EventRecorder
from swell.runtime.executor import EventSink, Executor, WriteMeter
from swell.runtime.informer import Informer
from swell.runtime.leader import Election, run_if_elected
from swell.runtime.logs import get_logger
from swell.runtime.manager import Bug, contain_call
from swell.runtime.metrics import Metrics
from swell.runtime.plan import EmitEvent
from swell.runtime.queue import WorkQueue

log = get_logger(__name__)

NAME = "autoscaler"
ACTOR = "swell-autoscaler"

# The least time between two passes. It bounds the work while many jobs begin to wait, and a job is
# still served within a second of becoming pending.
_GAP_S = 0.5
J = TypeVar("J", AITrainingJob, TrainingJob)
Get = Callable[[Key], AnyJob | None]
Writer = Controller[SizeChange]


@dataclass(frozen=True, slots=True)
class AutoscalerMeters:
    """The receivers of measurements; all of them are optional."""

    sizes: AutoscalerMeter | None = None
    passes: ControllerMeter | None = None
    writes: WriteMeter | None = None


class Autoscaler:
    """Decides the sizes of all elastic roles and writes them. The caller runs the informers.

    Where several replicas run, the cluster must be one that is guarded by the leader's lease.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: AutoscalerInformers,
        *,
        settings: AutoscalerSettings,
        clock: Clock,
        random: Random,
        events: EventSink | None = None,
        meters: AutoscalerMeters = AutoscalerMeters(),  # noqa: B008
    ) -> None:
        self._informers = informers
        self._settings = settings
        self._clock = clock
        self._meter = meters.sizes
        self._passes = meters.passes
        self._ledger = Ledger(NeedsReader(settings.gpu_resources), settings.scheduler)
        self._memory = DampingMemory(settings.scale_cooldown_s)
        # Sizes that were decided and are not written yet, at most one role of each job.
        self._proposals: dict[JobId, SizeProposal] = {}
        # The jobs that were pending in the last pass: they need not wake the next one.
        self._pending: frozenset[JobId] = frozenset()
        # The roles whose raise is refused by their queue, which was reported.
        self._refused: frozenset[RoleId] = frozenset()
        self._woken = asyncio.Event()
        self._events = events
        sink = _CountingEventSink(events, meters.sizes)

        def writer(kind: JobKind, owners: Informer[J]) -> Writer:
            return Controller(
                f"{NAME}-{kind.lower()}",
                Reconciler(self._change_of(kind, owners.get), decide_write),
                owners=owners,
                executor=Executor(cluster, informers=[owners], events=sink, meter=meters.writes),
                queue=WorkQueue(clock=clock, random=random),
                clock=clock,
                meter=meters.passes,
            )

        self._writers = {
            JobKind.AI_TRAINING_JOB: writer(JobKind.AI_TRAINING_JOB, informers.jobs),
            JobKind.TRAINING_JOB: writer(JobKind.TRAINING_JOB, informers.trainer_jobs),
        }
        self._subscribe()

    async def run(self) -> None:
        """Decide and write until cancelled."""
        await self._informers.wait_synced()
        await asyncio.gather(self._run_passes(), *(one.run() for one in self._writers.values()))

    def wake(self) -> None:
        """Have a pass run soon."""
        self._woken.set()

    async def _run_passes(self) -> None:
        while True:
            # Cleared before the snapshot is taken: a job that begins to wait during the pass wakes
            # the next one.
            self._woken.clear()
            started = self._clock.monotonic()
            # A bug in a policy must not end the process: the next pass tries again.
            result = contain_call(self._run_pass)
            if isinstance(result, Bug):
                log.error("bug", controller=NAME, trace=result.trace)
            if self._passes is not None:
                ended = "bug" if isinstance(result, Bug) else "looked"
                self._passes.reconciled(NAME, ended, self._clock.monotonic() - started)
            await self._clock.sleep(_GAP_S)
            try:
                async with asyncio.timeout(max(0.0, self._settings.scale_period_s - _GAP_S)):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _run_pass(self) -> None:
        """Decide all sizes from one snapshot. There is no await, so nothing changes meanwhile."""
        snapshot = self._ledger.snapshot()
        settings = self._settings
        wanted = POLICIES[settings.policy](snapshot.jobs, snapshot.cluster, settings.parameters)
        now = self._clock.now()
        seen = self._memory.observe(snapshot, now, self._ledger.changes)
        targets = damp(wanted, snapshot.jobs, seen)
        self._pending = frozenset(job.view.id for job in snapshot.jobs if job.is_pending)
        self._propose(targets, now)
        self._report_refusals(targets)
        if self._meter is not None:
            self._measure(self._meter, snapshot, targets)

    def _propose(self, targets: RoleTargets, now: float) -> None:
        """Hand the changed sizes to the writers.

        Of a job only one role is written at a time: the write changes the job's version, so the
        other roles have to be decided again.
        """
        # Proposals of the last pass that were not written are void: this pass has decided again.
        self._proposals.clear()
        for id_, target in targets.items():
            job = self._job(id_.job)
            if not target.delta or job is None or id_.job in self._proposals:
                continue
            if may_resize(job, id_.role):
                version = job.metadata.resource_version
                self._proposals[id_.job] = SizeProposal(version, id_.role, target, now)
        for job_id in self._proposals:
            self._writers[job_id.kind].wake(job_id.key)

    def _report_refusals(self, targets: RoleTargets) -> None:
        """Emit an event for each role whose queue begins to refuse a raise.

        The numbers of a refusal change with the queue, so it is not reported again for those.
        """
        refused = {
            id_: target
            for id_, target in targets.items()
            if target.reason is SizeReason.QUEUE_REFUSES
        }
        for id_, target in refused.items():
            job = self._job(id_.job)
            if self._events is not None and job is not None and id_ not in self._refused:
                self._events.record(refusal_event(job, id_.role, target))
        self._refused = frozenset(refused)

    def _change_of(self, kind: JobKind, get: Get) -> Callable[[Key], SizeChange | None]:
        def take(key: Key) -> SizeChange | None:
            job = get(key)
            if job is None:
                return None
            proposal = self._proposals.get(JobId(*key, kind))
            if proposal is not None and proposal.version != job.metadata.resource_version:
                # It was written, or the job was changed: either way the next pass decides anew.
                del self._proposals[JobId(*key, kind)]
                proposal = None
                self.wake()
            return SizeChange(job, proposal)

        return take

    def _job(self, job: JobId) -> AnyJob | None:
        if job.kind is JobKind.TRAINING_JOB:
            return self._informers.trainer_jobs.get(job.key)
        return self._informers.jobs.get(job.key)

    def _subscribe(self) -> None:
        ledger, seen = self._ledger, self._informers

        def on_node(key: Key) -> None:
            node = seen.nodes.get(key)
            ledger.drop_node(key.name) if node is None else ledger.put_node(node)

        def on_pod(key: Key) -> None:
            pod = seen.pods.get(key)
            ledger.drop_pod(key) if pod is None else ledger.put_pod(pod)
            # The phase of a job may be written before its pods exist, so pods wake as well.
            job = ledger.asking_job(key)
            if job is not None:
                self._wake_if_waiting(job)

        def on_group(key: Key) -> None:
            group = seen.groups.get(key)
            ledger.drop_group(key) if group is None else ledger.put_group(group)

        def on_priority(key: Key) -> None:
            found = seen.priorities.get(key)
            if found is None:
                ledger.drop_priority_class(key.name)
            else:
                ledger.put_priority_class(found)

        def on_namespace(key: Key) -> None:
            found = seen.namespaces.get(key)
            if found is None:
                ledger.drop_namespace(key.name)
            else:
                ledger.put_namespace(found)

        def on_queue(key: Key) -> None:
            queue = seen.queues.get(key)
            ledger.drop_queue(key.name) if queue is None else ledger.put_queue(queue)
            # A changed quota may let pods be bound that were refused before.
            ledger.changes += 1

        seen.nodes.add_handler(on_node)
        seen.pods.add_handler(on_pod)
        seen.groups.add_handler(on_group)
        seen.queues.add_handler(on_queue)
        seen.priorities.add_handler(on_priority)
        seen.namespaces.add_handler(on_namespace)
        seen.jobs.add_handler(lambda key: self._on_job(JobId(*key)))
        seen.trainer_jobs.add_handler(lambda key: self._on_job(JobId(*key, JobKind.TRAINING_JOB)))

    def _on_job(self, id_: JobId) -> None:
        job = self._job(id_)
        if job is None:
            self._ledger.drop_job(id_)
            return
        self._ledger.put_job(job)
        self._wake_if_waiting(id_)

    def _wake_if_waiting(self, job: JobId) -> None:
        """Run a pass early for a job that begins to wait, so that others make room for it soon."""
        if job not in self._pending and self._ledger.is_waiting(job):
            self.wake()

    def _measure(
        self, meter: AutoscalerMeter, snapshot: AutoscalerSnapshot, targets: RoleTargets
    ) -> None:
        actual = {
            (job.view.id, state.view.name): len(state.bound())
            for job in snapshot.jobs
            for state in job.roles
        }
        meter.sized({id_: (one.target, actual[id_]) for id_, one in targets.items()})
        # A resource without a total, such as the GPUs of a cluster without any, has no load.
        usage = {**snapshot.cluster.usage, "gpu": snapshot.cluster.gpu}
        meter.loaded({name: u.requested / u.total for name, u in usage.items() if u.total})


class _CountingEventSink:
    """Forwards events and counts them: each written size emits one event, with its reason."""

    def __init__(self, events: EventSink | None, meter: AutoscalerMeter | None) -> None:
        self._events = events
        self._meter = meter

    def record(self, event: EmitEvent) -> None:
        if self._meter is not None:
            self._meter.decided(event.reason)
        if self._events is not None:
            self._events.record(event)


async def run_autoscaler(
    cluster: Cluster,
    *,
    settings: AutoscalerSettings,
    clock: Clock,
    random: Random,
    namespace: str = "",
    meters: AutoscalerMeters = AutoscalerMeters(),  # noqa: B008
) -> None:
    """Run an autoscaler with its own informers and event recorder until cancelled."""
    informers = AutoscalerInformers.over(cluster, clock, random, namespace=namespace)
    events = EventRecorder(cluster, ACTOR, clock=clock, random=random)
    autoscaler = Autoscaler(
        cluster,
        informers,
        settings=settings,
        clock=clock,
        random=random,
        events=events,
        meters=meters,
    )
    await asyncio.gather(informers.run(), events.run(), autoscaler.run())


async def autoscale(
    cluster: Cluster,
    *,
    clock: Clock,
    random: Random,
    settings: AutoscalerSettings,
    namespace: str = "",
    election: Election | None = None,
    metrics: Metrics | None = None,
) -> None:
    """Run the autoscaler until cancelled, with an election only while it leads.

    Raises LeadershipLostError when it loses the lease.
    """
    meters = AutoscalerMeters()
    if metrics is not None:
        meters = AutoscalerMeters(AutoscalerMetrics(metrics.registry), metrics, metrics)

    work = partial(
        run_autoscaler,
        settings=settings,
        clock=clock,
        random=random,
        namespace=namespace,
        meters=meters,
    )

    await run_if_elected(cluster, work, election, clock=clock, random=random)
