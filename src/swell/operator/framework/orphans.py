"""Deletes the objects that deleted jobs left behind, and pods whose node will never report again.

Owner references and finalizers delete nearly everything. Two cases remain: a child created by a
write that arrived when its job was gone already, and a pod on a node that died. The rules are pure
functions; `OrphanCollector` reads, applies them and deletes. Where a kind names the labels of a
former controller, objects without any owner that carry one of them and belong to no job are
orphans as well.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from swell.api.kinds import PODS
from swell.api.meta import ApiStruct, Key, ObjectMeta, OwnerReference, Uid
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.api.times import parse_time
from swell.operator.framework.fencing import NodeState, drop_record, is_fenced
from swell.operator.framework.settings import OperatorSettings
from swell.runtime.cache import StaleListError, parse_version
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Malformed, Selection
from swell.runtime.errors import ClusterError, NotFoundError, UnreachableError
from swell.runtime.executor import Executor
from swell.runtime.logs import get_logger
from swell.runtime.plan import Action, DeleteObject, Plan

log = get_logger(__name__)

_PAGE = 500
# How long the node watch gets to read the nodes it was asked about.
_READ_S = 2.0


@dataclass(frozen=True, slots=True)
class OrphanRules:
    """Where one job kind's orphans are found, and how they are recognised.

    `kinds` are listed in this order: a kind that owns others comes after them, so that an owner
    missing from its list is gone and not merely newer than the list. `label` is the selector all
    children match. `pod_owners` are the kinds that create the pods: the job itself, or workloads
    among `kinds`. Where children carry the UID of their job in the label `uid_label`, none is an
    orphan while that job exists. `former_labels` are those with which another controller, which
    gave its objects no owner, named the job of each object; empty where its orphans are not ours.
    """

    jobs: Resource[object]
    kinds: tuple[Resource[object], ...]
    label: str
    pod_owners: tuple[Resource[object], ...]
    uid_label: str = ""
    propagation: str | None = None
    former_labels: tuple[str, ...] = ()

    def is_ours(self, pod: Pod) -> bool:
        """Whether a pod with the label was created by one of `pod_owners`."""
        owner = pod.metadata.controller
        return owner is not None and any(is_kind(owner, kind) for kind in self.pod_owners)


@dataclass(frozen=True, slots=True)
class LabelledObject:
    """The metadata of an object that carries a kind's label."""

    resource: Resource[object]
    metadata: ObjectMeta


def orphans(
    rules: OrphanRules, found: Sequence[LabelledObject], jobs: Container[Uid]
) -> list[DeleteObject]:
    """Delete what belongs to a job that does not exist, or to a workload that is not among `found`.

    `jobs` are the UIDs of the jobs there are, listed after `found`. Owners count by UID alone: a
    new job of the same name owns none of the old one's objects.
    """
    workload_kinds = {str(kind) for kind in rules.pod_owners}
    workloads = {one.metadata.uid for one in found if str(one.resource) in workload_kinds}
    return [
        DeleteObject(one.resource, meta.key, meta.uid, propagation=rules.propagation)
        for one in found
        if (meta := one.metadata).deletion_timestamp is None
        and _is_labelled(meta, rules.label)
        and _job_is_gone(meta, rules.uid_label, jobs)
        and _owner_is_gone(one, rules, workloads, jobs)
    ]


def former_orphans(
    rules: OrphanRules, found: Sequence[LabelledObject], jobs: Container[Key]
) -> list[DeleteObject]:
    """Delete what a former controller left of jobs that do not exist.

    Only an object without any owner is left over: one that has an owner is that owner's, whatever
    its labels say. `jobs` are the keys of the jobs there are, listed after `found`; a job is known
    by its name, since the former controller recorded no UIDs.
    """
    return [
        # The version keeps the object if somebody has taken it over since.
        DeleteObject(
            one.resource,
            meta.key,
            meta.uid,
            propagation=rules.propagation,
            version=meta.resource_version,
        )
        for one in found
        if not (meta := one.metadata).owner_references
        and meta.deletion_timestamp is None
        and rules.uid_label not in meta.labels
        and (names := [meta.labels[one] for one in rules.former_labels if meta.labels.get(one)])
        and not any(Key(meta.namespace, name) in jobs for name in names)
    ]


def stuck_pods(
    pods: Iterable[Pod], states: Mapping[str, NodeState], fence_after_s: float, now: float
) -> list[DeleteObject]:
    """Drop the records of pods that are long past their deletion, on fenced nodes."""
    return [
        drop_record(pod)
        for pod in pods
        if pod.metadata.deletion_timestamp is not None
        and now > parse_time(pod.metadata.deletion_timestamp) + fence_after_s
        and is_fenced(pod, states, fence_after_s, now)
    ]


def is_kind(owner: OwnerReference, resource: Resource[object]) -> bool:
    """Whether an owner is of a kind, in any version of its API group."""
    group = owner.api_version.partition("/")[0]
    return owner.kind == resource.kind and group == resource.group


def _is_labelled(meta: ObjectMeta, selector: str) -> bool:
    name, has_value, value = selector.partition("=")
    held = meta.labels.get(name)
    return held == value if has_value else bool(held)


def _job_is_gone(meta: ObjectMeta, uid_label: str, jobs: Container[Uid]) -> bool:
    return not uid_label or Uid(meta.labels.get(uid_label, "")) not in jobs


def _owner_is_gone(
    one: LabelledObject, rules: OrphanRules, workloads: Container[Uid], jobs: Container[Uid]
) -> bool:
    owner = one.metadata.controller
    if owner is None:
        return False
    kinds = rules.pod_owners if str(one.resource) == str(PODS) else (rules.jobs,)
    if not any(is_kind(owner, kind) for kind in kinds):
        return False
    return owner.uid not in jobs and owner.uid not in workloads


class OnlyMetadata(ApiStruct, frozen=True):
    """Any object, decoded as far as its metadata."""

    metadata: ObjectMeta = ObjectMeta()


class OrphanCollector:
    """Lists consistently, applies the rules, deletes; then waits for the next period."""

    def __init__(
        self,
        cluster: Cluster,
        rules: OrphanRules,
        settings: OperatorSettings,
        *,
        clock: Clock,
        pods: Callable[[], Iterable[Pod]],
        node_states: Callable[[Iterable[str]], Mapping[str, NodeState]],
    ) -> None:
        self._cluster = cluster
        self._executor = Executor(cluster, clock=clock)
        self._rules = rules
        self._settings = settings
        self._clock = clock
        self._pods = pods
        self._node_states = node_states

    async def run(self) -> None:
        """Collect once a period until cancelled."""
        while True:
            await self._clock.sleep(self._settings.gc_period_s)
            try:
                await self.collect()
            except (ClusterError, UnreachableError, StaleListError, TimeoutError) as error:
                log.info("garbage not collected", why=str(error))

    async def collect(self) -> None:
        """Delete the orphans and the stuck pods there are now."""
        await self._delete(await self._orphans())
        await self._delete(await self._stuck())

    async def _delete(self, actions: Iterable[Action]) -> None:
        decided_s = self._clock.monotonic()
        for action in actions:
            # One plan for each: a delete that fails must not keep the others from going.
            outcome = await self._executor.execute(Plan((action,)), decided_s=decided_s)
            failure = outcome.worst
            log.info(
                "garbage deleted",
                what=f"{action.resource} {action.key}",
                failure=failure.message if failure else "",
            )

    async def _orphans(self) -> Iterable[Action]:
        """An object is created after its owner, so owners are listed after it, and jobs last."""
        rules = self._rules
        found, version = await self._labelled(rules.label, 0)
        former: dict[Uid, LabelledObject] = {}
        for label in rules.former_labels:
            some, version = await self._labelled(label, version)
            former |= {one.metadata.uid: one for one in some}
        if not found and not former:
            return ()
        # Not found is an error here: a server that does not serve the job kind does not say that
        # there are no jobs.
        jobs, _ = await self._list(rules.jobs, "", version)
        keys = frozenset(one.metadata.key for one in jobs)
        return [
            *orphans(rules, found, frozenset(one.metadata.uid for one in jobs)),
            *former_orphans(rules, list(former.values()), keys),
        ]

    async def _labelled(self, label: str, version: int) -> tuple[list[LabelledObject], int]:
        """The objects of every kind that match a selector, and the version of the last list."""
        found: list[LabelledObject] = []
        for resource in self._rules.kinds:
            try:
                some, version = await self._list(resource, label, version)
            except NotFoundError:
                continue  # a kind this cluster does not have
            found += some
        return found, version

    async def _list(
        self, resource: Resource[object], label: str, after: int
    ) -> tuple[list[LabelledObject], int]:
        """All objects of a kind, and the version of the list; StaleListError before `after`."""
        bare = Resource(
            resource.group,
            resource.version,
            resource.kind,
            resource.plural,
            OnlyMetadata,
            resource.namespaced,
        )
        selection = Selection(self._settings.namespace, labels=label)
        found: list[LabelledObject] = []
        token = ""
        while True:
            page = await self._cluster.list(bare, selection, limit=_PAGE, continue_token=token)
            version = parse_version(page.resource_version)
            if version < after:
                # From a server that lags behind: what it lacks may merely be new to it.
                raise StaleListError(version, after)
            found += [LabelledObject(resource, item.metadata) for item in page.items]
            found += [LabelledObject(resource, _identity(one)) for one in page.malformed]
            token = page.continue_token
            if not token:
                return found, version

    async def _stuck(self) -> Iterable[Action]:
        # The first question makes the node watch read the nodes it is not certain about; the
        # second one gets its answers.
        if not self._node_states(self._nodes_of_leaving()):
            return ()
        await self._clock.sleep(_READ_S)
        states = self._node_states(self._nodes_of_leaving())
        ours = filter(self._rules.is_ours, self._pods())
        return stuck_pods(ours, states, self._settings.node_fence_after_s, self._clock.now())

    def _nodes_of_leaving(self) -> dict[str, None]:
        return dict.fromkeys(
            pod.spec.node_name
            for pod in filter(self._rules.is_ours, self._pods())
            if pod.metadata.deletion_timestamp is not None and pod.spec.node_name
        )


def _identity(malformed: Malformed) -> ObjectMeta:
    key = malformed.key
    return ObjectMeta(name=key.name, namespace=key.namespace, uid=malformed.uid)
