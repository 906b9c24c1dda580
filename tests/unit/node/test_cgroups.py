"""Cgroups in both versions, in folders that stand for a kernel's; and what does without them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swell.node.process.setup import resources
from swell.node.process.setup.resources import Cgroup, CgroupRoot, ResourceLimits
from swell.node.supervisor import processes, supervising

LIMITS = ResourceLimits(memory_bytes=100 << 20, cpu_milli=1500, processes=50)


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    """A root of version 2."""
    for name in ("cgroup.controllers", "cgroup.procs", "cgroup.subtree_control"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def separate(tmp_path: Path) -> Path:
    """The hierarchies of version 1, with that of version 2 beside them."""
    for name in ("memory", "cpu", "pids", "unified"):
        (tmp_path / name).mkdir()
    return tmp_path


def settings(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_version_2_limits_everything_in_one_group(unified: Path, tmp_path: Path) -> None:
    """Memory without swap, whole groups when memory is short, CPU and processes."""
    own = tmp_path / "own"
    own.write_text("0::/user/session\n")
    made = CgroupRoot(unified, own).make("x", LIMITS)

    assert made.folders == (unified / "swell" / "x",)
    assert settings(made.folders[0]) == {
        "cpu.max": "150000 100000",
        "memory.max": str(100 << 20),
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "pids.max": "50",
    }
    assert (made.limits_memory, made.limits_processes) == (True, True)
    assert (unified / "cgroup.subtree_control").read_text() == "+pids"


def test_version_2_of_a_user_is_what_was_delegated(
    unified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topmost group on the way to our own in which we may make others; else none."""
    own = tmp_path / "own"
    own.write_text("1:name=systemd:/x\n0::/user.slice/mine.service/app\n")
    folder = unified / "user.slice" / "mine.service" / "app"
    folder.mkdir(parents=True)
    for place in (folder, folder.parent, folder.parent.parent):
        (place / "cgroup.procs").touch()
    allowed = str(folder.parent)
    monkeypatch.setattr(os, "access", lambda path, _: str(path).startswith(allowed))

    assert CgroupRoot(unified, own).make("x", LIMITS).folders == (folder.parent / "swell" / "x",)
    own.write_text("0::/elsewhere\n")
    assert CgroupRoot(unified, own).make("x", LIMITS).folders == ()


def test_version_1_has_a_group_for_each_controller(separate: Path) -> None:
    """Memory with swap is set after memory; without limits there still is a fair part of CPU."""
    made = CgroupRoot(separate).make("x", LIMITS)
    limitless = CgroupRoot(separate).make("y", ResourceLimits())

    found = {folder.parent.parent.name: settings(folder) for folder in made.folders}
    assert found == {
        "memory": {
            "memory.limit_in_bytes": str(100 << 20),
            "memory.memsw.limit_in_bytes": str(100 << 20),
        },
        "cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"},
        "pids": {"pids.max": "50"},
        "unified": {},
    }
    assert {folder.parent.parent.name for folder in limitless.folders} == {"cpu", "unified"}
    assert not limitless.limits_memory
    assert not limitless.limits_processes


def test_limit_that_the_kernel_refuses_is_known_to_be_missing(
    unified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is made all the same, for its members; what it does not limit is watched."""
    own = tmp_path / "own"
    own.write_text("0::/\n")

    def refuse(path: Path, text: str) -> None:
        if not path.name.startswith("memory"):
            path.write_text(text)

    monkeypatch.setattr(resources, "_try_write", refuse)
    made = CgroupRoot(unified, own).make("x", LIMITS)

    assert (made.limits_memory, made.limits_processes) == (False, True)


def test_groups_of_a_home_are_found_by_name(separate: Path, tmp_path: Path) -> None:
    """All hierarchies of a run together, and no other home's."""
    root = CgroupRoot(separate)
    ours = resources.run_name(tmp_path / "home", "u", "main", 0)  # type: ignore[arg-type]
    root.make(ours, LIMITS)
    root.make(resources.run_name(tmp_path / "other", "u", "main", 0), LIMITS)  # type: ignore[arg-type]
    found = root.named(resources.home_prefix(tmp_path / "home"))

    assert list(found) == [ours]
    assert len(found[ours].folders) == 4


def test_members_are_killed_by_the_kernel_where_it_can(tmp_path: Path) -> None:
    """By one write; in version 1 one by one."""
    (tmp_path / "cgroup.kill").touch()
    with subprocess.Popen(["sleep", "60"]) as spared:
        (tmp_path / "cgroup.procs").write_text(f"{spared.pid}\n")
        Cgroup((tmp_path,)).kill()
        assert (tmp_path / "cgroup.kill").read_text() == "1"
        assert spared.poll() is None
        (tmp_path / "cgroup.kill").unlink()
        Cgroup((tmp_path,)).kill()
        assert spared.wait(10) == -signal.SIGKILL


def test_group_with_members_is_not_removed(tmp_path: Path) -> None:
    """A kernel refuses it, and the caller must try again; one that is gone is removed."""
    held = tmp_path / "held"
    (held / "member").mkdir(parents=True)

    assert not Cgroup((held,)).remove()
    (held / "member").rmdir()
    assert Cgroup((held, tmp_path / "gone")).remove()
    assert not held.exists()


# -- without cgroups --------------------------------------------------------------------------

ESCAPES = "import os, time; os.setsid() if os.fork() == 0 else None; time.sleep(60)"
FAMILY = f"""
import os, subprocess, sys, time
from swell.node.supervisor import kernel, processes
kernel.control(kernel.PR_SET_CHILD_SUBREAPER, int(sys.argv[1] == "linux"))
processes.LINUX = sys.argv[1] == "linux"
child = subprocess.Popen([sys.executable, "-c", {ESCAPES!r}])
found = processes.Descendants()
deadline = time.monotonic() + 20
while len(found._pids()) < 2 and time.monotonic() < deadline:
    time.sleep(0.05)
    found.note()
pids = found._pids()
found.note()
child.kill() if sys.argv[1] == "other" else None
found.kill_all()
print(len(pids), [pid for pid in pids if kernel.start_mark(pid)])
"""


@pytest.mark.parametrize("system", ["linux", "other"])
def test_descendants_in_other_sessions_are_killed(system: str) -> None:
    """By the kernel's lists of children; elsewhere by ps, also once their parent is gone."""
    done = subprocess.run(
        [sys.executable, "-c", FAMILY, system], capture_output=True, check=True, timeout=30
    )

    assert done.stdout.decode() == "2 []\n"


def test_table_of_ps_is_that_of_the_kernel() -> None:
    """Where there is no /proc the same is known of every process."""
    by_ps, by_kernel = processes._ps_table(), processes._proc_table()
    own = os.getpid()

    assert by_ps[own].parent == by_kernel[own].parent == os.getppid()
    assert by_ps[own].group == by_kernel[own].group == os.getpgid(0)
    assert by_ps[own].memory_bytes > 1 << 20


def test_kernel_limits_the_processes_of_an_ordinary_user() -> None:
    """So many more than the user has already; a fork beyond that is refused."""
    pid = os.fork()
    if pid == 0:
        code, n_forked = 3, 0
        try:
            if os.geteuid() == 0:
                os.setuid(23456)
            supervising._process_limiter(10)()
            while n_forked < 100:
                if os.fork() == 0:
                    signal.pause()
                n_forked += 1
        except BlockingIOError:
            code = 0 if 5 <= n_forked <= 10 else 4
        finally:
            processes.Descendants().kill_all()
            os._exit(code)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert resource.getrlimit(resource.RLIMIT_NPROC)[0] != 10  # loaded before the user changes
