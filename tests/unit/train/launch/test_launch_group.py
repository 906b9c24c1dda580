"""Launchers of one job over the real bus, with a plain script: deaths, growth, shrinking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.train.launch.members import COUNTING, LaunchedMembers, swell_launch


@pytest.fixture(params=["warm", "cold"])
def members(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LaunchedMembers]:
    script = tmp_path / "train.py"
    script.write_text(COUNTING)
    way = [] if request.param == "warm" else ["--cold"]
    made = LaunchedMembers(tmp_path, swell_launch("--framework", "plain", *way, str(script)))
    yield made
    made.close()


def test_killed_member_is_left_out_and_let_in_again(members: LaunchedMembers) -> None:
    """Survivors go on from the checkpoint; no failure of theirs is counted."""
    members.resize(3)
    members.start(0, 1, 2)
    members.trains(3)
    at = members.kill(1)
    members.trains(2, at)
    members.launchers[1].wait()
    members.start(1)
    members.resize(3)
    members.trains(3, at)

    assert min(fact["step"] for fact in members.facts(at, 2)) > 1
    assert all(members.launchers[i].poll() is None for i in (0, 1, 2)), members.log()


def test_killed_leader_is_left_out(members: LaunchedMembers) -> None:
    """The next leads, and its workers get rank 0."""
    members.resize(3)
    members.start(0, 1, 2)
    members.trains(3)
    at = members.kill(0)

    members.trains(2, at)


def test_group_shrinks_and_grows(members: LaunchedMembers) -> None:
    """Who leaves exits with 143; who stays trains on."""
    members.resize(3)
    members.start(0, 1, 2)
    members.trains(3)
    at = members.resize(2)
    members.terminate(2)
    members.trains(2, at)
    assert members.wait(members.launchers[2].poll) == 143

    members.start(2, 3)
    at = members.resize(4)
    members.trains(4, at)


def test_generations_do_not_mix(members: LaunchedMembers) -> None:
    """Of every generation, the ranks are all there are, each once."""
    members.resize(3)
    members.start(0, 1, 2)
    members.trains(3)
    at = members.kill(2)
    members.trains(2, at)
    seen: dict[int, set[tuple[int, int, int]]] = {}
    for fact in members.facts():
        seen.setdefault(fact["generation"], set()).add((fact["rank"], fact["size"], fact["pid"]))

    assert len(seen) == 2
    for found in seen.values():
        sizes = {size for _, size, _ in found}
        assert len(sizes) == 1
        assert sorted(rank for rank, _, _ in found) == list(range(sizes.pop()))


def test_all_finish_together(tmp_path: Path) -> None:
    """With different numbers of workers each."""
    script = tmp_path / "train.py"
    script.write_text(COUNTING)
    members = LaunchedMembers(
        tmp_path, swell_launch("--framework", "plain", str(script)), {"STEPS": "20"}
    )
    members.resize(2)
    members.start(0)
    members.command = swell_launch("--framework", "plain", "--nproc-per-node", "2", str(script))
    members.start(1)

    for launcher in members.launchers.values():
        assert launcher.wait(30) == 0, members.log()
    assert {fact["rank"] for fact in members.facts(size=3)} == {0, 1, 2}
