"""The packing of domains: foreseen scores are those that are counted anew."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from swell.scheduler.config import DEFAULT
from swell.scheduler.domains import tree_of
from swell.scheduler.model.domain_tree import Cells, DomainTree
from swell.scheduler.model.nodes import fits
from swell.scheduler.model.resources import CPU, MEMORY
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.plan import plan_schedule
from swell.scheduler.plugins.domain_packing import DomainSums, FadingTiers, PackingAhead
from tests.scheduler_cases import config_of
from tests.topology_clusters import Row, at, gang, node, objects, pods, racks

WEIGHTS = np.array([0.5, 0.5])
PLUGINS = [
    {"name": "gang", "enable": ["JobReady", "JobPipelined", "JobStarving"]},
    {"name": "predicates", "enable": ["Predicate"]},
    {"name": "network-topology-aware", "enable": ["NodeOrder"]},
]


def network() -> Row:
    """Blocks of two racks, a rack without a block, a domain across racks, and nodes in none."""
    base = racks(5, 3)
    base["hyperNodes"] += [
        {"name": "b0", "tier": 2, "members": ["r0", "r1"]},
        {"name": "b1", "tier": 2, "members": ["r3", "r4"]},
        {"name": "across", "tier": 3, "members": [at(1, 0), at(2, 1), at(4, 2)]},
    ]
    base["nodes"] += [node(f"alone-{n}") for n in range(7)]
    return base


class _Stage:
    """A snapshot of the network, whose pending tasks are moved by hand."""

    def __init__(self) -> None:
        small = {"cpu": "1", "memory": "1Gi"}
        rows = [*pods("g", 20, requests=small), *pods("h", 8)]
        groups = [gang("g", 20), gang("h", 8)]
        self.snapshot: SchedulerSnapshot = objects(network(), groups, rows).snapshot()
        found = tree_of(self.snapshot, DEFAULT)
        assert found is not None
        self.tree: DomainTree = found
        self.nodes = self.snapshot.nodes
        self.sums = DomainSums(self.nodes, self.tree, np.array([CPU, MEMORY]))
        self.tiers = FadingTiers(self.tree, 0.8, 100.0)
        self.ahead = PackingAhead(self.nodes, self.sums, self.tiers, WEIGHTS)

    def pending(self, job: str) -> list[Task]:
        return list(self.snapshot.jobs[f"ns/{job}"].in_status(TaskStatus.PENDING))

    def exact(self, task: Task) -> list[float]:
        """The scores of the cells with a node that can take the task."""
        packing = self.sums.packing(self.sums.request_of(task.shape), WEIGHTS)
        scores = np.rint(self.tiers.of_cells(packing, 1.0))
        return [scores.item(cell) for cell in self.open_cells(task)]

    def foreseen(self, task: Task) -> list[float]:
        scores = self.ahead.begin(task.shape)
        return [scores.item(cell) for cell in self.open_cells(task)]

    def open_cells(self, task: Task) -> list[int]:
        fitting = fits(task.shape, self.nodes.idle)
        return [c for c, nodes in enumerate(self.tree.cells.members) if np.any(fitting[nodes])]


@pytest.mark.parametrize("seed", range(6))
def test_foreseen_scores_are_those_counted_anew(seed: int) -> None:
    """Tasks come where they were foreseen, or elsewhere, or leave again, or do not come at all."""
    random, stage = Random(seed), _Stage()
    for _ in range(25):
        tasks = stage.pending(random.choice("gh"))[: random.randint(1, 4)]
        if not tasks:
            break
        assert stage.foreseen(tasks[0]) == pytest.approx(stage.exact(tasks[0]), abs=1)
        open_nodes = np.flatnonzero(
            (stage.nodes.idle >= 4 * tasks[0].shape.request[:, None]).all(axis=0)
        )
        places = [int(random.choice(open_nodes)) for _ in tasks] if len(open_nodes) else []
        if random.random() < 0.8:
            for place in places:
                stage.ahead.place(stage.tree.cells.of_node.item(place), 1)
            stage.ahead.end(places)
        if places and random.random() < 0.8:
            if random.random() < 0.2:
                places.reverse()
            stage.snapshot.move_alike(tasks, TaskStatus.ALLOCATED, places)
            if random.random() < 0.4:
                stage.snapshot.move_back_alike(tasks)


@pytest.mark.parametrize("comes", [False, True])
def test_gang_that_is_taken_back_leaves_no_trace(*, comes: bool) -> None:
    stage = _Stage()
    tasks = stage.pending("g")[:3]
    places = [0, 5, 5]
    before = stage.ahead.begin(tasks[0].shape).tolist()
    for place in places:
        stage.ahead.place(stage.tree.cells.of_node.item(place), 1)
    stage.ahead.end(places)
    if comes:
        stage.snapshot.move_alike(tasks, TaskStatus.ALLOCATED, places)
        stage.snapshot.move_back_alike(tasks)

    assert stage.ahead.begin(tasks[0].shape).tolist() == before
    assert stage.foreseen(tasks[0]) == stage.exact(tasks[0])


def test_scores_of_cells_near_are_those_of_all() -> None:
    stage = _Stage()
    task = stage.pending("g")[0]
    for cell, nodes in enumerate(stage.tree.cells.members):
        before = stage.ahead.begin(task.shape)
        stage.ahead.place(cell, 1)
        stage.ahead.end(nodes.tolist()[:1])
        found = before.copy()
        near = stage.ahead.near(cell)
        if near is not None:
            found[near[0]] = near[1]

        stage.snapshot.move_alike([task], TaskStatus.ALLOCATED, nodes.tolist()[:1])
        assert found.tolist() == stage.ahead.begin(task.shape).tolist()
        stage.snapshot.move_back_alike([task])


@pytest.mark.parametrize("seed", range(4))
def test_best_of_each_cell_is_found_however_many_nodes_cells_have(seed: int) -> None:
    random = Random(seed)
    n = random.randint(1, 40)
    of_node = np.unique(
        [random.randint(0, random.randint(0, 9)) for _ in range(n)], return_inverse=True
    )[1]
    cells = Cells(of_node)
    scores = np.array([float(random.randint(0, 5)) for _ in range(n)])
    row = np.full(cells.n_rows * cells.n_columns, -np.inf)
    row[cells.slots] = scores

    best = [max(scores[of_node == cell]) for cell in range(len(cells.members))]
    assert cells.maxima(row).tolist() == best
    tied = np.flatnonzero(np.array(best) == max(best))
    first = min(np.flatnonzero((scores == best[c]) & (of_node == c))[0] for c in tied.tolist())
    order = cells.in_order(tied)
    assert [cells.firsts[cell] for cell in order] == sorted(cells.firsts[tied])
    assert min(cells.first_best(row, cell) for cell in order) == first


def test_gang_waits_where_domains_are_described_and_no_node_exists() -> None:
    base = {**racks(1, 2), "nodes": []}
    config = config_of({"actions": ["allocate"], "tiers": [PLUGINS]})

    plan = plan_schedule(objects(base, [gang("g", 2)], pods("g", 2)), config)

    assert not plan.binds
