"""The assembly of one job kind's operator: informers, controller, node watch, orphan collector.

The same for every kind, and decides nothing: the kind's `decide` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Generic

from swell.api.kinds import PODS
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.history.keeper import HistoryKeeper, HistorySources
from swell.operator.framework.fault_keeper import FaultKeeper
from swell.operator.framework.gpu_health import GpuHealth
from swell.operator.framework.gpu_states import PodDevices
from swell.operator.framework.kind import (
    ON_NODE,
    ControllerDependencies,
    InformersT,
    JobKindDefinition,
    JobMeter,
    JobT,
    SnapshotInputs,
    SnapshotT,
)
from swell.operator.framework.malformed import (
    decide_malformed,
    placeholder,
    status_of,
    without_bad_status,
)
from swell.operator.framework.managers import ForeignJobs, is_foreign, manager_in
from swell.operator.framework.metrics import LoggingSink
from swell.operator.framework.nodewatch import NodeWatch
from swell.operator.framework.orphans import OrphanCollector
from swell.operator.framework.report_puller import ReportPuller
from swell.operator.framework.reports import ReportTarget
from swell.runtime.clock import Clock
from swell.runtime.cluster import Malformed
from swell.runtime.controller import Controller, Reconciler, RejectedWrite
from swell.runtime.events import EventRecorder
from swell.runtime.executor import EventSink, Executor
from swell.runtime.logs import get_logger
from swell.runtime.manager import ManagedService
from swell.runtime.plan import NOTHING, CreateObject, Plan
from swell.runtime.reviews import ReviewedPod
from swell.runtime.uncertain import Children

log = get_logger(__name__)

# The component that events name, and the user the operator acts as in the embedded cluster.
ACTOR = "swell-operator"
# Priority classes are waited for only this long: without the right to list them they never come.
_PRIORITIES_S = 5.0


class JobOperator(Generic[JobT, SnapshotT, InformersT]):
    """The parts of one kind's operator, assembled for one cluster and not yet running."""

    def __init__(
        self,
        kind: JobKindDefinition[JobT, SnapshotT, InformersT],
        dependencies: ControllerDependencies,
        meter: JobMeter[JobT] | None = None,
    ) -> None:
        cluster, clock = dependencies.cluster, dependencies.clock
        self._kind = kind
        self._foreign = ForeignJobs()
        self.informers = kind.informers(dependencies)
        self.events = EventRecorder(cluster, ACTOR, clock=clock, random=dependencies.random)
        sink: EventSink = self.events
        if meter is not None:
            meter.watch(self.informers.jobs.all)
            sink = meter.counting(sink)
        sink = LoggingSink(kind.names.controller, sink)
        self.gpus = self._gpu_health(clock, sink)
        # The watch notes a node's change before jobs are woken for it: its handler is added first.
        self.nodes = NodeWatch(
            self.informers.nodes,
            dependencies.queue(),
            clock,
            self._wake_on,
            self.gpus.of_nodes if self.gpus is not None else None,
        )
        self.informers.nodes.add_handler(lambda key: self._wake_on(key.name))
        self.controller = self._controller(dependencies, sink)
        if kind.follow_others is not None:
            kind.follow_others(self.informers.jobs, self.controller.wake)
        self.reports = self._report_puller(dependencies)
        self.history = self._history_keeper(dependencies)
        self.faults = self._fault_keeper(dependencies, sink)
        self.collector = OrphanCollector(
            cluster,
            kind.orphans,
            kind.settings,
            clock=clock,
            pods=self.informers.pods.all,
            node_states=self.nodes.states,
        )

    def _gpu_health(self, clock: Clock, sink: EventSink) -> GpuHealth | None:
        if self._kind.gpu_informers is None:
            return None
        return GpuHealth(
            self._kind.settings,
            self._kind.gpu_informers(self.informers),
            clock,
            sink,
            pods_on=lambda node: self.informers.pods.by_index(ON_NODE.name, node),
            wake=self._wake_for,
        )

    def _controller(
        self, dependencies: ControllerDependencies, sink: EventSink
    ) -> Controller[SnapshotT]:
        kind, informers = self._kind, self.informers
        return Controller(
            kind.names.controller,
            Reconciler(self._take, kind.decide, self._decide_malformed),
            owners=informers.jobs,
            children=[
                Children(informer, index, kind.children_of, kind.settle_s)
                for informer, index in informers.children
            ],
            executor=Executor(
                dependencies.cluster,
                informers=[informers.jobs, *(informer for informer, _ in informers.children)],
                events=sink,
                meter=dependencies.writes,
                clock=dependencies.clock,
                draw=dependencies.draw,
            ),
            queue=dependencies.queue(),
            clock=dependencies.clock,
            workers=kind.settings.workers,
            meter=dependencies.passes,
        )

    def _report_puller(self, dependencies: ControllerDependencies) -> ReportPuller | None:
        target, jobs = self._kind.report_target, self.informers.jobs
        if target is None or dependencies.fetch_report is None:
            return None
        asked = target

        def target_of(key: Key) -> ReportTarget | None:
            job = jobs.get(key)
            if job is None or is_foreign(self._kind.manager_of(job)):
                return None
            return asked(job, self.informers)

        puller = ReportPuller(
            target_of,
            dependencies.fetch_report,
            dependencies.queue(),
            dependencies.clock,
            self.controller.wake,
            pace_s=dependencies.report_pace_s,
        )
        jobs.add_handler(puller.note)
        return puller

    def _history_keeper(self, dependencies: ControllerDependencies) -> HistoryKeeper | None:
        kind, informers = self._kind, self.informers
        if kind.settings.history is None or kind.place_of is None:
            return None
        sources = HistorySources(
            informers.jobs,
            informers.pods,
            kind.place_of,
            lambda job: not is_foreign(job.spec.managed_by),
            self.controller.wake,
        )
        return HistoryKeeper(
            dependencies.cluster,
            kind.names.controller,
            sources,
            clock=dependencies.clock,
            settings=kind.settings.history,
            namespace=kind.settings.namespace,
            meter=dependencies.records,
        )

    def _fault_keeper(
        self, dependencies: ControllerDependencies, sink: EventSink
    ) -> FaultKeeper[JobT] | None:
        kind = self._kind
        # Nodes belong to the whole cluster.
        if kind.fault_rules is None or not kind.settings.sees_cluster:
            return None
        return FaultKeeper(
            dependencies.cluster,
            self.informers.jobs,
            self.informers.nodes,
            kind.fault_rules,
            kind.settings,
            queue=dependencies.queue(),
            clock=dependencies.clock,
            sink=sink,
        )

    def take_report(self, sender: ReviewedPod, raw: bytes) -> bool:
        """Keep a report that a pod has sent; whether it is of a pod of this kind's jobs."""
        pod = self.informers.pods.get(Key(sender.namespace, sender.name))
        if self.reports is None or pod is None or pod.metadata.uid != sender.uid:
            return False
        job = self._kind.job_of(pod)
        return job is not None and self.reports.take(job, pod.metadata.uid, raw)

    @property
    def services(self) -> tuple[ManagedService, ...]:
        """The services in the order in which they are to be started.

        Nodes and priority classes belong to the whole cluster: with rights in one namespace alone
        they cannot be read. Then nothing is concluded about nodes, and pods get no priority.
        """
        name = self._kind.names.controller
        return (
            ManagedService(f"{name} events", self.events.run),
            *(
                ManagedService(f"{name} {one.resource} cache", one.run)
                for one in self.informers.every
                if one.resource.namespaced or self._kind.settings.sees_cluster
            ),
            ManagedService(f"{name} nodes", self.nodes.run),
            ManagedService(f"{name} garbage", self.collector.run),
            *(
                (ManagedService(f"{name} reports", self.reports.run, self.reports.stop),)
                if self.reports is not None
                else ()
            ),
            *(
                (ManagedService(f"{name} history", self.history.run),)
                if self.history is not None
                else ()
            ),
            *(
                (ManagedService(f"{name} faults", self.faults.run),)
                if self.faults is not None
                else ()
            ),
            ManagedService(name, self._work, self.controller.stop),
        )

    def problem(self) -> str:
        """The reason why the caches that decisions need are not usable; empty when they are."""
        required = [one for one in self.informers.every if one.resource.namespaced]
        problems = ((one.resource, one.problem()) for one in required)
        return "; ".join(f"{resource}: {wrong}" for resource, wrong in problems if wrong)

    async def _work(self) -> None:
        if self._kind.settings.sees_cluster:
            await self._wait_for_priorities()
        await self.controller.run()

    async def _wait_for_priorities(self) -> None:
        """Wait for the priority classes: a pod gets its priority when it is created."""
        try:
            async with asyncio.timeout(_PRIORITIES_S):
                await self.informers.priorities.wait_synced()
        except TimeoutError:
            log.warning("priority classes cannot be listed; pods get no priority")

    def _take(self, key: Key) -> SnapshotT | None:
        job = self.informers.jobs.get(key)
        if job is None:
            self._foreign.forget(key)
            return None
        manager = self._kind.manager_of(job)
        if is_foreign(manager):
            self._foreign.note(key, job.metadata.uid, manager)
            return None
        return self._snapshot(job, key)

    def _decide_malformed(self, found: Malformed, now: float) -> Plan:
        """The plan for a job that cannot be decoded: a status alone is rebuilt, a spec is not."""
        if is_foreign(manager := manager_in(found.body)):
            self._foreign.note(found.key, found.uid, manager)
            return NOTHING
        job = without_bad_status(found, self._kind.resource.struct)
        if job is not None:
            return self._kind.decide(self._snapshot(job, found.key, status_of(found)), now)
        rules = self._kind.malformed
        snapshot = self._snapshot(placeholder(rules, found), found.key)
        return decide_malformed(rules, found, snapshot, now)

    def _snapshot(self, job: JobT, key: Key, stored: Body | None = None) -> SnapshotT:
        rejected = self.controller.rejected_write(key)
        uid = job.metadata.uid
        report = self.reports.received(key, uid) if self.reports is not None else None
        is_leaving = job.metadata.deletion_timestamp is not None
        is_recorded = not is_leaving or self.history is None or self.history.is_kept(key, uid)
        mass = self.nodes.mass_failure()
        inputs = SnapshotInputs(
            _text(rejected), self.nodes.states, stored, report, is_recorded, mass,
            self._devices_of, _no_pods_before(rejected),
        )  # fmt: skip
        return self._kind.snapshot(job, self.informers, inputs)

    def _devices_of(self, pods: Iterable[Pod]) -> Mapping[str, PodDevices]:
        return self.gpus.devices_of(pods) if self.gpus is not None else {}

    def _wake_on(self, node: str) -> None:
        """Look again at the jobs that have a pod on this node."""
        for pod in self.informers.pods.by_index(ON_NODE.name, node):
            for key in self._kind.jobs_of(pod):
                self.controller.wake(key)

    def _wake_for(self, pod: Key) -> None:
        """Look again at the job of a pod."""
        found = self.informers.pods.get(pod)
        for key in self._kind.jobs_of(found) if found is not None else ():
            self.controller.wake(key)


def _no_pods_before(rejected: RejectedWrite | None) -> float:
    """When pods may be asked for again, if one has just been refused."""
    is_pod = rejected is not None and isinstance(rejected.action, CreateObject)
    return rejected.retry_at if rejected and is_pod and rejected.action.resource is PODS else 0.0


def _text(rejected: RejectedWrite | None) -> str:
    if rejected is None:
        return ""
    action = rejected.action
    return f"{action.resource.kind} {action.key.name}: {rejected.message}"
