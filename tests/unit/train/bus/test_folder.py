"""The members folder as a program reads it: hosts, counts, former pods and successes."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.api import injection
from swell.train.bus import BusStoppedError, open_group
from swell.train.bus.messages import Roster
from swell.train.bus.shell import opened
from swell.train.bus.shell.folder import MembersFolder, parse_roster
from swell.train.place import place_of


def test_folder_is_read_with_all_its_files(tmp_path: Path) -> None:
    """Each role reads its own lines; ports of rows are the program's own."""
    (tmp_path / "epoch").write_text("3\n")
    (tmp_path / "trainer").write_text("a:2222\nb\n")
    (tmp_path / injection.INSTANCES_FILE).write_text("ps 9\ntrainer 1 2 4\n")
    folder = MembersFolder(tmp_path, "trainer")

    assert folder.read() == Roster(3, ("a", "b"), (1, 2, 4))
    (tmp_path / injection.FORMER_FILE).write_text("ps 1=x\ntrainer 2=10.0.0.7\n")
    (tmp_path / injection.SUCCEEDED_FILE).write_text("trainer 1=2 0=1\n")
    assert folder.read() == Roster(3, ("a", "b"), (1, 2, 4), ((2, "10.0.0.7"),), ((0, 1), (1, 2)))
    assert folder.read() is None


@pytest.mark.parametrize("word", ["2", "2=", "x=y", "="])
def test_folder_that_makes_no_sense_is_not_taken(word: str) -> None:
    texts = {"epoch": b"1", "trainer": b"a\n"}
    former = {injection.FORMER_FILE: f"trainer {word}\n".encode()}

    assert parse_roster("trainer", texts) == Roster(1, ("a",))
    assert parse_roster("trainer", {**texts, **former}) is None


def test_newer_folder_keeps_counts_and_drops_former_pods() -> None:
    """Counts only grow; within an epoch former pods only go, and successes only come."""
    old = Roster(1, ("a",), (1, 5), ((1, "x"), (2, "y")), ((0, 1),))
    same = Roster(1, ("a",), (2, 1), ((2, "y"), (3, "z")), ((1, 5),))

    assert same.joined(old) == Roster(1, ("a",), (2, 5), ((2, "y"),), ((0, 1), (1, 5)))
    assert Roster(2, ("a", "b"), (1,)).joined(old) == Roster(2, ("a", "b"), (1, 5))
    assert Roster(1, ("a",)).is_gone(3) is False
    assert same.is_gone(1)
    assert not same.is_gone(2)


def test_pod_of_a_workload_finds_its_number_by_its_uid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that does not name the pod is older than it, and is not gone by."""
    (tmp_path / "epoch").write_text("3\n")
    (tmp_path / "trainer").write_text("a\nb\n")
    (tmp_path / injection.INSTANCES_FILE).write_text("trainer 17 18\n")
    (tmp_path / injection.UIDS_FILE).write_text("trainer 0=u0 1=u1\n")
    environ = {
        injection.MEMBERS_VARIABLE: str(tmp_path),
        injection.ADDRESS_VARIABLE: "127.0.0.1",
        injection.BUS_PORT_VARIABLE: "0",
        injection.UID_VARIABLE: "u1",
        "TRAININGJOB_REPLICA_NAME": "trainer",
        "TRAININGJOB_REPLICA_INDEX": "1",
    }
    place = place_of(environ)
    assert place is not None
    group = open_group(place, minimum=1, meeting_port=1, on_abort=lambda _: None)
    group.close()
    assert group._thread.member.know.status.instance == 18

    monkeypatch.setattr(opened, "_NAMED_S", 0.0)
    stranger = place_of({**environ, injection.UID_VARIABLE: "u2"})
    assert stranger is not None
    with pytest.raises(BusStoppedError, match="does not name this pod"):
        open_group(stranger, minimum=1, meeting_port=1, on_abort=lambda _: None)
    numbered = place_of({**environ, injection.INSTANCE_VARIABLE: "4"})
    assert numbered is not None
    assert (numbered.instance, numbered.uid) == (4, "")
