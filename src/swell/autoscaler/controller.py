"""The autoscaler at work: looks at the cluster from time to time, and has new sizes written.

Looks every period, and at once when a job begins to wait. What it decides goes to one controller
for each kind of job, so that a job whose status cannot be written keeps nobody else from growing.
Decides nothing itself: see `policies` and `damping`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Node
from swell.api.kinds import AI_TRAINING_JOBS, NODES, POD_GROUPS, PODS, QUEUES, TRAINING_JOBS
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.api.trainingjob import TrainingJob
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.damping import DampingMemory, damped
from swell.autoscaler.job_views import AnyJob
from swell.autoscaler.ledger import Ledger
from swell.autoscaler.metrics import AutoscalerMeter, AutoscalerMetrics
from swell.autoscaler.needs import NeedsReader
from swell.autoscaler.policies import POLICIES
from swell.autoscaler.policies.interface import RoleTargets
from swell.autoscaler.settings import AutoscalerSettings
from swell.autoscaler.status import SizeChange, SizeProposal, decide_write, may_resize
from swell.autoscaler.views import JobId, JobKind
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.controller import Controller, ControllerMeter, Reconciler
from swell.runtime.events import EventRecorder
from swell.runtime.executor import EventSink, Executor, Observer, WriteMeter
from swell.runtime.informer import Informer
from swell.runtime.leader import Election, run_if_elected
from swell.runtime.logs import get_logger
from swell.runtime.manager import Bug, contain_call
from swell.runtime.metrics import Metrics
from swell.runtime.plan import EmitEvent
from swell.runtime.queue import WorkQueue
from swell.runtime.reflector import InformerOptions
from swell.runtime.uncertain import AnyInformer

log = get_logger(__name__)

NAME = "autoscaler"
ACTOR = "swell-autoscaler"

# A job that begins to wait is answered this soon, and no two looks are closer to each other.
_GAP_S = 0.5
Get = Callable[[Key], AnyJob | None]
Writer = Controller[SizeChange]

_OPTIONAL = InformerOptions(is_optional=True)


@dataclass(frozen=True, slots=True)
class AutoscalerInformers:
    """What the autoscaler follows. Our own kinds may not be served everywhere."""

    nodes: Informer[Node]
    pods: Informer[Pod]
    groups: Informer[PodGroup]
    queues: Informer[Queue]
    jobs: Informer[AITrainingJob]
    trainer_jobs: Informer[TrainingJob]

    @classmethod
    def over(
        cls, cluster: Cluster, clock: Clock, random: Random, *, namespace: str = ""
    ) -> AutoscalerInformers:
        """Jobs of one namespace or of all; nodes and pods always of the whole cluster."""
        jobs = Selection(namespace)
        return cls(
            nodes=Informer(cluster, NODES, clock=clock, random=random),
            pods=Informer(cluster, PODS, clock=clock, random=random),
            groups=Informer(cluster, POD_GROUPS, clock=clock, random=random, options=_OPTIONAL),
            queues=Informer(cluster, QUEUES, clock=clock, random=random, options=_OPTIONAL),
            jobs=Informer(
                cluster,
                AI_TRAINING_JOBS,
                clock=clock,
                random=random,
                selection=jobs,
                options=_OPTIONAL,
            ),
            trainer_jobs=Informer(
                cluster,
                TRAINING_JOBS,
                clock=clock,
                random=random,
                selection=jobs,
                options=_OPTIONAL,
            ),
        )

    async def run(self) -> None:
        """Follow everything until cancelled."""
        await asyncio.gather(
            self.nodes.run(),
            self.pods.run(),
            self.groups.run(),
            self.queues.run(),
            self.jobs.run(),
            self.trainer_jobs.run(),
        )

    async def wait_synced(self) -> None:
        await self.nodes.wait_synced()
        await self.pods.wait_synced()
        await self.groups.wait_synced()
        await self.queues.wait_synced()
        await self.jobs.wait_synced()
        await self.trainer_jobs.wait_synced()


@dataclass(frozen=True, slots=True)
class AutoscalerMeters:
    """Who measures what; nobody by default."""

    sizes: AutoscalerMeter | None = None
    passes: ControllerMeter | None = None
    writes: WriteMeter | None = None


class Autoscaler:
    """See the module's docstring. The informers are run by others; `run` does the rest.

    Give it a cluster behind a leader's guard where several run.
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
        self._ledger = Ledger(NeedsReader(settings.gpu_resources))
        self._memory = DampingMemory(settings.scale_cooldown_s)
        self._proposals: dict[JobId, SizeProposal] = {}
        self._pending: frozenset[JobId] = frozenset()
        self._woken = asyncio.Event()
        told = _CountingEventSink(events, meters.sizes)
        jobs, trainer_jobs = informers.jobs, informers.trainer_jobs

        def writer(kind: JobKind, owners: AnyInformer, get: Get, observer: Observer) -> Writer:
            return Controller(
                f"{NAME}-{kind.lower()}",
                Reconciler(self._change_of(kind, get), decide_write),
                owners=owners,
                executor=Executor(cluster, informers=[observer], events=told, meter=meters.writes),
                queue=WorkQueue(clock=clock, random=random),
                clock=clock,
                meter=meters.passes,
            )

        self._writers = {
            JobKind.AI_TRAINING_JOB: writer(JobKind.AI_TRAINING_JOB, jobs, jobs.get, jobs),
            JobKind.TRAINING_JOB: writer(
                JobKind.TRAINING_JOB, trainer_jobs, trainer_jobs.get, trainer_jobs
            ),
        }
        self._listen()

    async def run(self) -> None:
        """Look and decide until cancelled."""
        await self._informers.wait_synced()
        await asyncio.gather(self._look_again(), *(one.run() for one in self._writers.values()))

    def wake(self) -> None:
        """Have a look soon."""
        self._woken.set()

    async def _look_again(self) -> None:
        while True:
            self._woken.clear()
            started = self._clock.monotonic()
            result = contain_call(self._look)
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

    def _look(self) -> None:
        """One decision about everything. No await: it is of one moment."""
        snapshot = self._ledger.snapshot()
        settings = self._settings
        wanted = POLICIES[settings.policy](snapshot.jobs, snapshot.cluster, settings.parameters)
        now = self._clock.now()
        calm = self._memory.calm(snapshot, now, self._ledger.changes)
        targets = damped(wanted, snapshot.jobs, calm)
        self._pending = frozenset(job.view.id for job in snapshot.jobs if job.is_pending)
        self._propose(targets, now)
        if self._meter is not None:
            self._measure(self._meter, snapshot, targets)

    def _propose(self, targets: RoleTargets, now: float) -> None:
        """Hand over what is to change: of a job one role at a time, the others follow."""
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

    def _change_of(self, kind: JobKind, get: Get) -> Callable[[Key], SizeChange | None]:
        def take(key: Key) -> SizeChange | None:
            job = get(key)
            if job is None:
                return None
            proposal = self._proposals.get(JobId(*key, kind))
            if proposal is not None and proposal.version != job.metadata.resource_version:
                # Written, or overtaken: either way the rest of it has to be decided anew.
                del self._proposals[JobId(*key, kind)]
                proposal = None
                self.wake()
            return SizeChange(job, proposal)

        return take

    def _job(self, job: JobId) -> AnyJob | None:
        if job.kind is JobKind.TRAINING_JOB:
            return self._informers.trainer_jobs.get(job.key)
        return self._informers.jobs.get(job.key)

    def _listen(self) -> None:
        ledger, seen = self._ledger, self._informers

        def on_node(key: Key) -> None:
            node = seen.nodes.get(key)
            ledger.drop_node(key.name) if node is None else ledger.put_node(node)

        def on_pod(key: Key) -> None:
            pod = seen.pods.get(key)
            ledger.drop_pod(key) if pod is None else ledger.put_pod(pod)
            job = ledger.asking_job(key)
            if job is not None:
                self._wake_if_waiting(job)

        def on_group(key: Key) -> None:
            group = seen.groups.get(key)
            ledger.drop_group(key) if group is None else ledger.put_group(group)

        def on_queue(_: Key) -> None:
            ledger.changes += 1

        seen.nodes.add_handler(on_node)
        seen.pods.add_handler(on_pod)
        seen.groups.add_handler(on_group)
        seen.queues.add_handler(on_queue)
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
        """Somebody begins to wait: those who can make room should not wait for the period."""
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
        usage = {**snapshot.cluster.usage, "gpu": snapshot.cluster.gpu}
        meter.loaded({name: u.requested / u.total for name, u in usage.items() if u.total})


class _CountingEventSink:
    """Passes events on, and counts them: a size that is written is told once, with its reason."""

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
    """The autoscaler with informers and events of its own, until cancelled."""
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
    """Run until cancelled; with an election only while leading. Raises LeadershipLostError."""
    meters = AutoscalerMeters()
    if metrics is not None:
        meters = AutoscalerMeters(AutoscalerMetrics(metrics.registry), metrics, metrics)

    async def work(cluster: Cluster) -> None:
        await run_autoscaler(
            cluster,
            settings=settings,
            clock=clock,
            random=random,
            namespace=namespace,
            meters=meters,
        )

    await run_if_elected(cluster, work, election, clock=clock, random=random)
