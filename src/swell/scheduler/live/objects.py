"""Objects on their way into the snapshot: small kinds that it mirrors, and the facts of the others.

Of a kind that changes often, an object whose facts are the same needs no decision. Nothing is
decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from swell.api.aitrainingjob import AITrainingJob
from swell.api.devices import ResourceClaim
from swell.api.meta import Key, ObjectMeta
from swell.api.pod import LabelSelector, LabelSelectorRequirement, Pod, PodSpec, PodStatus
from swell.api.policy import PodDisruptionBudget
from swell.api.resource import ApiObject
from swell.api.scheduling import PodGroup, Queue
from swell.runtime.feed import Handler
from swell.runtime.informer import Informer
from swell.scheduler.live.feed import FollowedInformer
from swell.scheduler.live.informers import SchedulerInformers
from swell.scheduler.model.devices.rules import DeviceTable
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.volumes.objects import StorageObjects

T = TypeVar("T", bound=ApiObject)
Follow = Callable[[FollowedInformer, Handler], None]
# Not an empty selector: budgets that have one protect nothing, as in Volcano. A label without a
# name cannot exist.
_EVERY_POD = LabelSelector(match_expressions=(LabelSelectorRequirement("", "DoesNotExist"),))


class _Mirror(Protocol):
    """Has functions called with each object of an informer that comes, changes or goes."""

    def __call__(
        self, informer: Informer[T], put: Callable[[T], None], remove: Callable[[str], None]
    ) -> None: ...


def mirror_small_kinds(
    informers: SchedulerInformers,
    snapshot: SchedulerSnapshot,
    follow: Follow,
    wake: Callable[[], None],
) -> None:
    """Have the snapshot follow the kinds of which every change may need a decision."""

    def mirror(
        informer: Informer[T], put: Callable[[T], None], remove: Callable[[str], None]
    ) -> None:
        def take(key: Key) -> None:
            found = informer.get(key)
            if found is None:
                remove(str(key))
            else:
                put(found)
            wake()

        follow(informer, take)

    def take_namespace(key: Key) -> None:
        found = informers.namespaces.get(key)
        if found is None:
            snapshot.remove_namespace(key.name)
        else:
            snapshot.put_namespace(key.name, found.metadata.labels)

    def put_budget(found: PodDisruptionBudget) -> None:
        if informers.budgets.unreadable(found.metadata.key):
            # Which pods it protects is not known, nor how many may go: all of its namespace stay.
            spec = msgspec.structs.replace(found.spec, selector=_EVERY_POD)
            found = PodDisruptionBudget(metadata=found.metadata, spec=spec)
        snapshot.put_budget(found)

    follow(informers.namespaces, take_namespace)
    mirror(informers.priorities, snapshot.put_priority_class, snapshot.remove_priority_class)
    mirror(informers.budgets, put_budget, snapshot.remove_budget)
    _mirror_storage(informers, snapshot, mirror)
    _mirror_devices(informers, snapshot, mirror)
    _mirror_hyper_nodes(informers, snapshot, follow, wake)


def _mirror_storage(
    informers: SchedulerInformers, snapshot: SchedulerSnapshot, mirror: _Mirror
) -> None:
    # Looked up at each change: a rebuild of the snapshot makes a new table.
    def storage() -> StorageObjects:
        return snapshot.volumes.objects

    mirror(
        informers.storage_classes,
        lambda one: storage().put_class(one),
        lambda key: storage().remove_class(key),
    )
    mirror(
        informers.volumes,
        lambda one: storage().put_volume(one),
        lambda key: storage().remove_volume(key),
    )
    mirror(
        informers.claims,
        lambda one: storage().put_claim(one),
        lambda key: storage().remove_claim(key),
    )
    mirror(
        informers.csi_nodes,
        lambda one: storage().put_csi_node(one),
        lambda key: storage().remove_csi_node(key),
    )
    mirror(
        informers.csi_drivers,
        lambda one: storage().put_csi_driver(one),
        lambda key: storage().remove_csi_driver(key),
    )
    mirror(
        informers.storage_capacities,
        lambda one: storage().put_capacity(one),
        lambda key: storage().remove_capacity(key),
    )
    mirror(
        informers.volume_attachments,
        lambda one: storage().put_attachment(one),
        lambda key: storage().remove_attachment(key),
    )


def _mirror_devices(
    informers: SchedulerInformers, snapshot: SchedulerSnapshot, mirror: _Mirror
) -> None:
    # Looked up at each change, as above.
    def devices() -> DeviceTable:
        return snapshot.devices

    mirror(
        informers.resource_slices,
        lambda one: devices().put_slice(one),
        lambda key: devices().remove_slice(key),
    )
    mirror(
        informers.device_classes,
        lambda one: devices().put_class(one),
        lambda key: devices().remove_class(key),
    )

    def put_claim(found: ResourceClaim) -> None:
        # What it asks for may be unknown; only what it has keeps devices from others.
        key = found.metadata.key
        devices().put_claim(found, informers.resource_claims.unreadable(key, but=("spec",)))

    mirror(
        informers.resource_claims,
        put_claim,
        lambda key: devices().remove_claim(key),
    )


def _mirror_hyper_nodes(
    informers: SchedulerInformers,
    snapshot: SchedulerSnapshot,
    follow: Follow,
    wake: Callable[[], None],
) -> None:
    def take(key: Key) -> None:
        found = informers.hyper_nodes.get(key)
        if found is None:
            snapshot.hyper_nodes.remove(key.name)
        elif not snapshot.hyper_nodes.put(found):
            return  # only its status has changed, which is written here
        wake()

    follow(informers.hyper_nodes, take)
    informers.hyper_nodes.on_access_changed.append(wake)


def pod_facts(pod: Pod) -> tuple[object, ...]:
    """Returns the parts of a pod that decisions depend on. The other parts change often."""
    meta, status = pod.metadata, pod.status
    return (
        status.phase,
        meta.deletion_timestamp is None,
        pod.spec,
        meta.labels,
        meta.annotations,
        status.resource_claim_statuses,
    )


def group_facts(group: PodGroup) -> tuple[object, ...]:
    return group.spec, group.metadata.annotations


def job_facts(job: AITrainingJob) -> tuple[object, ...]:
    return job.metadata.uid, job.spec.replica_specs, job.status.target_replicas, job.goes_on


def queue_facts(queue: Queue) -> tuple[object, ...]:
    return queue.spec, queue.status.state, queue.metadata.annotations


def bare_pod(pod: Pod) -> Pod:
    """Returns the pod with nothing but its identity, its node and its phase."""
    meta = pod.metadata
    return Pod(
        metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
        spec=PodSpec(node_name=pod.spec.node_name),
        status=PodStatus(phase=pod.status.phase),
    )


def pod_of_group(pod: Pod) -> Pod:
    """Returns the same with what says which group it belongs to, and so which queue."""
    bare = bare_pod(pod)
    group = pod.metadata.annotations.get(GROUP_ANNOTATION)
    annotations = {GROUP_ANNOTATION: group} if group else {}
    replace = msgspec.structs.replace
    return replace(
        bare,
        metadata=replace(bare.metadata, annotations=annotations),
        spec=replace(
            bare.spec,
            scheduler_name=pod.spec.scheduler_name,
            scheduling_group=pod.spec.scheduling_group,
        ),
    )
