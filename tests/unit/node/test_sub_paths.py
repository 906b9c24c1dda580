"""Parts of volumes, in which containers may exchange folders for links at any time."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from swell.node.process.launcher import try_run
from swell.node.process.setup.environment import ContainerConfigError
from swell.node.process.setup.spec import part_of
from swell.node.supervisor.kernel import open_beneath


def _place(descriptor: int) -> Path:
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    finally:
        os.close(descriptor)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with a folder, beside something that is not in the volume."""
    (tmp_path / "volume" / "a").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text("secret")
    return tmp_path / "volume"


def test_part_is_opened_and_made(volume: Path) -> None:
    assert _place(open_beneath(str(volume), "a")) == volume / "a"
    assert _place(open_beneath(str(volume), "a/b/c", make=True)) == volume / "a" / "b" / "c"
    with pytest.raises(FileNotFoundError):
        open_beneath(str(volume), "missing")


@pytest.mark.parametrize("inner", ["link", "link/token", "a/../../home", "..", "", "a//b"])
def test_nothing_leads_out(volume: Path, inner: str) -> None:
    (volume / "link").symlink_to("../home")
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on the step
        open_beneath(str(volume), inner, make=True)

    assert sorted(p.name for p in (volume.parent / "home").iterdir()) == ["token"]


def test_link_that_stays_inside_is_resolved_before(volume: Path) -> None:
    (volume / "link").symlink_to("a")
    assert part_of(volume, "link", "v") == volume / "a"
    (volume / "out").symlink_to("../home")
    with pytest.raises(ContainerConfigError, match="leads out"):
        part_of(volume, "out", "v")


def test_exchange_at_any_moment_leads_nowhere(volume: Path) -> None:
    """A folder becomes a link and a folder again, while it is opened again and again."""
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            (volume / "a").rename(volume / "kept")
            (volume / "a").symlink_to("../home")
            (volume / "a").unlink()
            (volume / "kept").rename(volume / "a")

    thread = threading.Thread(target=exchange)
    thread.start()
    found = set()
    try:
        for _ in range(3_000):
            with contextlib.suppress(OSError):
                found.add(_place(open_beneath(str(volume), "a")).name)
    finally:
        stop.set()
        thread.join()

    assert found <= {"a", "kept"}


@pytest.mark.skipif(os.geteuid() != 0, reason="as root no user namespace is needed for mounts")
def test_container_does_not_get_what_a_link_points_at(volume: Path, tmp_path: Path) -> None:
    """The link comes after the agent has looked, and before the supervisor mounts."""
    for name in ("stage", "one", "other"):
        (tmp_path / name).mkdir()
    spec: dict[str, object] = {
        "argv": ("/bin/cat", "/given/token"),
        "env": {},
        "cwd": "/",
        "log": str(tmp_path / "log"),
        "namespace": "root",
        "stage": str(tmp_path / "stage"),
        "mounts": ((str(volume / "part"), "/given", False),),
    }
    (volume / "part").symlink_to("../home")

    assert try_run(tmp_path / "one", spec), "a source that is no part of a volume is followed"
    assert not try_run(tmp_path / "other", spec | {"roots": (str(volume),)})
