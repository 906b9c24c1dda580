"""Real processes: the agent ends, is killed, comes back; and what that means for its pods."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.pods import BOUND_PODS, BoundPod
from swell.node.supervisor import LAUNCHER_NAME, SUPERVISOR_NAME
from swell.runtime.clock import SystemClock
from tests.contract.targets import embedded_server
from tests.e2e.node.cluster import NAMESPACE, NODE, Site, main_of, play, pod_body

WITHIN_S = 30.0
N_PODS = 12


def processes_of(home: Path, ours: str = SUPERVISOR_NAME) -> list[tuple[int, str]]:
    """The supervisors of a home, and the processes marked by it: pids and names."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            name = (entry / "comm").read_text().strip()
            command = (entry / "cmdline").read_bytes().decode()
            environ = (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        is_ours = name == ours and str(home) in command
        if is_ours or f"MARK={home}" in environ:
            found.append((int(entry.name), name))
    return found


def test_restarted_agent_takes_up_running_pods(tmp_path: Path) -> None:
    """The processes go on without an agent; the next one knows them and learns how they end."""

    async def act(site: Site) -> None:
        go = tmp_path / "go"
        script = f"echo $$$$; while [ ! -e {go} ]; do sleep 0.05; done; exit 5"
        await site.pod("p", "sh", "-c", script)
        before = await site.running("p")
        await site.pod("q", "sh", "-c", "sleep 0.5; exit 6")
        await site.running("q")
        assert site.runtime
        await site.stop_agent()
        await site.runtime.close()
        await asyncio.sleep(0.8)
        await site.start_agent()
        meanwhile = main_of(await site.ended("q")).state.terminated
        after = await site.get("p")
        go.touch()
        ended = main_of(await site.ended("p")).state.terminated

        assert after.status == before.status
        assert len(site.log("p").splitlines()) == 1
        assert meanwhile is not None
        assert meanwhile.exit_code == 6
        assert ended is not None
        assert ended.exit_code == 5

    play(tmp_path, act)


def test_probe_of_a_killed_agent_is_no_hindrance(tmp_path: Path) -> None:
    """What it left behind does not make a healthy container look ill."""

    async def act(site: Site) -> None:
        probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1}
        await site.pod("p", "sleep", "1000", container={"livenessProbe": probe})
        await site.running("p")
        assert site.runtime
        await site.stop_agent()
        await site.runtime.close()
        run = next((tmp_path / "pods").glob("*/containers/main/0"))
        for number in range(1, 9):
            (run / f"exec-{number}").mkdir(exist_ok=True)
        await site.start_agent()
        await asyncio.sleep(2.5)
        pod = await site.get("p")

        assert pod.status.phase.value == "Running"
        assert main_of(pod).ready

    play(tmp_path, act)


def test_gpus_stay_with_their_pods(tmp_path: Path) -> None:
    """A pod that comes while no agent runs gets none of those in use."""

    async def act(site: Site) -> None:
        one = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        for name in ("b", "c"):
            await site.pod(name, "sleep", "1000", container=one)
            await site.running(name)
        assert site.runtime
        await site.stop_agent()
        await site.runtime.close()
        await site.pod("a", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", container=one)
        await site.start_agent()
        pod = await site.pod_that("a", lambda pod: bool(pod.status.container_statuses))

        assert main_of(pod).state.waiting is not None
        await site.delete("c", grace_s=1)
        await site.ended("a")
        assert site.log("a") == "1\n"

    play(tmp_path, act)


def test_orphans_are_ended(tmp_path: Path) -> None:
    """A pod deleted while no agent ran has no processes once there is one."""

    async def act(site: Site) -> None:
        await site.pod("p", "sleep", "1000")
        await site.running("p")
        assert site.runtime
        await site.stop_agent()
        await site.runtime.close()
        await site.delete("p", grace_s=0)
        assert processes_of(tmp_path)
        await site.start_agent()
        await site.until(lambda: not processes_of(tmp_path))

    play(tmp_path, act)


def test_killed_supervisor_takes_its_process_along(tmp_path: Path) -> None:
    """137 with reason ContainerStatusUnknown, since nobody knows better."""

    async def act(site: Site) -> None:
        await site.pod("p", "sleep", "1000")
        await site.running("p")
        for pid, name in processes_of(tmp_path):
            if name == SUPERVISOR_NAME:
                os.kill(pid, signal.SIGKILL)
        ended = main_of(await site.ended("p")).state.terminated

        assert ended is not None
        assert (ended.exit_code, ended.reason) == (137, "ContainerStatusUnknown")
        assert not processes_of(tmp_path)

    play(tmp_path, act)


def test_both_killed_is_found_out_later(tmp_path: Path) -> None:
    """Agent and supervisor gone: the next agent does not take a stranger for the container."""

    async def act(site: Site) -> None:
        await site.pod("p", "sleep", "1000")
        await site.running("p")
        assert site.runtime
        await site.stop_agent()
        await site.runtime.close()
        for pid, _ in processes_of(tmp_path):
            os.kill(pid, signal.SIGKILL)
        identity = next((tmp_path / "pods").glob("*/containers/main/0/identity"))
        mark = identity.read_text().split()[1]
        # The pid belongs to somebody else now, who began at another time.
        identity.write_text(f"{os.getpid()} {mark}")
        await site.start_agent()
        ended = main_of(await site.ended("p")).state.terminated

        assert ended is not None
        assert (ended.exit_code, ended.reason) == (137, "ContainerStatusUnknown")

    play(tmp_path, act)


def test_leaving_agent_ends_its_pods(tmp_path: Path) -> None:
    """Bare pods end with their code; those of a controller are deleted, to be made again."""

    async def act(site: Site) -> None:
        await site.stop_agent()
        await site.start_agent(leaving=True)
        script = "trap 'exit 9' TERM; echo up; while :; do sleep 0.02; done"
        await site.pod("bare", "sh", "-c", script, restartPolicy="Always")
        body = pod_body("owned", "sh", "-c", script)
        owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": await node_uid(site)}
        body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        await site.cluster.create(PODS, body)
        await site.until(lambda: "up" in site.log("bare") and "up" in site.log("owned"))
        await site.stop_agent()
        bare = await site.get("bare")
        names = {pod.metadata.name for pod in (await site.cluster.list(PODS)).items}
        ended = main_of(bare).state.terminated

        assert names == {"bare"}
        assert bare.status.phase.value == "Failed"
        assert ended is not None
        assert ended.exit_code == 9
        assert not processes_of(tmp_path)

    play(tmp_path, act)


async def node_uid(site: Site) -> str:
    from swell.api.kinds import NODES

    return (await site.cluster.get(NODES, Key("", NODE))).metadata.uid


@contextmanager
def node_command(home: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """`swell node` as people run it, ready."""
    program = "from swell.cli.main import main; main()"
    command = [sys.executable, "-c", program, "node", "--name", "here", *flags]
    environ = os.environ | {"SWELL_HOME": str(home)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "ready" in line, line + process.stderr.read()
        try:
            yield process
        finally:
            process.terminate()
            process.wait(WITHIN_S)
            process.stderr.close()


async def submit(cluster: KubeCluster, out: Path, home: Path, rng: random.Random) -> None:
    for number in range(N_PODS):
        script = f"echo run >> {out}/ran-{number}; sleep {rng.random():.2f}; exit {number}"
        body = pod_body(f"p{number}", "sh", "-c", script)
        body["spec"]["containers"][0]["env"] = [{"name": "MARK", "value": str(home)}]
        await cluster.create(PODS, body)


async def all_ended(cluster: KubeCluster) -> dict[str, BoundPod]:
    async with asyncio.timeout(WITHIN_S):
        while True:
            pods = (await cluster.list(BOUND_PODS)).items
            if all(pod.is_final for pod in pods):
                return {pod.metadata.name: pod for pod in pods}
            await asyncio.sleep(0.1)


async def kill_now_and_then(home: Path, out: Path) -> dict[str, BoundPod]:
    """Kill the agent three times while its pods run; the pods as they ended."""
    rng = random.Random(7)
    access = read_kubeconfig([home / "kubeconfig"])
    async with connect(access, SystemClock(), random.Random(1)) as cluster:
        for turn in range(3):
            with node_command(home) as agent:
                if turn == 0:
                    await submit(cluster, out, home, rng)
                await asyncio.sleep(rng.random() * 0.4)
                agent.kill()
                agent.wait()
        with node_command(home):
            pods = await all_ended(cluster)
            for name in pods:
                await cluster.delete(PODS, Key(NAMESPACE, name))
            await nothing_left(home)
        return pods


async def nothing_left(home: Path) -> None:
    async with asyncio.timeout(WITHIN_S):
        while processes_of(home):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def test_kill_of_the_agent_program_loses_nothing(tmp_path: Path) -> None:
    """Killed at any moment while pods start, run and end: each runs exactly once."""
    home = tmp_path / "home"
    with embedded_server(home):
        pods = asyncio.run(kill_now_and_then(home, tmp_path))

    for number in range(N_PODS):
        terminated = main_of(pods[f"p{number}"]).state.terminated
        assert terminated is not None
        assert terminated.exit_code == number
        assert (tmp_path / f"ran-{number}").read_text() == "run\n"


def test_killed_launcher_is_replaced(tmp_path: Path) -> None:
    """The pods it has started go on, and new ones start."""

    async def act(site: Site) -> None:
        await site.pod("first", "sleep", "1000")
        await site.running("first")
        for pid, _ in processes_of(tmp_path, LAUNCHER_NAME):
            os.kill(pid, signal.SIGKILL)
        await site.until(lambda: not processes_of(tmp_path, LAUNCHER_NAME))
        await site.pod("second", "true")
        await site.ended("second")

        assert (await site.get("first")).status.phase.value == "Running"

    play(tmp_path, act)
