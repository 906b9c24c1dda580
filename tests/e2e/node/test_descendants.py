"""Real processes in sessions of their own: they belong to their pod, and end with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from swell.node.process.setup import resources
from swell.node.supervisor import SUPERVISOR_NAME
from tests.e2e.node.cluster import Site, main_of, play
from tests.e2e.node.test_restart import processes_of
from tests.figures import Figure

# A child in a session of its own, and a daemon that has left its parents behind.
FAMILY = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    time.sleep(1000)
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
print("ready", flush=True)
"""
STAYS, LEAVES = FAMILY + "time.sleep(1000)\n", FAMILY + "time.sleep(0.5)\n"


@pytest.fixture(params=["cgroups", "tree"])
def tracked_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to know the processes of a pod: by cgroups, and without any."""
    if request.param == "tree":
        monkeypatch.setattr(
            "swell.node.assembly.CgroupRoot", lambda: resources.CgroupRoot(Path("/proc"))
        )
    return str(request.param)


def marked(home: Path) -> dict[str, object]:
    return {"env": [{"name": "MARK", "value": str(home)}]}


async def family(site: Site, script: str = STAYS, **container: object) -> None:
    """A pod of three processes in three sessions."""
    more = marked(site.home) | container
    await site.pod("p", sys.executable, "-c", script, container=more)
    await site.until(lambda: "ready" in site.log("p"))
    await site.until(lambda: n_members(site.home) >= 2)


def n_members(home: Path) -> int:
    """How many processes of containers there are, without supervisors."""
    return sum(name != SUPERVISOR_NAME for _, name in processes_of(home))


async def none_left(site: Site, figure: Figure, story: str) -> None:
    await site.until(lambda: not processes_of(site.home))
    figure(f"{story}: {len(processes_of(site.home))} processes left")


def test_sessions_end_with_a_deleted_pod(tmp_path: Path, figure: Figure, tracked_by: str) -> None:
    """Everything the pod has started is gone when the pod is."""

    async def act(site: Site) -> None:
        await family(site)
        await site.delete("p", grace_s=1)
        await site.gone("p")
        assert n_members(tmp_path) == 0
        await none_left(site, figure, f"delete, by {tracked_by}")

    play(tmp_path, act)


def test_sessions_end_with_their_container(tmp_path: Path, figure: Figure, tracked_by: str) -> None:
    """What a container leaves behind when it ends by itself is ended, before its end is seen."""

    async def act(site: Site) -> None:
        await family(site, LEAVES)
        pod = await site.ended("p")
        assert pod.status.phase.value == "Succeeded"
        assert n_members(tmp_path) == 0
        await none_left(site, figure, f"own end, by {tracked_by}")

    play(tmp_path, act)


def test_sessions_end_with_their_supervisor(
    tmp_path: Path, figure: Figure, tracked_by: str
) -> None:
    """A supervisor that is killed leaves orphans, which are found all the same."""

    async def act(site: Site) -> None:
        await family(site)
        for pid, name in processes_of(tmp_path):
            if name == SUPERVISOR_NAME:
                os.kill(pid, signal.SIGKILL)
        ended = main_of(await site.ended("p")).state.terminated
        assert ended is not None
        assert ended.reason == "ContainerStatusUnknown"
        await none_left(site, figure, f"killed supervisor, by {tracked_by}")

    play(tmp_path, act)


def test_new_agent_ends_orphans_of_a_killed_supervisor(
    tmp_path: Path, figure: Figure, tracked_by: str
) -> None:
    """Also when no agent ran while its supervisor was killed."""

    async def act(site: Site) -> None:
        await family(site)
        assert site.runtime
        await site.stop_agent()
        await site.runtime.close()
        for pid, name in processes_of(tmp_path):
            if name == SUPERVISOR_NAME:
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.2)
        assert n_members(tmp_path) > 0
        await site.start_agent()
        await none_left(site, figure, f"killed supervisor without an agent, by {tracked_by}")

    play(tmp_path, act)


def test_stopped_supervisor_does_not_keep_a_pod(
    tmp_path: Path, figure: Figure, tracked_by: str
) -> None:
    """A supervisor that does not react is ended by force, and the pod's name can be used again."""

    async def act(site: Site) -> None:
        await family(site)
        for pid, name in processes_of(tmp_path):
            if name == SUPERVISOR_NAME:
                os.kill(pid, signal.SIGSTOP)
        await site.delete("p", grace_s=0)
        await none_left(site, figure, f"stopped supervisor, by {tracked_by}")
        assert site.runtime
        await site.until(lambda: not list((tmp_path / "pods").iterdir()))

    play(tmp_path, act)


@pytest.mark.usefixtures("tracked_by")
def test_memory_of_other_sessions_counts(tmp_path: Path) -> None:
    """A child that hides in a session of its own is part of what the limit is for."""
    greedy = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                held = bytearray(300 << 20)
                for place in range(0, len(held), 4096):
                    held[place] = 1
                time.sleep(1000)
            os._exit(0)
        time.sleep(1000)
    """

    async def act(site: Site) -> None:
        limits = {"resources": {"limits": {"memory": "100Mi"}}}
        script = textwrap.dedent(greedy)
        await site.pod("p", sys.executable, "-c", script, container=marked(tmp_path) | limits)
        ended = main_of(await site.ended("p")).state.terminated
        assert ended is not None
        assert (ended.exit_code, ended.reason) == (137, "OOMKilled")
        assert n_members(tmp_path) == 0

    play(tmp_path, act)


BOMB = """
import os, time
n_refused = 0
while n_refused < 50:
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError:
        n_refused += 1
        time.sleep(0.01)
print("refused", flush=True)
time.sleep(1000)
"""


def test_processes_of_a_container_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracked_by: str
) -> None:
    """A bomb is refused more processes, or ended; a neighbour starts as ever meanwhile."""
    monkeypatch.setattr("tests.e2e.node.cluster.PROCESSES_MAX", 60)

    async def act(site: Site) -> None:
        await site.pod("p", sys.executable, "-c", BOMB, container=marked(tmp_path))
        if tracked_by == "cgroups":
            await site.until(lambda: "refused" in site.log("p"))
            assert 40 <= n_members(tmp_path) <= 60
        else:
            # Root is not refused processes without cgroups, so it is ended within moments.
            ended = main_of(await site.ended("p")).state.terminated
            assert ended is not None
            assert ended.exit_code == 137
            assert "60 are allowed" in ended.message
        await site.pod("q", "echo", "well")
        await site.ended("q")
        assert site.log("q") == "well\n"
        await site.delete("p", grace_s=0)
        await site.until(lambda: not n_members(tmp_path))

    play(tmp_path, act)


@pytest.mark.parametrize("signalled", ["swell down", "kill -9, then swell down"])
def test_down_leaves_no_session(
    tmp_path: Path, signalled: str, figure: Figure, until: Callable[[Callable[[], bool]], None]
) -> None:
    """No process of ours is left after `swell down`, however the cluster was ended before."""
    command = [sys.executable, "-m", "swell.cli.main"]
    environ = {**os.environ, "SWELL_HOME": str(tmp_path / "home")}
    environ.pop("KUBECONFIG", None)

    def swell(*arguments: str) -> str:
        done = subprocess.run(
            [*command, *arguments], env=environ, capture_output=True, check=True, timeout=90
        )
        return done.stdout.decode()

    swell("up", "--detach")
    script = f"import os; os.environ['MARK'] = {str(tmp_path)!r}\n" + STAYS
    shell = ["env", f"MARK={tmp_path}", sys.executable, "-c", script]
    swell("run", "--detach", "--name", "fit", "--", *shell)
    until(lambda: n_members(tmp_path) >= 3)
    if signalled.startswith("kill"):
        os.kill(int((tmp_path / "home" / "lock").read_text().split()[0]), signal.SIGKILL)
    swell("down")

    figure(f"{signalled}: {len(processes_of(tmp_path))} processes left")
    assert processes_of(tmp_path) == []


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    import time

    def wait(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    return wait
