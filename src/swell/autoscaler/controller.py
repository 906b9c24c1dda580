"""The running autoscaler: decides sizes periodically, and has them written.

A pass runs every period, and soon after a job begins to wait. The new sizes go to one controller
for each kind of job, so that a job whose status cannot be written does not hold up the others. The
decisions themselves are made by `policies` and `damping`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TypeVar

from swell.api.aitrainingjob import AITrainingJob
from swell.api.meta import Key, ObjectMeta
from swell.api.pod import Pod, PodSpec, PodStatus
from swell.api.scheduling import QueueState
from swell.api.trainingjob import TrainingJob
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.damping import DampingMemory, damp, damp_stopped
from swell.autoscaler.estimates.keeper import EstimateKeeper
from swell.autoscaler.goodput.sharing import SharedProfiles
from swell.autoscaler.informers import AutoscalerInformers
from swell.autoscaler.job_views import AnyJob, shared_report
from swell.autoscaler.ledger import Ledger
from swell.autoscaler.metrics import AutoscalerMeter, AutoscalerMetrics
from swell.autoscaler.needs import NeedsReader
from swell.autoscaler.pacing import Pacing
from swell.autoscaler.policies import POLICIES
from swell.autoscaler.policies.interface import RoleId, RoleTargets, SizeReason
from swell.autoscaler.settings import AutoscalerSettings
from swell.autoscaler.status import (
    SizeChange,
    SizeProposal,
    decide_write,
    has_no_pods,
    may_resize,
    refusal_event,
)
from swell.autoscaler.views import JobId, JobKind
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.controller import Controller, ControllerMeter, Reconciler
from swell.runtime.events import EventRecorder
from swell.runtime.executor import EventSink, Executor, WriteMeter
from swell.runtime.feed import Feed
from swell.runtime.informer import Informer, InformerMeter
from swell.runtime.leader import Election, run_if_elected
from swell.runtime.logs import get_logger
from swell.runtime.manager import Bug, contain_call
from swell.runtime.metrics import Metrics
from swell.runtime.plan import EmitEvent
from swell.runtime.queue import WorkQueue

log = get_logger(__name__)

NAME = "autoscaler"
ACTOR = "swell-autoscaler"

# The states in which a queue takes groups; one whose status was never written is open.
_OPEN = frozenset({QueueState.OPEN, QueueState.EMPTY})
# Reasons why a role does not grow that its job is told about: others change with every pass.
_REPORTED = frozenset({SizeReason.QUEUE_REFUSES, SizeReason.TOPOLOGY_HELD})
J = TypeVar("J", AITrainingJob, TrainingJob)
Get = Callable[[Key], AnyJob | None]
Writer = Controller[SizeChange]


@dataclass(frozen=True, slots=True)
class AutoscalerMeters:
    """The receivers of measurements; all of them are optional."""

    sizes: AutoscalerMeter | None = None
    passes: ControllerMeter | None = None
    writes: WriteMeter | None = None
    informers: InformerMeter | None = None


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
        self._needs = NeedsReader(settings.gpu_resources)
        self._ledger = Ledger(self._needs, settings.scheduler)
        self._feed = Feed(NAME, self._rebuild, meter=meters.informers)
        # What each queue allows, to tell a change of that from a change of its status.
        self._queue_rules: dict[Key, tuple[object, ...]] = {}
        self._memory = DampingMemory(settings.scale_cooldown_s)
        self._estimates = EstimateKeeper(self._priority_of)
        # Of jobs that name their program, ended ones too: rebuilt from the objects at every start.
        self._profiles = SharedProfiles()
        # Sizes that were decided and are not written yet, at most one role of each job.
        self._proposals: dict[JobId, SizeProposal] = {}
        # The jobs that were pending in the last pass: they need not wake the next one.
        self._pending: frozenset[JobId] = frozenset()
        # How many sizes each job has reported its speed at.
        self._n_measured: dict[JobId, int] = {}
        # Whether a raise waits for what others are about to leave.
        self._awaits_room = False
        # Jobs that stop for others, until their pods are gone.
        self._stopping: set[JobId] = set()
        # The roles whose raise is refused by their queue, which was reported.
        self._refused: frozenset[RoleId] = frozenset()
        self._pacing = Pacing(clock, settings.scale_period_s)
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
        self._pacing.wake()

    async def _run_passes(self) -> None:
        while True:
            started = self._pacing.begin()
            # A bug in a policy must not end the process: the next pass tries again.
            result = contain_call(self._run_pass)
            if isinstance(result, Bug):
                log.error("bug", controller=NAME, trace=result.trace)
            passed_s = self._clock.monotonic() - started
            if self._passes is not None:
                ended = "bug" if isinstance(result, Bug) else "looked"
                self._passes.reconciled(NAME, ended, passed_s)
            await self._pacing.rest(passed_s)

    def _run_pass(self) -> None:
        """Decide all sizes from one snapshot. There is no await, so nothing changes meanwhile."""
        if self._feed.is_broken:
            return  # what is free is not known until the rebuild
        snapshot = self._ledger.snapshot()
        settings = self._settings
        now = self._clock.now()
        parameters = replace(
            settings.parameters, now=now, profiles=self._profiles, stopped=snapshot.stopped
        )
        wanted = POLICIES[settings.policy](snapshot.jobs, snapshot.cluster, parameters)
        self._awaits_room = any(one.reason is SizeReason.NOT_FREE_YET for one in wanted.values())
        seen = self._memory.observe(snapshot, now, self._ledger.changes)
        targets = {
            **damp(wanted, snapshot.jobs, seen),
            **damp_stopped(wanted, snapshot.stopped, seen),
        }
        self._pending = frozenset(job.view.id for job in snapshot.jobs if job.is_pending)
        self._propose(targets, now)
        self._estimates.propose(snapshot, self._job, now)
        for job_id in self._estimates.proposals:
            self._writers[job_id.kind].wake(job_id.key)
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
            if not target.changes or job is None or id_.job in self._proposals:
                continue
            if may_resize(job, id_.role):
                version = job.metadata.resource_version
                stop_s = self._settings.parameters.starve_after_s
                self._proposals[id_.job] = SizeProposal(version, id_.role, target, now, stop_s)
        self._stopping |= {id_ for id_, one in self._proposals.items() if one.target.stops}
        for job_id in self._proposals:
            self._writers[job_id.kind].wake(job_id.key)

    def _report_refusals(self, targets: RoleTargets) -> None:
        """Emit an event for each role that its queue, or its part of the network, keeps small.

        The numbers of a refusal change with the queue, so it is not reported again for those.
        """
        refused = {id_: target for id_, target in targets.items() if target.reason in _REPORTED}
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
            return SizeChange(job, proposal, self._estimates.take(JobId(*key, kind), job))

        return take

    def _job(self, job: JobId) -> AnyJob | None:
        if job.kind is JobKind.TRAINING_JOB:
            return self._informers.trainer_jobs.get(job.key)
        return self._informers.jobs.get(job.key)

    def _subscribe(self) -> None:
        seen, feed = self._informers, self._feed
        seen.nodes.add_handler(self._on_node, feed=feed)
        seen.pods.add_handler(self._on_pod, feed=feed)
        seen.groups.add_handler(self._on_group, feed=feed)
        seen.native_groups.add_handler(self._on_native_group, feed=feed)
        seen.queues.add_handler(self._on_queue, feed=feed)
        seen.priorities.add_handler(self._on_priority, feed=feed)
        seen.namespaces.add_handler(self._on_namespace, feed=feed)
        seen.hyper_nodes.add_handler(self._on_hyper_node, feed=feed)
        seen.jobs.add_handler(self._on_ai_training_job, feed=feed)
        seen.trainer_jobs.add_handler(self._on_training_job, feed=feed)

    def _rebuild(self) -> None:
        """Count everything anew from the caches, after a handler has failed."""
        # The count of changes only grows: a failed raise that waits for a change tries again.
        n_changes = self._ledger.changes + 1
        self._ledger = Ledger(self._needs, self._settings.scheduler)
        seen = self._informers
        for keys, handler in (
            (seen.namespaces.keys(), self._on_namespace),
            (seen.priorities.keys(), self._on_priority),
            (seen.queues.keys(), self._on_queue),
            (seen.nodes.keys(), self._on_node),
            (seen.hyper_nodes.keys(), self._on_hyper_node),
            (seen.pods.keys(), self._on_pod),
            (seen.groups.keys(), self._on_group),
            (seen.native_groups.keys(), self._on_native_group),
            (seen.jobs.keys(), self._on_ai_training_job),
            (seen.trainer_jobs.keys(), self._on_training_job),
        ):
            for key in keys:
                self._take_or_set_aside(handler, key)
        self._ledger.changes += n_changes

    def _take_or_set_aside(self, handler: Callable[[Key], None], key: Key) -> None:
        """Count an object. One on which its handler fails is left out, so that it stops no other.

        If it is a pod its node offers no room. All are tried anew after a back-off.
        """
        result = contain_call(handler, key)
        if not isinstance(result, Bug):
            return
        log.error("object set aside", controller=NAME, key=str(key), trace=result.trace)
        self._feed.mend_later()
        pod = self._informers.pods.get(key) if handler == self._on_pod else None
        if pod is not None:
            bare = Pod(
                metadata=ObjectMeta(name=key.name, namespace=key.namespace),
                spec=PodSpec(node_name=pod.spec.node_name),
                status=PodStatus(phase=pod.status.phase),
            )
            self._ledger.put_pod(bare, is_unreadable=True)

    def _on_node(self, key: Key) -> None:
        node, ledger = self._informers.nodes.get(key), self._ledger
        if node is None:
            ledger.drop_node(key.name)
        else:
            ledger.put_node(node, is_unreadable=bool(self._informers.nodes.unreadable(key)))

    def _on_pod(self, key: Key) -> None:
        pods, ledger = self._informers.pods, self._ledger
        pod, n_changes = pods.get(key), ledger.changes
        if pod is None:
            ledger.drop_pod(key)
            if self._awaits_room:
                self.wake()
        else:
            # The room of a pod does not depend on its status.
            ledger.put_pod(pod, is_unreadable=bool(pods.unreadable(key, but=("status",))))
        if ledger.changes != n_changes:
            self._pacing.wake_for_room()
        # The phase of a job may be written before its pods exist, so pods wake as well.
        job = ledger.asking_job(key)
        if job is not None:
            self._wake_if_waiting(job)

    def _on_group(self, key: Key) -> None:
        groups, ledger = self._informers.groups, self._ledger
        group = groups.get(key)
        if group is None:
            ledger.drop_group(key)
        else:
            ledger.put_group(group, is_unreadable=bool(groups.unreadable(key)))

    def _on_native_group(self, key: Key) -> None:
        groups = self._informers.native_groups
        self._ledger.put_native_group(
            key, groups.get(key), is_unreadable=bool(groups.unreadable(key))
        )

    def _on_priority(self, key: Key) -> None:
        found, ledger = self._informers.priorities.get(key), self._ledger
        if found is None:
            ledger.drop_priority_class(key.name)
        else:
            ledger.put_priority_class(found)

    def _on_namespace(self, key: Key) -> None:
        found, ledger = self._informers.namespaces.get(key), self._ledger
        ledger.drop_namespace(key.name) if found is None else ledger.put_namespace(found)

    def _on_hyper_node(self, key: Key) -> None:
        self._ledger.put_hyper_node(key.name, self._informers.hyper_nodes.get(key))

    def _on_queue(self, key: Key) -> None:
        """A queue that allows something else may let pods be bound that were refused before.

        Most changes of a queue are of its counts, which the scheduler writes itself.
        """
        queues, ledger = self._informers.queues, self._ledger
        queue = queues.get(key)
        if queue is None:
            ledger.drop_queue(key.name)
        else:
            unreadable = queues.unreadable(key, but=("status",))
            ledger.put_queue(queue, is_unreadable=bool(unreadable))
        rules = None if queue is None else (queue.spec, queue.status.state in _OPEN)
        if self._queue_rules.get(key) == rules:
            return
        if rules is None:
            del self._queue_rules[key]
        else:
            self._queue_rules[key] = rules
        ledger.changes += 1

    def _priority_of(self, name: str) -> int:
        found = self._informers.priorities.get(Key("", name)) if name else None
        return 0 if found is None else found.value

    def _on_ai_training_job(self, key: Key) -> None:
        self._on_job(JobId(*key))
        job = self._informers.jobs.get(key)
        self._estimates.note_run(job)
        self._wake_if_measured(JobId(*key), job)
        if job is not None and (shared := shared_report(job)) is not None:
            program, evidence = shared
            self._profiles.of(program).learn(evidence)

    def _on_training_job(self, key: Key) -> None:
        self._on_job(JobId(*key, JobKind.TRAINING_JOB))

    def _on_job(self, id_: JobId) -> None:
        job = self._job(id_)
        if job is None:
            self._ledger.drop_job(id_)
            self._stopping.discard(id_)
            return
        self._ledger.put_job(job, is_malformed=self._is_malformed(id_))
        self._wake_if_waiting(id_)
        if id_ in self._pending and not self._ledger.is_waiting(id_):
            # It has started, with its least: now it is known where, and what it may grow to.
            self._pending -= {id_}
            self.wake()
        if id_ in self._stopping and isinstance(job, AITrainingJob):
            # What it held is free when its pods go, and the operator says so in its status.
            if job.status.yielded is None or has_no_pods(job):
                self._stopping.remove(id_)
            self.wake()

    def _is_malformed(self, job: JobId) -> bool:
        informers = self._informers
        is_classic = job.kind is JobKind.TRAINING_JOB
        informer = informers.trainer_jobs if is_classic else informers.jobs
        return informer.malformed(job.key) is not None

    def _wake_if_waiting(self, job: JobId) -> None:
        """Run a pass early for a job that begins to wait, so that others make room for it soon."""
        if job not in self._pending and self._ledger.is_waiting(job):
            self.wake()

    def _wake_if_measured(self, id_: JobId, job: AITrainingJob | None) -> None:
        """Run a pass early when a job has reported its speed at a size for the first time.

        Its size rests on that, and it may grow no further before.
        """
        if job is None:
            self._n_measured.pop(id_, None)
            return
        n_sizes = len(job.status.training.rates) if job.status.training is not None else 0
        if n_sizes > self._n_measured.get(id_, 0):
            self._n_measured[id_] = n_sizes
            self.wake()

    def _measure(
        self, meter: AutoscalerMeter, snapshot: AutoscalerSnapshot, targets: RoleTargets
    ) -> None:
        actual = {
            (job.view.id, state.view.name): len(state.bound())
            for job in snapshot.jobs
            for state in job.roles
        }
        meter.sized({id_: (one.target, actual.get(id_, 0)) for id_, one in targets.items()})
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
    informers = AutoscalerInformers.over(
        cluster, clock, random, namespace=namespace, meter=meters.informers
    )
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
        meters = AutoscalerMeters(AutoscalerMetrics(metrics.registry), metrics, metrics, metrics)

    work = partial(
        run_autoscaler,
        settings=settings,
        clock=clock,
        random=random,
        namespace=namespace,
        meters=meters,
    )

    await run_if_elected(cluster, work, election, clock=clock, random=random)
