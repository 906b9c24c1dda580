"""`exec`, `cp` and `port-forward`: what their arguments mean, and archives of containers."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from swell.api.meta import Key
from swell.cli.command_line import CommandError
from swell.cli.pods.copying import _unpack, parse_place
from swell.cli.pods.execution import exit_code_of
from swell.cli.pods.forwarding import PortPair, parse_ports


@pytest.mark.parametrize(
    ("text", "pod", "path"),
    [
        ("a:/b", Key("here", "a"), "/b"),
        ("there/a:b/c", Key("there", "a"), "b/c"),
        ("b/c", None, "b/c"),
        ("./a:b", None, "./a:b"),
        ("/a:b", None, "/a:b"),
    ],
)
def test_places_of_cp(text: str, pod: Key | None, path: str) -> None:
    """A pod before a colon, with its namespace if need be; else a path of this machine."""
    assert parse_place(text, "here") == (pod, path)


@pytest.mark.parametrize("text", ["a:", "a/:b"])
def test_places_that_are_none(text: str) -> None:
    """A pod without a path, a namespace without a pod."""
    with pytest.raises(CommandError, match="names no file of a pod"):
        parse_place(text, "here")


def test_ports_of_port_forward() -> None:
    """The same port on both sides, two ports, or any free one."""
    pairs = parse_ports(["80", "8080:81", ":82"])

    assert pairs == [PortPair(80, 80), PortPair(8080, 81), PortPair(0, 82)]


@pytest.mark.parametrize("text", ["", "x", "80:", "1:2:3", "-1", "0", "70000", "70000:1"])
def test_ports_that_are_none(text: str) -> None:
    """Numbers from 1 to 65535."""
    with pytest.raises(CommandError, match="is no port"):
        parse_ports([text])


def test_exit_code_is_in_the_status() -> None:
    """Success is 0; without a code the server's words are the error."""
    cause = {"reason": "ExitCode", "message": "3"}

    assert exit_code_of({"status": "Success"}) == 0
    assert exit_code_of({"status": "Failure", "details": {"causes": [cause]}}) == 3
    with pytest.raises(CommandError, match="no such container"):
        exit_code_of({"status": "Failure", "message": "no such container"})


def test_archive_is_unpacked_under_another_name(tmp_path: Path) -> None:
    """A folder with what is in it; into a folder that is there under its own name."""
    _unpack(_archive("data/a", "data/b/c"), "data", tmp_path / "copy")
    _unpack(_archive("one"), "one", tmp_path)

    assert (tmp_path / "copy/b/c").read_text() == "data/b/c"
    assert (tmp_path / "one").read_text() == "one"


@pytest.mark.parametrize("member", ["../evil", "data/../../evil", "/etc/evil", "other"])
def test_archive_with_other_files_is_refused(tmp_path: Path, member: str) -> None:
    """A container decides what its archive holds, and not where it is written to."""
    with pytest.raises(CommandError, match="was not asked for"):
        _unpack(_archive(member), "data", tmp_path / "copy")

    assert not list(tmp_path.iterdir())


def _archive(*names: str) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as packed:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            packed.addfile(member, io.BytesIO(name.encode()))
    made.seek(0)
    return made
