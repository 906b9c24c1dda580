"""The plugin network-topology-aware keeps gangs in one part of the network, and packs its parts.

It offers gradients, so that a gang stays within the tiers that it asks for; and it scores domains
for gangs and nodes for pods, fuller domains first. Where there is no tree it scores nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from swell.scheduler.config import Arguments, PluginOption, number_in
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.domains import Domains
from swell.scheduler.hooks import DomainScores, GatheringScores, Hooks
from swell.scheduler.model.domain_tree import DomainTree, Indexes, NearCells
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import Matrix, Vector
from swell.scheduler.model.sub_groups import SubGroup
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus
from swell.scheduler.session import Session
from swell.scheduler.topology_labels import LABELS, LABELS_OF, lists_in
from swell.scheduler.topology_labels import problems as label_problems
from swell.scheduler.topology_labels import remarks as label_remarks

NAME: Final = "network-topology-aware"
WEIGHT: Final = "weight"
CPU: Final = "hypernode.binpack.cpu"
MEMORY: Final = "hypernode.binpack.memory"
RESOURCES: Final = "hypernode.binpack.resources"
_OF_RESOURCE: Final = "hypernode.binpack.resources."
NORMAL_PODS: Final = "hypernode.binpack.normal-pod.enable"
FADING: Final = "hypernode.binpack.normal-pod.fading"
EVICT_MAX: Final = "hypernode.gradient.evict.max-hypernodes"
_FADING_DEFAULT = 0.8  # Volcano's
_SCORE_MAX = 100.0  # of a plugin with weight 1, as in kube-scheduler
# Shares are compared for equality; sums of the same amounts in another order must be equal, too.
_DIGITS = 9
_FULL = 1.0 + 0.5 * 10.0**-_DIGITS
# The divisor where a domain has nothing of a resource; amounts are whole numbers, or 0.
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class TopologyArguments:
    """The arguments, with their defaults in the place of negative values."""

    weight: float
    resources: dict[str, float]
    scores_normal_pods: bool
    fading: float


def arguments_of(arguments: Arguments) -> TopologyArguments:
    def weight(name: str, default: float = 1.0) -> float:
        value = arguments.number(name, default)
        return default if value < 0 else value

    resources = {"cpu": weight(CPU), "memory": weight(MEMORY)}
    for name in arguments.text(RESOURCES).split(","):
        if name.strip():
            resources[name.strip()] = weight(f"{_OF_RESOURCE}{name.strip()}")
    return TopologyArguments(
        weight=weight(WEIGHT),
        resources=resources,
        scores_normal_pods=arguments.flag(NORMAL_PODS, default=True),
        fading=weight(FADING, _FADING_DEFAULT),
    )


def open_network_topology(session: Session, option: PluginOption) -> Hooks:
    has_tree = bool(session.snapshot.hyper_nodes) or bool(lists_in(session.config))
    if not has_tree and not session.snapshot.label_domains.jobs:
        return Hooks(offers_gradients=True)
    arguments = arguments_of(option.arguments)
    known: dict[str, _TopologyScores] = {}

    def scores_for(domains: Domains) -> _TopologyScores:
        if domains.label not in known:
            known[domains.label] = _TopologyScores(session, arguments, domains)
        return known[domains.label]

    def of_domains(job: JobInfo, part: SubGroup | None) -> DomainScores:
        return scores_for(session.domains_for(job)).of_domains(job, part)

    def of_nodes(task: Task) -> GatheringScores | None:
        domains = session.domains if task.job is None else session.domains_for(task.job)
        return scores_for(domains).of_nodes(task) if domains.has_tree else None

    return Hooks(offers_gradients=True, domain_score=of_domains, gathering_score=of_nodes)


class _TopologyScores:
    """Scores domains and nodes by how full domains are and where the pods of a gang are."""

    def __init__(self, session: Session, arguments: TopologyArguments, domains: Domains) -> None:
        self._session = session
        self._arguments = arguments
        self._domains = domains
        self.tree: DomainTree = self._domains.tree
        dimensions = session.snapshot.dimensions
        weights = {dimensions.known(name): w for name, w in arguments.resources.items()}
        # A resource that no object names counts with its weight, and is used nowhere.
        self._total_weight = sum(arguments.resources.values())
        self._rows = np.array([r for r in weights if r is not None], dtype=np.intp)
        total = self._total_weight or 1.0
        self.weights = [w / total for r, w in weights.items() if r is not None]
        nodes = session.snapshot.nodes
        ready = nodes.ready
        allocatable = self.tree.sums(nodes.allocatable[self._rows] * ready)
        # Nothing of nothing is no share, and anything of nothing is far too much.
        self._divisor = np.where(allocatable > 0, allocatable, _NOTHING)
        self.has: list[list[float]] = self._divisor.T.tolist()
        self._position = len(nodes.changes)
        self._are_ready = bool(ready.all())
        self._used_at = self._used_by_node()
        self._used = self.tree.sums(self._used_at)
        self._cells = self.tree.cells
        self.tiers = _FadingTiers(self.tree, arguments.fading, _SCORE_MAX * arguments.weight)

    def of_domains(self, job: JobInfo, part: SubGroup | None) -> DomainScores:
        """Returns the score of every domain for the pods of a job or sub-group.

        Of the fullest, those that have most of its pods already are better.
        """
        tasks = job.tasks if part is None else part.tasks
        request = np.zeros(len(self._rows))
        placed: list[int] = []
        for task in tasks.values():
            if task.status is TaskStatus.PENDING:
                request += task.shape.request[self._rows]
            elif task.node != NOWHERE:
                placed.append(task.node)
        highest = _SCORE_MAX * self._arguments.weight
        score = np.round(self._packing(request), _DIGITS) * highest
        return DomainScores(score, self._counts(placed) / max(len(tasks), 1) * highest)

    def of_nodes(self, task: Task) -> GatheringScores | None:
        """Returns the score of every node: by distance for a gang's pod, else by packing."""
        job = task.job
        if job is not None and job.is_constrained:
            part = task.sub_group
            if self._domains.limit_of_part(job, part) is not None:
                return self._by_distance(job.tasks if part is None else part.tasks)
        if not self._arguments.scores_normal_pods:
            return None
        self._follow()
        request = task.shape.request[self._rows]
        packing = self._packed(self._used, request)
        padded = np.append(packing, 1.0)  # a node in no domain of a tier counts as in a full one

        def ahead() -> Callable[[int, int], tuple[Indexes, Vector]]:
            return _PackingAhead(self, padded, request.tolist()).placed

        return GatheringScores(self.tiers.of_all(padded), self._cells, ahead=ahead)

    def used_of(self, domain: int) -> list[float]:
        found: list[float] = self._used[:, domain].tolist()
        return found

    def _by_distance(self, tasks: dict[str, Task]) -> GatheringScores:
        """Scores nodes by how close they are to the pods of the gang that have nodes."""
        tree, cells = self.tree, self._cells
        leaves = tree.leaf[cells.firsts]
        held = self._domains.held_by(tasks.values(), hosts=False)
        if held is None:
            # The first pod may be anywhere, and decides for the next.
            nowhere = np.zeros(len(cells.of_node), dtype=np.bool_)
            return GatheringScores(np.zeros(len(leaves)), cells, nowhere)
        top, lowest = tree.root_tier, tree.lowest_tier
        score = np.ones(len(leaves))
        if top > lowest:
            score = (top - tree.common_tiers(held)[leaves]) / (top - lowest)
        score[leaves == held] = 1.0
        score[leaves == tree.root] = 0.0  # nodes in no domain
        placed = [task.node for task in tasks.values() if task.node != NOWHERE]
        counts = np.bincount(tree.leaf[placed], minlength=len(tree.names)).astype(float)
        counts[tree.root] = 0.0
        score = self._with_shares(score, counts[leaves], len(tasks))
        score *= _SCORE_MAX * self._arguments.weight
        # A pod elsewhere than in the held domain widens it, and all scores with it.
        settled = tree.is_below(held)[leaves] & (leaves != tree.root)
        return GatheringScores(score, cells, settled[cells.of_node])

    def _with_shares(self, score: Vector, counts: Vector, n_tasks: int) -> Vector:
        """Adds to the highest scores the share of the pods that are in the domain already."""
        score = np.round(score, _DIGITS)
        is_best = score == score.max()
        return np.where(is_best, score + counts / max(n_tasks, 1), score)

    def _packing(self, request: Vector) -> Vector:
        """Returns how full each domain would be with a request, 0 where it would be too full."""
        self._follow()
        return self._packed(self._used, request)

    def _packed(self, used: Matrix, request: Vector) -> Vector:
        shares = (used + request[:, None]) / self._divisor
        total: Vector = np.dot(self.weights, shares)
        for of_resource in shares:
            total[of_resource > _FULL] = 0.0
        return total

    def _counts(self, places: list[int]) -> Vector:
        per_node = np.bincount(places, minlength=len(self.tree.leaf)).astype(float)
        counts: Vector = self.tree.sums(per_node[None, :])[0]
        return counts

    def _used_by_node(self) -> Matrix:
        """Returns what is used of the resources on each node: one column a node."""
        nodes = self._session.snapshot.nodes
        used = nodes.states.used(nodes.state_of(), self._rows)
        used[:, ~nodes.ready] = 0.0
        return used

    def _follow(self) -> None:
        """Brings the sums up to date with what the session has placed and taken back."""
        nodes = self._session.snapshot.nodes
        position = len(nodes.changes)
        if position == self._position:
            return
        # Each once, in whatever order: amounts are whole numbers, so their sums are exact.
        changed = np.array([*{*nodes.changes[self._position :]}], dtype=np.intp)
        self._position = position
        # By their states: to read the matrices would bring them up to date for every gang.
        now = nodes.states.used(nodes.state_of(changed), self._rows)
        if not self._are_ready:
            now[:, ~nodes.ready[changed]] = 0.0
        difference = now - self._used_at.take(changed, axis=1)
        self._used_at[:, changed] = now
        self.tree.add(self._used, changed, difference)


class _PackingAhead:
    """The packing of domains as it will be when more pods of one request are placed.

    Few domains change with a pod, one of each tier, so they are counted one by one. That of the
    root changes for all nodes alike, so it stays as it is, and only cells near the pod change.
    """

    def __init__(self, scores: _TopologyScores, padded: Vector, request: list[float]) -> None:
        self._scores = scores
        self._padded = padded
        self._request = request
        self._used: dict[int, list[float]] = {}  # by domain

    def placed(self, node: int, n: int) -> tuple[Indexes, Vector]:
        """Returns the cells near a node with their scores, with n more pods there or beside it."""
        scores, near = self._scores, self._scores.tree.near(node)
        for domain in near.domains:
            used = self._used.get(domain)
            if used is None:
                used = self._used[domain] = scores.used_of(domain)
            self._padded[domain] = self._fill(used, scores.has[domain], n)
        return near.cells, scores.tiers.of_some(self._padded, near)

    def _fill(self, used: list[float], has: list[float], n: int) -> float:
        """Adds n requests to what is used of a domain; returns its packing with one more."""
        total, weights = 0.0, self._scores.weights
        for place, asked in enumerate(self._request):
            used[place] += n * asked
            share = (used[place] + asked) / has[place]
            if share > _FULL:
                total = -math.inf
            total += weights[place] * share
        return max(total, 0.0)


class _FadingTiers:
    """Combines the packing of a node's domains to the score of its cell, higher tiers faded.

    It is given the packing of all domains, and that of a node in no domain of a tier at the end.
    """

    def __init__(self, tree: DomainTree, fading: float, highest: float) -> None:
        tiers = range(tree.lowest_tier, tree.root_tier + 1)
        weights = {tier: _fade(fading, tier, tree.lowest_tier) for tier in tiers}
        total = sum(weights.values()) / highest
        # By tier that counts: the domain of each cell.
        layers = {
            tier: layer[tree.cells.firsts]
            for tier in tiers
            if weights[tier] and (layer := tree.at_tier(tier)) is not None
        }
        self._weights = np.array([weights[tier] / total for tier in layers])
        self._domains = np.array(list(layers.values()), dtype=np.intp)
        # No node is in a domain of the other tiers.
        self._constant = sum(weights[tier] for tier in tiers if tier not in layers) / total
        self._near: dict[int, Indexes] = {}  # by cell: the domains of the cells near it

    def of_all(self, padded: Vector) -> Vector:
        """Returns the score of every cell."""
        total: Vector = np.dot(self._weights, padded[self._domains])
        total += self._constant
        return total

    def of_some(self, padded: Vector, near: NearCells) -> Vector:
        """Returns the scores of the cells near one."""
        domains = self._near.get(near.cell)
        if domains is None:
            domains = self._near[near.cell] = self._domains[:, near.cells]
        total: Vector = np.dot(self._weights, padded[domains])
        total += self._constant
        return total


def _fade(fading: float, tier: int, lowest: int) -> float:
    if fading == 0:
        return float(tier == lowest)  # the lowest tier only, whatever its number
    return math.pow(fading, tier - 1)


def remarks(option: PluginOption) -> Iterator[str]:
    """Yields which arguments have no effect."""
    listed = [name.strip() for name in option.arguments.text(RESOURCES).split(",")]
    for name, value in option.arguments.values.items():
        resource = name.removeprefix(_OF_RESOURCE)
        if name.startswith(_OF_RESOURCE) and resource not in listed:
            yield f"argument {name!r} has no effect: list {resource} in {RESOURCES!r} as well"
        elif name not in {RESOURCES, NORMAL_PODS} and (number_in(value) or 0.0) < 0:
            yield f"argument {name!r} has no effect: {value!r} is negative, the default counts"
    yield from label_remarks(option)


KNOWN: Final = KnownPlugin(
    switches=("enabledHyperNodeGradient", "enabledHyperNodeOrder", "enableNodeOrder"),
    arguments={
        WEIGHT: ArgumentKind.NUMBER,
        CPU: ArgumentKind.NUMBER,
        MEMORY: ArgumentKind.NUMBER,
        RESOURCES: ArgumentKind.TEXT,
        _OF_RESOURCE: ArgumentKind.NUMBER,
        NORMAL_PODS: ArgumentKind.FLAG,
        FADING: ArgumentKind.NUMBER,
        EVICT_MAX: ArgumentKind.NUMBER,
        LABELS: ArgumentKind.TEXT,
        LABELS_OF: ArgumentKind.TEXT,
    },
    remarks=remarks,
    problems=label_problems,
)
