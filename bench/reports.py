"""How much of a processor reports of training programs cost the operator, with 500 jobs.

Each job has one pod, whose bus port is that of one small server in a process of its own; every
answer of it differs from the last. The figure is the operator's processor time with reports, less
what the same operator and jobs take while no program answers.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time

from bench.http import embedded_server
from swell.api.kinds import AI_TRAINING_JOBS, NAMESPACES, PODS
from swell.api.meta import Body, Key
from swell.cli.command_line import collect_seldom
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.program import install_crds, operate
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Selection, merge_patch

N_JOBS = 500
IDLE_S, REPORTS_S = 30.0, 60.0
LOOKS_MAX = 300
NAMESPACE = "team"
PROGRAM = """
import asyncio, json, sys
n = 0
async def answer(reader, writer):
    global n
    n += 1
    await reader.readuntil(b"\\r\\n\\r\\n")
    report = {"generation": 1, "epoch": 1, "size": 1, "step": n, "samples": n,
              "totalSamples": 10**9, "rates": {"1": 100.0 + n % 7}}
    body = json.dumps(report).encode()
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.sleep(1e6)
asyncio.run(main())
"""


def run() -> dict[str, object]:
    collect_seldom()  # as the operator's process does
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    try:
        if program.stdout is None:
            raise RuntimeError("the program did not start")
        port = int(program.stdout.readline())
        with embedded_server() as kubeconfig:

            async def main() -> dict[str, object]:
                access, rng = read_kubeconfig([kubeconfig]), random.Random(1)
                async with connect(access, SystemClock(), rng) as cluster:
                    return await _measure(cluster, port)

            return asyncio.run(main())
    finally:
        program.terminate()
        program.wait()
        if program.stdout is not None:
            program.stdout.close()


async def _measure(cluster: KubeCluster, port: int) -> dict[str, object]:
    clock = SystemClock()
    await install_crds(cluster, clock)
    await cluster.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for n in range(N_JOBS):
        await cluster.create(AI_TRAINING_JOBS, _job(f"job-{n}", port))
    kind = ai_training_job_kind(AITrainingJobSettings(namespace=NAMESPACE))
    operator = asyncio.create_task(operate(kind, cluster, clock=clock, random=random.Random(2)))
    try:
        await _until_running(cluster)
        await asyncio.sleep(5)
        idle = await _share(IDLE_S)
        await _give_addresses(cluster)
        await asyncio.sleep(5)
        before = await _n_reported(cluster)
        busy = await _share(REPORTS_S)
        after = await _n_reported(cluster)
    finally:
        operator.cancel()
        await asyncio.gather(operator, return_exceptions=True)
    return {
        "jobs": N_JOBS,
        "cpu_without_reports_percent": round(100 * idle, 2),
        "cpu_of_reports_percent": round(100 * (busy - idle), 2),
        "jobs_with_a_report_before_and_after": f"{before} {after}",
    }


async def _share(seconds: float) -> float:
    """The share of a processor that this process takes for so long."""
    cpu_s, begun = time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    return (time.process_time() - cpu_s) / (time.monotonic() - begun)


async def _until_running(cluster: KubeCluster) -> None:
    """Have every pod run, as a kubelet reports it, but without an address."""
    for _ in range(LOOKS_MAX):
        await asyncio.sleep(1)
        pods = (await cluster.list(PODS, Selection(NAMESPACE))).items
        if len(pods) == N_JOBS:
            break
    for pod in pods:
        change = merge_patch({"status": {"phase": "Running"}})
        await cluster.patch(PODS.status, pod.metadata.key, change)


async def _give_addresses(cluster: KubeCluster) -> None:
    address: Body = {"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
    for n in range(N_JOBS):
        await cluster.patch(PODS.status, Key(NAMESPACE, f"job-{n}-trainer-0"), merge_patch(address))


async def _n_reported(cluster: KubeCluster) -> int:
    jobs = (await cluster.list(AI_TRAINING_JOBS, Selection(NAMESPACE))).items
    return sum(job.status.training is not None for job in jobs)


def _job(name: str, port: int) -> Body:
    container = {
        "name": "aitj-main",
        "image": "local",
        "env": [{"name": "SWELL_BUS_PORT", "value": str(port)}],
    }
    role = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": AI_TRAINING_JOBS.api_version,
        "kind": AI_TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"reporting": True, "replicaSpecs": {"trainer": role}},
    }
