"""The bus over real sockets and processes: deaths, resizes, departures, and the report."""

from __future__ import annotations

import http.client
import itertools
import json
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from swell.train.bus.shell.reporting import report_token
from tests.unit.train.bus.cluster import PORT, CountingCluster
from tests.unit.train.outputs import Fact

SECRET = b"open sesame"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[CountingCluster]:
    made = CountingCluster(tmp_path)
    yield made
    made.close()


def check_steps(facts: list[Fact]) -> None:
    """Every step was done by all members of one generation, and none was done in two."""
    done: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    sizes: dict[int, int] = {}
    for fact in facts:
        if "size" in fact:
            done[fact["step"]][fact["generation"]].add(fact["index"])
            sizes[fact["generation"]] = fact["size"]
    steps = sorted(done)
    assert steps == list(range(1, steps[-1] + 1))
    for step, by_generation in done.items():
        whole = [g for g, members in by_generation.items() if len(members) == sizes[g]]
        assert len(whole) <= 1, (step, dict(by_generation))


def ask(address: str, token: str | None, path: str = "/report") -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection(address, PORT, timeout=5)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_members_survive_deaths_and_resizes(cluster: CountingCluster) -> None:
    """A group loses a member and its leader, gets others, shrinks and grows, and counts on."""
    cluster.resize(4)
    cluster.start(0, 1, 2, 3)
    cluster.wait_for_size(4)
    at = cluster.kill(2)
    cluster.wait_for_size(3, since=at)
    cluster.start(2)
    cluster.wait_for_size(4, since=at)
    at = cluster.kill(0)
    cluster.wait_for_size(3, since=at)
    cluster.start(0)
    cluster.wait_for_size(4, since=at)
    cluster.resize(2)
    at = cluster.signal(signal.SIGTERM, 2, 3)
    cluster.wait_for_size(2, since=at)
    assert [cluster.wait_for_exit(index) for index in (2, 3)] == [143, 143]
    assert all(f["departs"] == "leave" for f in cluster.facts(since=at) if "departs" in f)
    cluster.resize(4)
    cluster.start(2, 3)
    cluster.wait_for_size(4, since=at)

    check_steps(cluster.facts())
    assert cluster.errors() == ""


def test_resize_interrupts_no_step(cluster: CountingCluster) -> None:
    """A voluntary change happens at a step that all have agreed on: none is begun in vain."""
    cluster.resize(3)
    cluster.start(0, 1, 2)
    cluster.wait_for_size(3)
    cluster.resize(2)
    at = cluster.signal(signal.SIGTERM, 2)
    cluster.wait_for_size(2, since=at)
    cluster.resize(3)
    cluster.start(2)
    cluster.wait_for_size(3, since=at)

    facts = cluster.facts()
    check_steps(facts)
    assert [fact for fact in facts if "failed" in fact] == []
    for index in (0, 1):
        steps = [f["step"] for f in cluster.facts(index) if "size" in f]
        assert all(b == a + 1 for a, b in itertools.pairwise(steps))


def test_last_members_save(cluster: CountingCluster) -> None:
    """When all are told to go, those who hold the newest state are told to write it."""
    cluster.resize(2)
    cluster.start(0, 1)
    cluster.wait_for_size(2)
    at = cluster.signal(signal.SIGTERM, 0, 1)
    assert [cluster.wait_for_exit(index) for index in (0, 1)] == [143, 143]

    departures = [f for f in cluster.facts(since=at) if "departs" in f]
    saved = [f["step"] for f in departures if f["departs"] == "save"]
    assert saved
    assert max(saved) == max(f["step"] for f in cluster.facts() if "size" in f)


def test_members_finish_together(cluster: CountingCluster) -> None:
    """The end of all that there is to train is no failure of anybody."""
    cluster.resize(3)
    cluster.start(0, 1, 2, steps=50)

    assert [cluster.wait_for_exit(index) for index in range(3)] == [0, 0, 0]
    assert [f["done"] for f in cluster.facts() if "done" in f] == [50, 50, 50]


def test_who_missed_the_last_step_gets_its_state(cluster: CountingCluster) -> None:
    """The others wait for it, and give it the last state, before they end."""
    cluster.resize(3)
    cluster.start(1, steps=50, breaks_at=50)
    cluster.start(0, 2, steps=50)

    assert [cluster.wait_for_exit(index) for index in range(3)] == [0, 0, 0]
    assert [f["done"] for f in cluster.facts() if "done" in f] == [50, 50, 50]
    assert not [f for f in cluster.facts() if "departs" in f]


def test_report_is_given_by_the_leader(cluster: CountingCluster) -> None:
    """The leader answers those who have the token; the others say who leads."""
    cluster.resize(2)
    cluster.start(0, 1)
    cluster.wait_for_size(2)
    plan = next(f for f in cluster.facts() if "plan" in f)
    leader, other = plan["members"]
    token = report_token(SECRET)

    code, report = ask(cluster.address(leader), token)
    assert (code, report["size"], report["generation"]) == (200, 2, plan["plan"])
    assert ask(cluster.address(other), token) == (404, {"leader": leader})
    assert ask(cluster.address(leader), None)[0] == 401
    assert ask(cluster.address(leader), report_token(b"wrong"))[0] == 401
    assert ask(cluster.address(leader), token, "/other")[0] == 404
