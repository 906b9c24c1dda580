"""How long `swell scheduler` takes from the start of its process to the first pod that has a node.

A real kube-apiserver with 1,000 nodes, written to etcd directly, and one pod that waits. Python's
modules are compiled, as they are where a package was installed. Every round starts a new process.
"""

from __future__ import annotations

import asyncio
import compileall
import importlib.util
import statistics
import sys
import time
from pathlib import Path

from bench import live_cluster
from bench.budgets import Budget, at_most
from bench.live_idle import fill, nodes, pod
from swell.api.kinds import PODS
from swell.operator.framework.program import install_crds
from swell.runtime.clock import SystemClock
from tests.testbed import binaries
from tests.testbed.control_plane import ControlPlane, running_control_plane

N_NODES = 1000
N_ROUNDS = 7
BOUND_S_MAX = 60.0
IMPORTS = "swell.scheduler.live.controller"
FIRST_BOUND = "start to first bound pod, 1,000 nodes, s"
ASKED: dict[str, Budget] = {FIRST_BOUND: at_most(0.7)}


def run() -> dict[str, object]:
    """All figures; or why there are none."""
    try:
        binaries.require(binaries.CONTROL_PLANE)
    except binaries.BinariesMissingError as error:
        return {"kube-apiserver": str(error)}
    _compile()
    with running_control_plane(controllers=()) as plane:
        return asyncio.run(_measure(plane))


def _compile() -> None:
    """Compile our own modules where the environment keeps Python from doing so."""
    spec = importlib.util.find_spec("swell")
    for place in (spec and spec.submodule_search_locations) or ():
        compileall.compile_dir(Path(place), quiet=1)


async def _measure(plane: ControlPlane) -> dict[str, object]:
    wall_s: list[float] = []
    cpu_s: list[float] = []
    async with live_cluster.connected(plane) as cluster:
        await install_crds(cluster, SystemClock())
        fill(plane, nodes(N_NODES))
        for n in range(N_ROUNDS):
            namespace = f"start-{n}"
            await live_cluster.add_namespace(cluster, namespace)
            await cluster.create(PODS.untyped(), pod(namespace, "waiting"))
            command = live_cluster.swell_scheduler(plane, live_cluster.free_port())
            async with live_cluster.observing_binds(cluster, namespace) as observer:
                begun = time.monotonic()
                with live_cluster.running(plane, f"swell-{n}", command) as process:
                    async with asyncio.timeout(BOUND_S_MAX):
                        while not observer.bound_at:  # noqa: ASYNC110
                            await asyncio.sleep(0.005)
                    cpu_s.append(live_cluster.cpu_s(process))
                    wall_s.append(observer.bound_at["waiting"] - begun)
            await live_cluster.remove_pods(cluster, namespace)
    return {
        FIRST_BOUND: round(statistics.median(wall_s), 2),
        "each round": " ".join(f"{one:.2f}" for one in wall_s),
        "CPU until then, s": round(statistics.median(cpu_s), 2),
        "of these for modules, CPU s": round(await _import_cpu_s(), 2),
    }


async def _import_cpu_s() -> float:
    """Return what a Python takes to load the scheduler and to do nothing: a median."""
    say = "import time; print(time.process_time())"
    found = []
    for _ in range(N_ROUNDS):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", f"import {IMPORTS}; {say}", stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        found.append(float(said))
    return statistics.median(found)
