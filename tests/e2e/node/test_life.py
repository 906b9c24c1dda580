"""Real processes: how containers start, end and are ended, and what is told of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swell.node.process.setup import resources
from tests.e2e.node.cluster import Site, main_of, play


@pytest.mark.parametrize(
    ("script", "phase", "code", "reason", "signal"),
    [
        ("exit 0", "Succeeded", 0, "Completed", 0),
        ("exit 7", "Failed", 7, "Error", 0),
        ("kill -9 $$$$", "Failed", 137, "Error", 9),
        ("kill -15 $$$$", "Failed", 143, "Error", 15),
    ],
)
def test_end_is_reported_as_kubernetes_does(
    tmp_path: Path, script: str, phase: str, code: int, reason: str, signal: int
) -> None:
    """Exit codes and signals give phase, code and reason."""

    async def act(site: Site) -> None:
        await site.pod("p", "sh", "-c", script)
        pod = await site.ended("p")
        ended = main_of(pod).state.terminated

        assert ended is not None
        assert pod.status.phase.value == phase
        assert (ended.exit_code, ended.reason, ended.signal) == (code, reason, signal)

    play(tmp_path, act)


def test_message_of_a_failure_is_the_end_of_its_log(tmp_path: Path) -> None:
    """The last 20 lines, of both streams."""

    async def act(site: Site) -> None:
        await site.pod("p", "sh", "-c", "seq 1 30; echo oh no >&2; exit 1")
        ended = main_of(await site.ended("p")).state.terminated

        assert ended is not None
        assert ended.message.splitlines() == [*(str(n) for n in range(12, 31)), "oh no"]
        assert len(site.log("p").splitlines()) == 31

    play(tmp_path, act)


def test_command_that_cannot_be_started(tmp_path: Path) -> None:
    """128 with reason StartError, and the message says what is wrong."""

    async def act(site: Site) -> None:
        await site.pod("p", "no-such-program")
        pod = await site.ended("p")
        ended = main_of(pod).state.terminated

        assert ended is not None
        assert pod.status.phase.value == "Failed"
        assert (ended.exit_code, ended.reason) == (128, "StartError")
        assert "no-such-program" in ended.message

    play(tmp_path, act)


def test_python_is_the_one_that_runs_swell(tmp_path: Path) -> None:
    """Also in a shell's command line."""

    async def act(site: Site) -> None:
        await site.pod("a", "python", "-c", "import msgspec")
        await site.pod("b", "sh", "-c", "python -c 'import msgspec'")

        assert (await site.ended("a")).status.phase.value == "Succeeded"
        assert (await site.ended("b")).status.phase.value == "Succeeded"

    play(tmp_path, act)


def test_process_has_the_standard_descriptors_only(tmp_path: Path) -> None:
    """Nothing to read, one log for both outputs, and nothing of ours besides."""

    async def act(site: Site) -> None:
        await site.pod("p", "sh", "-c", "cat && for fd in /proc/$$$$/fd/*; do echo ${fd##*/}; done")
        await site.ended("p")

        # 3 is the folder that the shell reads.
        assert sorted({*site.log("p").split()} - {"3"}) == ["0", "1", "2"]

    play(tmp_path, act)


def test_deleted_pod_is_asked_to_end(tmp_path: Path) -> None:
    """SIGTERM first: a process that obeys is gone without waiting for its hour of grace."""

    async def act(site: Site) -> None:
        marker = tmp_path / "asked"
        script = f"trap 'touch {marker}; exit 0' TERM; echo up; while :; do sleep 0.02; done"
        await site.pod("p", "sh", "-c", script, terminationGracePeriodSeconds=3600)
        await site.running("p")
        await site.until(lambda: "up" in site.log("p"))
        await site.delete("p")
        await site.gone("p")

        assert marker.exists()

    play(tmp_path, act)


def test_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """After the grace period, with everything it has started."""

    async def act(site: Site) -> None:
        script = "trap '' TERM; sh -c 'trap \"\" TERM; echo up; sleep 1000' & wait; sleep 1000"
        await site.pod("p", "sh", "-c", script, terminationGracePeriodSeconds=2)
        await site.running("p")
        await site.until(lambda: "up" in site.log("p"))
        began = time.monotonic()
        await site.delete("p")
        await site.gone("p")

        assert time.monotonic() - began > 1

    play(tmp_path, act)


def test_forced_deletion_kills_at_once(tmp_path: Path) -> None:
    """A pod that vanishes takes its processes with it."""

    async def act(site: Site) -> None:
        await site.pod("p", "sh", "-c", "trap '' TERM; sleep 1000")
        await site.running("p")
        await site.delete("p", grace_s=0)
        await site.gone("p", within_s=5)

    play(tmp_path, act)


def test_escaped_children_end_with_their_container(tmp_path: Path) -> None:
    """What leaves the process group, or outlives the main process, is found and killed."""

    async def act(site: Site) -> None:
        pids = tmp_path / "pid"
        script = f"setsid sh -c 'echo $$$$ > {pids}; sleep 1000' & sleep 0.3; exit 0"
        await site.pod("p", "sh", "-c", script)
        await site.ended("p")
        escaped = int(pids.read_text())
        await site.until(lambda: not Path(f"/proc/{escaped}").exists())

    play(tmp_path, act)


def test_init_containers_run_in_order_before_the_others(tmp_path: Path) -> None:
    """Each must succeed before the next begins."""

    async def act(site: Site) -> None:
        out = tmp_path / "order"
        inits = [
            {
                "name": f"i{n}",
                "image": "x",
                "command": ["sh", "-c", f"sleep 0.1; echo {n} >> {out}"],
            }
            for n in range(3)
        ]
        await site.pod("p", "sh", "-c", f"echo main >> {out}", initContainers=inits)
        pod = await site.ended("p")

        assert out.read_text().split() == ["0", "1", "2", "main"]
        assert all(s.state.terminated for s in pod.status.init_container_statuses)
        assert pod.status.phase.value == "Succeeded"

    play(tmp_path, act)


def test_failed_init_container_fails_the_pod(tmp_path: Path) -> None:
    """Its containers never start."""

    async def act(site: Site) -> None:
        init = {"name": "i", "image": "x", "command": ["false"]}
        await site.pod("p", "true", initContainers=[init])
        pod = await site.ended("p")

        assert pod.status.phase.value == "Failed"
        assert main_of(pod).state.waiting is not None

    play(tmp_path, act)


def test_container_is_restarted_by_the_pods_policy(tmp_path: Path) -> None:
    """OnFailure runs it again until it succeeds; the count and the former end are told."""

    async def act(site: Site) -> None:
        mark = tmp_path / "mark"
        script = f"test -e {mark} && exit 0; touch {mark}; exit 3"
        await site.pod("p", "sh", "-c", script, restartPolicy="OnFailure")
        pod = await site.ended("p")
        former = main_of(pod).last_state.terminated

        assert pod.status.phase.value == "Succeeded"
        assert main_of(pod).restart_count == 1
        assert former is not None
        assert former.exit_code == 3

    play(tmp_path, act)


@pytest.mark.parametrize("cgroups", ["where allowed", "never"])
def test_memory_limit_is_kept(
    tmp_path: Path, cgroups: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that takes more than its limit is killed, and the reason says why."""
    if cgroups == "never":
        # A read-only place for them, as without the right to make any.
        monkeypatch.setattr(
            "swell.node.assembly.CgroupRoot", lambda: resources.CgroupRoot(Path("/proc"))
        )

    async def act(site: Site) -> None:
        code = "b = bytearray(200 << 20)\nimport time\ntime.sleep(60)"
        limited = {"resources": {"limits": {"memory": "64Mi"}}}
        await site.pod("p", "python", "-c", code, container=limited)
        ended = main_of(await site.ended("p")).state.terminated

        assert ended is not None
        assert (ended.exit_code, ended.reason) == (137, "OOMKilled")

    play(tmp_path, act)


def test_ordinary_user(tmp_path: Path) -> None:
    """Nobody has to be root: pods run, with their volumes and names."""
    command = [sys.executable, "-m", "tests.e2e.node.as_user", str(tmp_path / "home")]
    if os.geteuid() == 0:
        # A user who is nobody special, but may read what is ours.
        command = ["unshare", "--user", "--map-user=1000", "--map-group=1000", *command]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 0, ended.stderr
