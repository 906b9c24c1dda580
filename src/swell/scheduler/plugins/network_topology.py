"""The plugin network-topology-aware keeps gangs in one part of the network, and packs its parts.

It offers gradients, so that a gang stays within the tiers that it asks for; and it scores domains
for gangs and nodes for pods, fuller domains first. Where there is no tree it scores nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from swell.scheduler.config import Arguments, PluginOption, number_in
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.domains import Domains
from swell.scheduler.gathering import SCORE_STEPS
from swell.scheduler.hooks import DomainScores, GatheringScores, Hooks
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import Vector
from swell.scheduler.model.sub_groups import SubGroup
from swell.scheduler.model.tasks import NOWHERE, Shape, Task, TaskStatus
from swell.scheduler.plugins.domain_packing import (
    DIGITS,
    DomainSums,
    FadingTiers,
    PackingAhead,
)
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
        self._arguments = arguments
        self._domains = domains
        self._tree = tree = domains.tree
        dimensions = session.snapshot.dimensions
        weights = {dimensions.known(name): w for name, w in arguments.resources.items()}
        # A resource that no object names counts with its weight, and is used nowhere.
        total = sum(arguments.resources.values()) or 1.0
        self._weights = np.array([w / total for r, w in weights.items() if r is not None])
        self._rows = np.array([r for r in weights if r is not None], dtype=np.intp)
        self._nodes = session.snapshot.nodes
        self._sums = DomainSums(self._nodes, tree, self._rows)
        self._tiers = FadingTiers(tree, arguments.fading, _SCORE_MAX * arguments.weight)
        self._ahead: PackingAhead | None = None
        # By shape, of pods without a topology: they follow what is placed by themselves.
        self._of_shapes: dict[Shape, GatheringScores] = {}

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
        score = np.round(self._sums.packing(request, self._weights), DIGITS) * highest
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
        found = self._of_shapes.get(task.shape)
        if found is None:
            scores = self._packing_of(task.shape)
            found = GatheringScores(self._tree.cells, scores, ahead=self._foresee())
            self._of_shapes[task.shape] = found
        return found

    def _packing_of(self, shape: Shape) -> Callable[[], Vector]:
        def score() -> Vector:
            packing = self._sums.packing(self._sums.request_of(shape), self._weights)
            return self._tiers.of_cells(packing, 1.0)

        return score

    def _foresee(self) -> PackingAhead | None:
        if self._ahead is None and not self._sums.is_overcommitted:
            self._ahead = PackingAhead(self._nodes, self._sums, self._tiers, self._weights)
        return self._ahead

    def _by_distance(self, tasks: dict[str, Task]) -> GatheringScores:
        """Scores nodes by how close they are to the pods of the gang that have nodes."""
        tree = self._tree
        cells = tree.cells
        leaves = tree.leaf[cells.firsts]
        held = self._domains.held_by(tasks.values(), hosts=False)
        if held is None:
            # The first pod may be anywhere, and decides for the next.
            nowhere = np.zeros(len(cells.of_node), dtype=np.bool_)
            return GatheringScores(cells, lambda: np.zeros(len(leaves)), nowhere)
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
        score *= SCORE_STEPS * _SCORE_MAX * self._arguments.weight
        # A pod elsewhere than in the held domain widens it, and all scores with it.
        settled = tree.is_below(held)[leaves] & (leaves != tree.root)
        return GatheringScores(cells, lambda: score, settled[cells.of_node])

    def _with_shares(self, score: Vector, counts: Vector, n_tasks: int) -> Vector:
        """Adds to the highest scores the share of the pods that are in the domain already."""
        score = np.round(score, DIGITS)
        is_best = score == score.max()
        return np.where(is_best, score + counts / max(n_tasks, 1), score)

    def _counts(self, places: list[int]) -> Vector:
        per_node = np.bincount(places, minlength=len(self._tree.leaf)).astype(float)
        counts: Vector = self._tree.sums(per_node[None, :])[0]
        return counts


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
