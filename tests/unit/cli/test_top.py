"""`swell top`: what its tables say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from swell.cli.objects import top as command
from swell.cli.objects.top import CLEAR, load_rows, size_rows, trainer_rows
from swell.cli.objects.top_topology import domain_rows
from swell.scheduler.config_file import parse
from swell.scheduler.cycle import KNOWN
from tests.autoscaler_cases import a_job, a_node, a_pod, a_role, a_trainer, a_training_job
from tests.topology_clusters import at, node, objects, racks, running

JOB = a_job("a", targets={"t": 3}, t=a_role(1, 5, cpu="1"))
PODS = (a_pod("a", "t", 0, "n", cpu="1"), a_pod("a", "t", 1, "n", cpu="500m"))


def test_roles_are_shown_with_their_sizes() -> None:
    """What a role may have, has, and is to have."""
    assert size_rows([JOB], PODS)[1:] == [
        ["a", "t", JOB.status.phase.value, "1", "2", "3", "5"],
    ]


def test_load_is_what_pods_on_nodes_ask_for() -> None:
    """Requests of live pods over what nodes have to give; pods elsewhere do not count."""
    elsewhere = a_pod("a", "t", 2, "gone", cpu="1")
    rows = {row[0]: row[1:] for row in load_rows([a_node("n", cpu=4)], [*PODS, elsewhere])}

    assert rows["cpu"] == ["1.5", "4", "38%"]


def test_empty_cluster_has_headings_only() -> None:
    """No jobs and no nodes are no error."""
    assert len(size_rows([], [])) == len(load_rows([], [])) == 1


def test_trainers_of_the_older_kind_are_shown() -> None:
    """With their bounds, how many of them run, and how many there are to be."""
    job = a_training_job("old", 1, 5, target=3)
    fresh = a_training_job("new", 2, 2, phase="")
    pods = [a_trainer("old", 0, "n"), a_trainer("old", 1), a_trainer("another", 0, "n")]

    assert trainer_rows([job, fresh], pods) == [
        ["TrainingJob/new", "trainer", "", "2", "0", "2", "2"],
        ["TrainingJob/old", "trainer", "Running", "1", "1", "3", "5"],
    ]


class Stage:
    """A cluster that looks different each time, and a user who has seen enough after three."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> None:
        looks = count(1)
        self.slept: list[float] = []
        monkeypatch.setattr(command, "connected", self._connected)
        monkeypatch.setattr(command, "_screen", lambda _, scope: f"look {next(looks)} at {scope}\n")
        monkeypatch.setattr("time.sleep", self._sleep)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)

    def namespace(self, given: str) -> str:
        return given or "default"

    @contextmanager
    def _connected(self, _: object) -> Iterator[Stage]:
        yield self

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) == 3:
            raise KeyboardInterrupt


def test_terminal_is_screen_anew_until_it_is_enough(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every two seconds, over what was there before."""
    stage = Stage(monkeypatch, is_terminal=True)
    with pytest.raises(KeyboardInterrupt):
        command.top()

    assert capsys.readouterr().out == "".join(f"{CLEAR}look {n} at default\n" for n in (1, 2, 3))
    assert stage.slept == [2, 2, 2]


def test_pipe_gets_it_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that reads it wants no end of it."""
    Stage(monkeypatch, is_terminal=False)
    command.top(everywhere=True)

    assert capsys.readouterr().out == "look 1 at \n"


def test_topology_is_shown_as_a_tree_with_loads() -> None:
    """Domains below each other, with nodes, pods and requests; what is left out comes last."""
    base = racks(2, 2, per_block=2)
    base["hyperNodes"].append({"name": "twin", "tier": 2, "members": ["r0"]})
    found = objects(base, [], running("g", [at(0, 0)]))
    rows = domain_rows(found.hyper_nodes, found.nodes, found.pods)

    assert rows[0] == ["DOMAIN", "TIER", "NODES", "PODS", "CPU", "MEMORY"]
    assert rows[1] == ["(cluster)", "3", "4", "1", "4/16", "8Gi/32Gi"]
    assert [row[0] for row in rows[2:5]] == ["  b0", "    r0", "    r1"]
    assert rows[3][1:] == ["1", "2", "1", "4/8", "8Gi/16Gi"]
    assert rows[5] == ["twin", "2", "2", "its member r0 belongs to b0 already"]


def test_topology_by_labels_is_shown_with_the_configuration_that_lists_them() -> None:
    """Without HyperNodes, domains are paths of the labels' values."""
    rows = [node(f"n{n}", labels={"block": "b", "rack": f"r{n % 2}"}) for n in range(4)]
    found = objects({"nodes": rows}, [], running("g", ["n0"]))
    arguments = {"topology.labels": "block, rack"}
    plugin = {"name": "network-topology-aware", "arguments": arguments}
    config = parse({"tiers": [{"plugins": [plugin]}]}, KNOWN).config

    shown = domain_rows((), found.nodes, found.pods, config)

    assert [row[:4] for row in shown[1:]] == [
        ["(cluster)", "3", "4", "1"],
        ["  b", "2", "4", "1"],
        ["    b/r0", "1", "2", "1"],
        ["    b/r1", "1", "2", "0"],
    ]
