"""Assembly of the built-in controllers, which a manager then runs.

Each controller writes under its own actor name, which the store's log shows. They share one cache
of pods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from swell.api.core import Node
from swell.api.kinds import (
    JOBS,
    LEASES,
    NAMESPACES,
    NATIVE_GROUPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    STORAGE_CLASSES,
)
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.api.resource import ApiObject, Resource
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.controllers.garbage import GarbageCollector
from swell.cluster.embedded.controllers.job.decide import decide_job, decide_release
from swell.cluster.embedded.controllers.namespace import decide_namespace
from swell.cluster.embedded.controllers.nodelifecycle import GRACE_S_DEFAULT, decide_node
from swell.cluster.embedded.controllers.podgroup import (
    BY_POD_GROUP,
    PodGroupSnapshots,
    decide_pod_group,
)
from swell.cluster.embedded.controllers.replicaset import decide_replica_set
from swell.cluster.embedded.controllers.snapshots import (
    LEASE_NAMESPACE,
    JobSnapshots,
    NamespaceSnapshots,
    NodeSnapshots,
    ReplicaSetSnapshots,
    by_namespace,
    orphans_by_namespace,
    wake_adopters,
)
from swell.cluster.embedded.controllers.volumefolders import (
    PODS_BY_CLAIM,
    VOLUMES_BY_CLAIM,
    VOLUMES_BY_CLASS,
    RemovedFolders,
    VolumeSnapshots,
)
from swell.cluster.embedded.controllers.volumes import decide_claim, decide_volume
from swell.runtime.cache import CacheIndex
from swell.runtime.cluster import EVERYTHING, Cluster, Selection
from swell.runtime.controller import Controller, Reconciler
from swell.runtime.events import EventRecorder
from swell.runtime.executor import Executor, Observer
from swell.runtime.informer import Informer, by_controller_key
from swell.runtime.manager import Manager
from swell.runtime.queue import WorkQueue
from swell.runtime.uncertain import AnyInformer, Children

T = TypeVar("T", bound=ApiObject)
S = TypeVar("S")

READER = "controller-caches"
# Pods change and objects are deleted in bursts, and a pass over an owner or a namespace costs as
# much as it has objects. So a pass starts this long after the first change.
SETTLE_S = 0.05
_PODS_OF_SETS = by_controller_key(REPLICA_SETS.kind)
_PODS_OF_JOBS = by_controller_key(JOBS.kind)


@dataclass(frozen=True, slots=True)
class BuiltinControllerSettings:
    """Settings of the built-in controllers.

    Without `garbage_collector` none is run here; the simulator steps its own. `gates` are the
    feature gates that are on, of the API server as well.
    """

    node_monitor_grace_s: float = GRACE_S_DEFAULT
    garbage_collector: bool = True
    # Where the folders are that claims of the built-in class get as volumes; None for no class.
    volume_folders: Path | None = None
    gates: frozenset[str] = frozenset()


def add_controllers(
    manager: Manager,
    api: ApiServer,
    random: Random,
    settings: BuiltinControllerSettings = BuiltinControllerSettings(),  # noqa: B008
    connect: Callable[[str], Cluster] | None = None,
) -> None:
    """Add every built-in controller of an embedded cluster to a manager.

    `connect` returns the connection of an actor to the API server; the default is a direct one.
    """
    direct = partial(InProcessCluster, api)
    _Assembly(manager, api, random, connect or direct).add_all(settings)


class _Assembly:
    """The parts that the controllers share."""

    def __init__(
        self, manager: Manager, api: ApiServer, random: Random, connect: Callable[[str], Cluster]
    ) -> None:
        self._manager = manager
        self._api = api
        self._random = random
        self._connect = connect
        indexes: list[CacheIndex[Pod]] = [
            orphans_by_namespace(),
            _PODS_OF_SETS,
            _PODS_OF_JOBS,
            BY_POD_GROUP,
            PODS_BY_CLAIM,
        ]
        self._pods = self._informer(PODS, indexes)

    def add_all(self, settings: BuiltinControllerSettings) -> None:
        if settings.garbage_collector:
            self._manager.add("garbage-collector", GarbageCollector(self._api).run)
        self._add_replica_sets()
        self._add_jobs()
        self._add_namespaces()
        nodes = self._add_nodes(settings.node_monitor_grace_s)
        self._add_volumes(nodes, settings.volume_folders)
        if self._api.registry.stored(str(NATIVE_GROUPS)) is not None:
            self._add_pod_groups()

    def _add_replica_sets(self) -> None:
        name = "replicaset-controller"
        sets = self._informer(REPLICA_SETS, [by_namespace()])
        snapshots = ReplicaSetSnapshots(self._pods, sets, self._random)
        controller = self._add(
            name,
            Reconciler(snapshots.snapshot, decide_replica_set),
            owners=sets,
            children=[Children(self._pods, _PODS_OF_SETS.name, _same_namespace, SETTLE_S)],
            executor=self._executor(name, [sets, self._pods], emits_events=True),
        )
        snapshots.refusals = controller.rejected_write
        self._pods.add_handler(wake_adopters(self._pods, sets, controller.wake))

    def _add_jobs(self) -> None:
        name = "job-controller"
        jobs = self._informer(JOBS, [by_namespace()])
        snapshots = JobSnapshots(self._pods, jobs, self._random)
        controller = self._add(
            name,
            Reconciler(snapshots.snapshot, decide_job),
            owners=jobs,
            children=[Children(self._pods, _PODS_OF_JOBS.name, _same_namespace, SETTLE_S)],
            executor=self._executor(name, [jobs, self._pods], emits_events=True),
        )
        snapshots.refusals = controller.rejected_write
        self._pods.add_handler(wake_adopters(self._pods, jobs, controller.wake))
        # Pods are the keys of the second controller: their Job may not exist any more.
        release = self._add(
            "job-pod-release",
            Reconciler(snapshots.tracked, decide_release),
            owners=self._pods,
            others=[jobs],
            executor=self._executor(name, [self._pods]),
        )
        jobs.add_handler(snapshots.wake_pods(_PODS_OF_JOBS.name, release.wake))

    def _add_namespaces(self) -> None:
        name = "namespace-controller"
        namespaces = self._informer(NAMESPACES)
        snapshots = NamespaceSnapshots(self._api, namespaces)
        queue = self._queue()
        self._add(
            name,
            Reconciler(snapshots.snapshot, decide_namespace),
            owners=namespaces,
            executor=self._executor(name, [namespaces]),
            queue=queue,
        )
        snapshots.on_removal(lambda key: queue.add_after(key, SETTLE_S))

    def _add_pod_groups(self) -> None:
        name = "podgroup-protection-controller"
        groups = self._informer(NATIVE_GROUPS)
        controller = self._add(
            name,
            Reconciler(PodGroupSnapshots(groups, self._pods).snapshot, decide_pod_group),
            owners=groups,
            others=[self._pods],
            executor=self._executor(name, [groups]),
        )
        self._pods.add_handler(controller.wake, BY_POD_GROUP.name)

    def _add_nodes(self, grace_s: float) -> Informer[Node]:
        name = "node-lifecycle-controller"
        nodes = self._informer(NODES)
        leases = self._informer(LEASES, selection=Selection(LEASE_NAMESPACE))
        snapshots = NodeSnapshots(nodes, leases, self._api.clock, grace_s)
        controller = self._add(
            name,
            Reconciler(snapshots.snapshot, decide_node),
            owners=nodes,
            others=[leases],
            executor=self._executor(name, [nodes]),
        )
        snapshots.watch_leases(controller.wake)
        return nodes

    def _add_volumes(self, nodes: Informer[Node], folders: Path | None) -> None:
        name = "persistentvolume-binder"
        claims = self._informer(PERSISTENT_VOLUME_CLAIMS)
        volumes = self._informer(PERSISTENT_VOLUMES, [VOLUMES_BY_CLAIM, VOLUMES_BY_CLASS])
        classes = self._informer(STORAGE_CLASSES)
        root = "" if folders is None else str(folders)
        snapshots = VolumeSnapshots(self._api, claims, volumes, classes, self._pods, nodes, root)
        executor = self._executor(name, [claims, volumes])
        of_claims = self._add(
            name,
            Reconciler(snapshots.claim, decide_claim),
            owners=claims,
            others=[volumes, classes, self._pods, nodes],
            executor=executor,
        )
        of_volumes = self._add(
            "persistentvolume-phases",
            Reconciler(snapshots.volume, decide_volume),
            owners=volumes,
            others=[claims],
            executor=executor,
        )
        volumes.add_handler(of_claims.wake, VOLUMES_BY_CLAIM.name)
        self._pods.add_handler(of_claims.wake, PODS_BY_CLAIM.name)
        claims.add_handler(snapshots.wake_volumes(of_volumes.wake))
        for informer in (volumes, classes):
            informer.add_handler(snapshots.wake_class(of_claims.wake))
        if folders is not None:
            self._manager.add("volume-folders", RemovedFolders(self._api, volumes, folders).run)

    # -- parts -------------------------------------------------------------------------------

    def _add(
        self,
        name: str,
        reconciler: Reconciler[S],
        *,
        owners: AnyInformer,
        executor: Executor,
        children: Sequence[Children] = (),
        others: Sequence[AnyInformer] = (),
        queue: WorkQueue[Key] | None = None,
    ) -> Controller[S]:
        """Add a controller to the manager. `queue` is given when others add keys to it too."""
        controller = Controller(
            name,
            reconciler,
            owners=owners,
            children=children,
            others=others,
            executor=executor,
            queue=self._queue() if queue is None else queue,
            clock=self._api.clock,
        )
        self._manager.add(name, controller.run, controller.stop)
        return controller

    def _informer(
        self,
        resource: Resource[T],
        indexes: Sequence[CacheIndex[T]] = (),
        selection: Selection = EVERYTHING,
    ) -> Informer[T]:
        informer = Informer(
            self._connect(READER),
            resource,
            clock=self._api.clock,
            random=self._random,
            selection=selection,
            indexes=indexes,
        )
        self._manager.add(f"{resource} cache", informer.run)
        return informer

    def _executor(
        self, actor: str, informers: Sequence[Observer], *, emits_events: bool = False
    ) -> Executor:
        cluster = self._connect(actor)
        if not emits_events:
            return Executor(cluster, informers=informers)
        recorder = EventRecorder(cluster, actor, clock=self._api.clock, random=self._random)
        self._manager.add(f"{actor} events", recorder.run)
        return Executor(cluster, informers=informers, events=recorder)

    def _queue(self) -> WorkQueue[Key]:
        return WorkQueue(clock=self._api.clock, random=self._random)


def _same_namespace(owner: Key) -> Selection:
    return Selection(owner.namespace)
