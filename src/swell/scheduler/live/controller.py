"""The scheduler as a whole: informers, cycles and actuators, as services to run.

`Scheduler` is the one assembly for `swell scheduler`, `swell up`, simulations and benches. It runs
as a task beside others (`Scheduler.run`), or as one of several replicas of which only the leader
works (`schedule`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from swell.api.core import EventSeverity
from swell.api.kinds import NODES, POD_GROUPS, PODS, QUEUES
from swell.api.resource import Resource
from swell.api.scheduling import PodGroup
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Malformed
from swell.runtime.events import EventOptions, EventRecorder
from swell.runtime.executor import EventSink
from swell.runtime.health import HealthChecks
from swell.runtime.leader import Election, run_if_elected
from swell.runtime.manager import ManagedService, run_services
from swell.runtime.metrics import Metrics
from swell.runtime.plan import EmitEvent
from swell.scheduler.live.bind_windows import BindWindows
from swell.scheduler.live.binder import Binder
from swell.scheduler.live.cache import SchedulerCache, has_status
from swell.scheduler.live.claim_fences import ClaimFences
from swell.scheduler.live.device_releases import DeviceReleases
from swell.scheduler.live.dirty import DirtyMarks
from swell.scheduler.live.evictor import Evictor
from swell.scheduler.live.extended_claims import ExtendedClaims
from swell.scheduler.live.hyper_node_controller import HyperNodeController
from swell.scheduler.live.informers import SchedulerInformers
from swell.scheduler.live.loop import Actuators, SchedulerLoop
from swell.scheduler.live.metrics import scheduler_metrics
from swell.scheduler.live.pod_conditions import PodConditions
from swell.scheduler.live.preparation_writes import PreparationWriter
from swell.scheduler.live.preparer import Preparer
from swell.scheduler.live.queue_controller import QueueController
from swell.scheduler.live.settings import ConfigurationFile, SchedulerSettings
from swell.scheduler.live.shrinker import Shrinker
from swell.scheduler.live.start_warnings import warn_of_device_rules, warn_of_rival
from swell.scheduler.live.status_updater import StatusUpdater
from swell.scheduler.live.unrecorded_victims import UnrecordedVictims
from swell.scheduler.model.domain_tree import DomainTree
from swell.scheduler.model.resources import amount_texts

ACTOR = "swell-scheduler"
UNDECODABLE = "Undecodable"  # the reason of the event on an object that cannot be decoded
# Kubernetes clients write at most 50 requests a second by default. Beyond 4,096 pods that wait for
# their event, the events of further ones are dropped.
_POD_EVENTS = EventOptions(writes_per_s=20.0, burst=20, writers=1, series_max=4096)


class Scheduler:
    """All parts of the scheduler, assembled for one cluster. `services` are in starting order.

    Nothing is decided before all required informers are synced. Where several replicas run, the
    cluster must be one that is guarded by the leader's lease.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: SchedulerSettings = SchedulerSettings(),  # noqa: B008
        *,
        clock: Clock,
        random: Random,
        metrics: Metrics | None = None,
    ) -> None:
        self.settings = settings
        self._clock, self._random = clock, random
        meter = scheduler_metrics(metrics, clock)
        self.configuration = ConfigurationFile(settings.config_path, settings.config, clock, meter)
        dirty = DirtyMarks()
        events = EventRecorder(cluster, ACTOR, clock=clock, random=random)
        # Every pod gets an event when it is bound. With a recorder of their own, a burst of them
        # delays no event that says why something waits or has to leave.
        pod_events = EventRecorder(cluster, ACTOR, clock=clock, random=random, options=_POD_EVENTS)
        self.informers = SchedulerInformers.over(cluster, clock, random, metrics)
        self.cache = SchedulerCache(self.informers, settings, dirty, metrics)
        _report_malformed(self.informers, events)
        self.windows = BindWindows(settings.bind_window_s)
        self.victims = UnrecordedVictims(self.cache)
        ports, workers = (cluster, self.cache), settings.bind_workers
        self.binder = Binder(
            *ports,
            self.windows,
            pod_events,
            self.victims,
            workers=workers,
            clock=clock,
            random=random,
            meter=meter,
        )
        self.preparer, self.releases, self.fences = self._preparation(cluster, events, dirty)
        self.extended = ExtendedClaims(cluster, self.cache, clock=clock, random=random)
        save_s_max = settings.save_seconds_max
        self.evictor = Evictor(
            *ports, events, self.victims, clock=clock, random=random, save_s_max=save_s_max
        )
        self.shrinker = Shrinker(*ports, events, self.victims, clock=clock, random=random)
        self.updater = StatusUpdater(
            cluster,
            self.cache,
            events,
            clock=clock,
            random=random,
            is_busy=lambda: self.binder.is_busy,
            windows=self.windows,
            meter=metrics,
        )
        self.pods = PodConditions(cluster, self.cache, clock=clock, random=random, meter=metrics)
        self.queues = self._queue_controller(cluster, random, events, metrics)
        self.hyper_nodes = self._hyper_node_controller(cluster, random, events, metrics)
        self.loop = SchedulerLoop(
            self.cache,
            self.windows,
            self._actuators(),
            settings=settings,
            config=lambda: self.configuration.current,
            dirty=dirty,
            clock=clock,
            random=random,
            mark_queue_dirty=self.queues.mark_dirty,
            meter=meter,
        )
        if meter is not None:
            meter.watch(self.cache.snapshot, lambda: self.configuration.current)
        self.services = self._services(events, pod_events)

    def _preparation(
        self, cluster: Cluster, events: EventSink, dirty: DirtyMarks
    ) -> tuple[Preparer, DeviceReleases, ClaimFences]:
        """Returns the parts that write claims. They share a writer, and so what it is at."""
        clock, random, workers = self._clock, self._random, self.settings.bind_workers
        writer = PreparationWriter(cluster, self.informers, workers=workers, clock=clock)
        preparer = Preparer(self.cache, writer, self.binder, events, clock=clock, random=random)
        releases = DeviceReleases(
            self.cache, writer, events, clock=clock, random=random, wake=dirty.mark
        )
        fences = ClaimFences(self.cache, writer, clock=clock, random=random, wake=dirty.mark)
        return preparer, releases, fences

    def _queue_controller(
        self, cluster: Cluster, random: Random, events: EventSink, metrics: Metrics | None
    ) -> QueueController:
        queues = QueueController(
            cluster,
            self.informers.queues,
            self.informers.groups,
            clock=self._clock,
            random=random,
            allocated=self._allocated,
            native_groups=self._native_groups,
            events=events,
            meter=metrics,
            write_meter=metrics,
        )
        # A native group that goes while the snapshot is broken is in no plan, which would tell.
        self.cache.on_rebuilt(queues.mark_all_dirty)
        return queues

    def _hyper_node_controller(
        self, cluster: Cluster, random: Random, events: EventSink, metrics: Metrics | None
    ) -> HyperNodeController:
        return HyperNodeController(
            cluster,
            self.informers.hyper_nodes,
            self._tree,
            clock=self._clock,
            random=random,
            events=events,
            metrics=metrics,
        )

    def _actuators(self) -> Actuators:
        return Actuators(
            self.binder,
            self.evictor,
            self.shrinker,
            self.updater,
            self.pods,
            self.hyper_nodes,
            self.preparer,
            self.releases,
            self.extended,
            self.fences,
        )

    def _tree(self) -> DomainTree | None:
        """Returns the tree of HyperNodes, once the cache is filled."""
        snapshot = self.cache.snapshot
        return snapshot.hyper_nodes.tree(snapshot.nodes) if self.cache.is_filled else None

    @property
    def is_synced(self) -> bool:
        """Whether all caches are filled, so that cycles run."""
        return self.cache.is_filled

    def problem(self) -> str:
        """Returns why some cache is not up to date; empty when all are."""
        problems = ((one.resource, one.problem()) for one in self.informers.required)
        return "; ".join(f"{resource}: {wrong}" for resource, wrong in problems if wrong)

    # Cycles come last: what a cycle hands over must find its worker running. Services stop in the
    # opposite order.
    def _services(
        self, events: EventRecorder, pod_events: EventRecorder
    ) -> tuple[ManagedService, ...]:
        return (
            ManagedService("configuration", self.configuration.run),
            ManagedService("events", events.run),
            ManagedService("pod events", pod_events.run),
            *(ManagedService(f"{one.resource} cache", one.run) for one in self.informers.every),
            ManagedService("queue states", self.queues.loop.run, self.queues.loop.stop),
            ManagedService(
                "hypernode states", self.hyper_nodes.loop.run, self.hyper_nodes.loop.stop
            ),
            ManagedService("pod conditions", self.pods.run, self.pods.stop),
            ManagedService("group statuses", self.updater.run, self.updater.stop),
            ManagedService("shrinker", self.shrinker.run, self.shrinker.stop),
            ManagedService("evictor", self.evictor.run, self.evictor.stop),
            ManagedService("preparer", self.preparer.run, self.preparer.stop),
            ManagedService("device releases", self.releases.run, self.releases.stop),
            ManagedService("claim fences", self.fences.run, self.fences.stop),
            ManagedService("extended claims", self.extended.run, self.extended.stop),
            ManagedService("binder", self.binder.run, self.binder.stop),
            ManagedService("cycles", self.loop.run),
        )

    def _allocated(self, queue: str) -> dict[str, str] | None:
        """Returns the amounts held in a queue and below it, once the cache is filled."""
        entry = self.cache.snapshot.queues.get(queue) if self.cache.is_filled else None
        return (
            None if entry is None else amount_texts(self.cache.snapshot.dimensions, entry.subtree)
        )

    def _native_groups(self, queue: str) -> tuple[PodGroup, ...] | None:
        """Returns the native groups of a queue with the phases that only the snapshot has."""
        native = self.informers.native_groups
        if not self.cache.is_filled and (len(native) or not native.synced):
            return None
        entry = self.cache.snapshot.queues.get(queue) if self.cache.is_filled else None
        jobs = () if entry is None else entry.jobs.values()
        return tuple(
            replace(job.group, status=replace(job.group.status, phase=job.phase))
            for job in jobs
            if job.native is not None and has_status(job)
        )

    async def run(self) -> None:
        """Run all services until cancelled. Raises ServiceFailedError when one of them ends."""
        await run_services(self.services, self._clock)


def _report_malformed(informers: SchedulerInformers, events: EventSink) -> None:
    """Have an event emitted on each object that cannot be decoded and may hold something."""

    def reporter(resource: Resource[object]) -> Callable[[Malformed], None]:
        def report(found: Malformed) -> None:
            text = f"cannot be decoded: {found.error}; what it held last stays taken"
            warning = EventSeverity.WARNING
            events.record(EmitEvent(resource, found.key, found.uid, warning, UNDECODABLE, text))

        return report

    informers.pods.on_malformed.append(reporter(PODS))
    informers.nodes.on_malformed.append(reporter(NODES))
    informers.groups.on_malformed.append(reporter(POD_GROUPS))
    informers.queues.on_malformed.append(reporter(QUEUES))


async def schedule(
    cluster: Cluster,
    *,
    clock: Clock,
    random: Random,
    settings: SchedulerSettings = SchedulerSettings(),  # noqa: B008
    election: Election | None = None,
    metrics: Metrics | None = None,
    health: HealthChecks | None = None,
) -> None:
    """Run a scheduler until cancelled, with an election only while it leads.

    Raises LeadershipLostError when it loses the lease.
    """

    async def work(cluster: Cluster) -> None:
        await warn_of_rival(cluster, settings.scheduler_names, clock)
        await warn_of_device_rules(cluster)
        scheduler = Scheduler(cluster, settings, clock=clock, random=random, metrics=metrics)
        if health is not None:
            health.ready["scheduler caches"] = scheduler.problem
        await scheduler.run()

    await run_if_elected(cluster, work, election, clock=clock, random=random, metrics=metrics)
