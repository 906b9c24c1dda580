"""The domains of a session: where a gang may be, where it is, and how much room each domain has.

A limit is the highest tier of a domain that may hold all pods of a gang or sub-group; None means
that there is none. The rules are Volcano's, with the differences of ADR 95. Nothing is placed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from swell.api.scheduling import NetworkTopology
from swell.scheduler.config import Config
from swell.scheduler.model.domain_tree import DomainTree, Indexes, build_tree
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.nodes import slots
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.resources import TOLERANCE, Mask, Vector
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.sub_groups import NO_POLICY, SubGroup
from swell.scheduler.model.tasks import ALLOCATED, NOWHERE, Shape, Task, TaskStatus
from swell.scheduler.topology_labels import lists_in

if TYPE_CHECKING:
    from swell.scheduler.session import Session

SOFT = "soft"
# Tasks that decide where a gang is: those with a node, and those with a promised one.
_STANDING = frozenset({*ALLOCATED, TaskStatus.PIPELINED})
_STANDING_OR_UNKNOWN = frozenset({*_STANDING, TaskStatus.UNKNOWN})


def tree_of(snapshot: SchedulerSnapshot, config: Config) -> DomainTree | None:
    """Returns the tree of HyperNodes, or without any that of the labels in a configuration.

    They are never mixed: two descriptions of one network would contradict each other.
    """
    found = snapshot.hyper_nodes.tree(snapshot.nodes)
    if found is not None:
        return found
    lists = lists_in(config)
    return snapshot.label_topology.tree(lists, snapshot.nodes) if lists else None


class Domains:
    """The tree of domains as one session sees it: by HyperNodes, or by labels where there are none.

    Without either it is the root alone.

    With a label key it is the tree of that label's values, which native groups ask for.
    """

    def __init__(self, session: Session, label: str = "") -> None:
        self._session = session
        self._nodes = session.snapshot.nodes
        self.label = label
        found = (
            session.snapshot.label_domains.tree(label, self._nodes)
            if label
            else tree_of(session.snapshot, session.config)
        )
        self.tree: DomainTree = build_tree((), self._nodes) if found is None else found
        self.has_tree = found is not None
        self.by_labels = self.has_tree and not session.snapshot.hyper_nodes
        self._gradients: dict[tuple[int, int, int], list[Indexes]] = {}
        self._rooms: dict[tuple[Shape, bool], tuple[int, Vector]] = {}

    # --- limits

    def limit_of(self, job: JobInfo) -> int | None:
        """Returns the highest tier that the job may span."""
        return self._limit(job.topology, self.tree.root_tier)

    def limit_of_part(self, job: JobInfo, part: SubGroup | None) -> int | None:
        """Returns the same for a sub-group, or for all pods of a job without sub-groups."""
        of_job = self.limit_of(job)
        if part is None or part.policy == NO_POLICY:
            return of_job
        # A sub-group that only prefers to be close does so within the limit of its job.
        return self._limit(part.topology, self.tree.root_tier if of_job is None else of_job)

    def is_limited(self, job: JobInfo) -> bool:
        """Whether the job, or a sub-group of it, may not be everywhere."""
        limits = [self.limit_of(job)]
        limits += [self.limit_of_part(job, part) for part in job.sub_groups or ()]
        return any(limit is not None and limit < self.tree.root_tier for limit in limits)

    def not_applied(self, job: JobInfo) -> str:
        """Returns why a constraint of the job has no effect; empty if all have."""
        if self.label:
            return ""
        asked = _constraints_of(job)
        if asked and not self._session.votes.offers_gradients:
            return "no plugin for it is configured: add network-topology-aware"
        for one in asked:
            name = one.highest_tier_name
            if one.mode != SOFT and name and self._limit(one, 0) is None:
                kind = "label list" if self.by_labels else "HyperNode"
                return f"no {kind} has the tier name {name!r}"
        if any(one.mode != SOFT for one in asked) and not self.has_tree:
            return "there is no HyperNode"
        return ""

    def hidden_tree(self, job: JobInfo) -> Refusal | None:
        """Returns the refusal of a job with a hard constraint where HyperNodes may not be read.

        Without them it could be anywhere, and nothing tells whether there are none.
        """
        is_hard = any(one.mode != SOFT for one in _constraints_of(job))
        if self.has_tree or not is_hard or not self._session.votes.offers_gradients:
            return None
        text = "its topology is required, and the scheduler may not read HyperNodes"
        return Refusal(WaitReason.TOPOLOGY_HIDDEN, text)

    def unknown_level(self, job: JobInfo) -> Refusal | None:
        """Returns the refusal of a job whose pods' annotations name a level that there is not.

        Or one that slices cannot be within.
        """
        if not self._session.votes.offers_gradients:
            return None  # it is placed without, and that is reported: see `not_applied`
        tiers = self.tree.tier_names
        for level in job.levels:
            if level not in tiers:
                known = ", ".join(sorted(tiers)) or "none: set topology.labels"
                text = f"no level of the network is called {level!r}; known: {known}"
                return Refusal(WaitReason.TOPOLOGY_LEVEL, text)
        outer = (job.topology.highest_tier_name if job.topology else "") or job.starts_at
        for policy in job.sub_groups.policies if job.sub_groups and outer else ():
            inner = policy.network_topology.highest_tier_name if policy.network_topology else ""
            if inner and tiers[inner] >= tiers[outer]:
                text = f"slices within {inner!r} are not below {outer!r}, the level of all pods"
                return Refusal(WaitReason.TOPOLOGY_NOT_SUPPORTED, text)
        return None

    def limit_by(self, topology: NetworkTopology) -> int | None:
        """Returns the highest tier that a constraint allows, by itself."""
        return self._limit(topology, self.tree.root_tier)

    def _limit(self, topology: NetworkTopology | None, if_soft: int) -> int | None:
        # A label needs no plugin: the API promises that the constraint holds.
        if topology is None or not (self.label or self._session.votes.offers_gradients):
            return None
        if topology.mode == SOFT:
            return if_soft
        if topology.highest_tier_allowed is not None:
            return topology.highest_tier_allowed
        return self.tree.tier_names.get(topology.highest_tier_name)

    def starts_at(self, limit: int, level: str = "") -> int:
        """Returns the closest tier that is looked at for a constraint.

        A preferred level is the first to be tried. Single nodes count as domains only for
        constraints that name them.
        """
        tree = self.tree
        if level in tree.tier_names:
            return tree.tier_names[level]
        is_host = tree.host_tier is not None and limit <= tree.host_tier
        return tree.host_tier if is_host and tree.host_tier is not None else tree.lowest_tier

    # --- where a gang is, and where it may be

    def held_by(self, tasks: Iterable[Task], *, hosts: bool = True) -> int | None:
        """Returns the lowest domain that has all these tasks' nodes; None without any node.

        Without `hosts` a single node is no domain.
        """
        places = {
            task.node
            for task in tasks
            if task.node != NOWHERE and task.status in _STANDING_OR_UNKNOWN
        }
        return self.tree.holding(places, hosts=hosts) if places else None

    def widest(self, limit: int, held: int) -> int | None:
        """Returns the highest domain around a held one within the limit; None if there is none."""
        allowed = [one for one in self.tree.lineages[held] if self.tree.tiers[one] <= limit]
        return allowed[-1] if allowed else None

    def gradients(
        self, limit: int | None, inside: int, held: int | None, level: str = ""
    ) -> list[Indexes]:
        """Returns the domains to try, in groups of one tier, the lowest first.

        `level` is the one that a soft constraint begins with, if not the closest.
        """
        tree, base = self.tree, inside
        if limit is None:
            return [np.array([inside])]
        if held is not None:
            widest = self.widest(limit, held)
            if widest is None:
                return []
            if tree.contains(inside, widest):
                base = widest
            elif not tree.contains(widest, inside):
                return []
        start = min(self.starts_at(limit, level), int(tree.tiers[base]))
        found = self._gradients.get((limit, base, start))
        if found is None:
            in_tiers = (tree.tiers <= limit) & (tree.tiers >= start)
            within = np.flatnonzero(tree.is_below(base) & in_tiers)
            tiers = np.unique(tree.tiers[within]).tolist()
            found = [within[tree.tiers[within] == tier] for tier in tiers]
            self._gradients[limit, base, start] = found
        return found

    def within(self, limit: int) -> Indexes:
        """Returns all domains that a constraint with this limit is about."""
        tiers = self.tree.tiers
        return np.flatnonzero((tiers <= limit) & (tiers >= self.starts_at(limit)))

    def nodes_of(self, domain: int) -> Mask | None:
        """Returns the nodes of a domain; None for all, where it is the root."""
        if domain == self.tree.root:
            return None
        mask = np.zeros(len(self._nodes), dtype=np.bool_)
        mask[self.tree.members[domain]] = True
        return mask

    def nodes_within(self, limit: int | None, held: int | None) -> Mask | None:
        """Returns the nodes that a task of a gang may use beside the others; None for all."""
        tree = self.tree
        if limit is None or limit >= tree.root_tier:
            return None
        mask = np.zeros(len(self._nodes), dtype=np.bool_)
        if held is None:
            mask[tree.places[tree.tiers[tree.owners] <= limit]] = True
        elif (widest := self.widest(limit, held)) is not None:
            mask[tree.members[widest]] = True
        return mask

    # --- room

    def room_for(self, shape: Shape, *, now: bool) -> Vector:
        """Returns how many tasks of the shape each domain takes: now, or once all have left."""
        position = len(self._nodes.changes)
        known = self._rooms.get((shape, now))
        if known is None or known[0] != position:
            room = self._nodes.idle if now else self._nodes.future
            allowed = self._session.placer.allowed(shape)
            per_node = np.where(allowed, slots(shape, room), 0.0)
            known = (position, self.tree.sums(per_node[None, :])[0])
            self._rooms[shape, now] = known
        return known[1]

    def capacity_for(self, tasks: Sequence[Task], *, now: bool) -> Vector:
        """Returns how many of these tasks each domain takes, counted by shape.

        It is an upper bound: tasks of several shapes compete for the same room.
        """
        n_alike: dict[Shape, int] = {}
        for task in tasks:
            n_alike[task.shape] = n_alike.get(task.shape, 0) + 1
        total = np.zeros(len(self.tree.names))
        for shape, n in n_alike.items():
            total += np.minimum(self.room_for(shape, now=now), n)
        return total

    def holds_minimum(self, job: JobInfo) -> Mask:
        """Returns the domains whose idle or future sum is not below the job's minResources."""
        asked = job.asks_for_admission()
        if asked is None:
            return np.ones(len(self.tree.names), dtype=np.bool_)
        ready = self._nodes.ready
        enough = np.zeros(len(self.tree.names), dtype=np.bool_)
        for room in (self._nodes.idle, self._nodes.future):
            sums = self.tree.sums(room * ready)
            asks = asked[: len(sums)]
            enough |= (asks[:, None] <= sums + TOLERANCE)[asks > 0].all(axis=0)
        return enough


def not_applied(session: Session, jobs: Iterable[JobInfo]) -> Iterator[tuple[str, str]]:
    """Yields the jobs with a network topology that has no effect, and why."""
    for job in jobs:
        if job.is_constrained and (why := session.domains_for(job).not_applied(job)):
            yield job.key, why


@dataclass(frozen=True, slots=True)
class ChosenDomain:
    """The domain that has the pods of a job or sub-group, and the mode that it asked for."""

    name: str
    tier: int
    mode: str


def domains_of(session: Session) -> Iterator[tuple[str, ChosenDomain]]:
    """Yields the domain of each job and sub-group that the session has placed tasks of."""
    placed = {task.job.key: task.job for task in session.binds if task.job is not None}
    for job in placed.values():
        if not job.is_constrained:
            continue
        domains, own = session.domains_for(job), job.topology
        if own is not None:
            yield from _chosen(domains, job.key, own, job.tasks.values())
        for part in job.sub_groups or ():
            if part.policy != NO_POLICY and part.topology is not None:
                key = f"{job.key}/{part.name}"
                yield from _chosen(domains, key, part.topology, part.tasks.values())


def _chosen(
    domains: Domains, key: str, topology: NetworkTopology, tasks: Iterable[Task]
) -> Iterator[tuple[str, ChosenDomain]]:
    tree, limit = domains.tree, domains.limit_by(topology)
    names_hosts = limit is not None and limit < tree.lowest_tier
    held = domains.held_by(tasks, hosts=names_hosts)
    if held is not None:
        mode = SOFT if topology.mode == SOFT else "hard"
        yield key, ChosenDomain(tree.names[held], int(tree.tiers[held]), mode)


def _constraints_of(job: JobInfo) -> list[NetworkTopology]:
    """Returns the constraints of a job and of its sub-groups."""
    given = [job.topology]
    policies = job.group.spec.sub_group_policy
    policies = policies if job.sub_groups is None else job.sub_groups.policies
    given += [policy.network_topology for policy in policies]
    return [one for one in given if one is not None]
