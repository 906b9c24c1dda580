"""What if, and when, on a large cluster: `swell plan job`, `plan drain`, `plan queue`; estimates.

Each command is a process over a dump. Its seconds are those of the processor and of the whole
command, with the start of Python and the reading of the dump; its memory is the most that it had.
PLAN_NODES makes the cluster smaller. Estimates are compared with the half minute between two.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from bench.budgets import Budget, at_most
from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.meta import Body
from swell.api.times import format_time, parse_time
from swell.autoscaler.estimates.keeper import PERIOD_S, EstimateKeeper
from swell.autoscaler.plan import inquiry_resource
from swell.cli.plan.input import read_objects
from swell.outlook.sizing import sizing_objects

# Nodes of 8 GPUs; per node 8 pods of training jobs that run and 1 of another program; and jobs
# that wait: with 5,000 nodes, 50,000 pods.
N_NODES = int(os.environ.get("PLAN_NODES", "5000"))
PER_NODE = 8
N_REPLICAS = 10
WAITING_SHARE = 0.1
_SINCE = "2026-01-01T00:00:00Z"
# What is asked, and the files beside the dump.
QUESTIONS = {
    "plan job that waits": ("job", "waits.json"),
    "plan job that starts": ("job", "starts.json"),
    "plan job, goodput": ("job", "waits.json", "--policy", "goodput"),
    "plan job, seven variants": (
        *("job", "waits.json", "--priority", "urgent", "--queue", "other", "--replicas", "2"),
        *("--node-pool", "+4x8gpu", "--without", "team/job-00001", "--drain", "node-00001"),
    ),
    "plan drain": ("drain", "node-00003"),
    "plan queue": ("queue",),
}

ASKED: dict[str, Budget] = {
    "plan job that waits, s": at_most(6),
    "plan job that starts, s": at_most(6),
    "  at most: plan job that waits, MiB": at_most(1024),
    "  at most: plan job that starts, MiB": at_most(1024),
    "  of the time between two, %": at_most(1),
}


def run() -> dict[str, object]:
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as name:
        folder = Path(name)
        items = list(objects(N_NODES))
        dump = _dumped(folder, items)
        n_pods = sum(one["kind"] == "Pod" for one in items)
        figures["nodes"], figures["pods"] = N_NODES, n_pods
        for file, gpus in (("waits.json", "1"), ("starts.json", "0")):
            (folder / file).write_text(json.dumps(job_body("planned", gpus, uid="")))
        for label, arguments in QUESTIONS.items():
            command = [a if not a.endswith(".json") else str(folder / a) for a in arguments]
            wall_s, cpu_s, peak_mib = cost([*command, "-f", dump], folder)
            figures[f"{label}, s"] = round(wall_s, 2)
            figures[f"  of the processor: {label}, s"] = round(cpu_s, 2)
            figures[f"  at most: {label}, MiB"] = round(peak_mib)
        figures |= estimates(folder)
    return figures


def estimates(folder: Path) -> dict[str, object]:
    """Returns the CPU of estimating the starts of 1,000 jobs, beside what they are made from."""
    world = read_objects([_dumped(folder, objects(2500, waiting=1000))])
    snapshot = inquiry_resource(sizing_objects(world))
    keeper = EstimateKeeper(lambda _: 0)
    now = parse_time(_SINCE) + 3600
    # Earlier runs of the program: every end is known, in each scenario another one.
    for n in range(20):
        ended = job_body(f"ended-{n}", "1", uid=f"ended-{n}")
        took = {"startRunningTime": _SINCE, "endTime": format_time(now + 600 * n)}
        ended["status"] = {"phase": "Succeed", **took}
        keeper.note_run(convert(ended, AITrainingJob))
    times = []
    for _ in range(5):
        began = time.process_time()
        found = keeper.estimate(snapshot, now)
        times.append(time.process_time() - began)
    cpu_s = statistics.median(times)
    n_running = len(snapshot.jobs) - len(found)
    return {
        f"estimates of {len(found):,} starts beside {n_running:,} jobs, s": round(cpu_s, 3),
        "  of the time between two, %": round(100 * cpu_s / PERIOD_S, 2),
    }


def _dumped(folder: Path, items: Iterable[Body]) -> str:
    file = folder / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))
    return str(file)


def cost(arguments: list[str], folder: Path) -> tuple[float, float, float]:
    """Returns the seconds of one command, those of the processor, and its largest memory in MiB."""
    out = folder / "out"
    began = time.perf_counter()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "swell", "plan", *arguments],
        {**os.environ, "HOME": str(folder)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, str(out), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        ],
    )
    _, status, used = os.wait4(pid, 0)
    wall_s = time.perf_counter() - began
    if status:
        raise RuntimeError(f"swell plan {' '.join(arguments)} failed: {out.read_text()[-500:]}")
    return wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def objects(n_nodes: int, waiting: int | None = None) -> Iterator[Body]:
    """Yields a cluster whose GPUs are all in use, with jobs that wait for some."""
    yield {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", **_named("default", "")}
    yield {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", **_named("other", "")}
    yield {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        **_named("urgent", ""),
        "value": 1000,
    }
    for n in range(n_nodes):
        yield node_body(n)
    seats = (n for n in range(n_nodes) for _ in range(PER_NODE))
    n_running = n_nodes * PER_NODE // N_REPLICAS
    n_waiting = int(n_running * WAITING_SHARE) if waiting is None else waiting
    for n in range(n_running + n_waiting):
        is_running = n < n_running
        yield job_body(f"job-{n:05}", "1", uid=f"job-{n}", is_running=is_running)
        yield group_body(f"job-{n:05}", is_running=is_running)
        for index in range(N_REPLICAS):
            node = f"node-{next(seats):05}" if is_running else ""
            yield pod_body(f"job-{n:05}", index, node, n)
    n_others = n_nodes * (PER_NODE + 2) - (n_running + n_waiting) * N_REPLICAS
    for n in range(n_others):
        yield other_body(n, f"node-{n % n_nodes:05}")


_uids = count()


def _named(name: str, namespace: str = "team", **more: object) -> Body:
    place = {"namespace": namespace} if namespace else {}
    meta = {"name": name, **place, "uid": f"uid-{next(_uids)}", "creationTimestamp": _SINCE}
    return {"metadata": {**meta, "resourceVersion": "1", **more}}


def node_body(n: int) -> Body:
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(PER_NODE)}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": _SINCE}
    labels = {"kubernetes.io/hostname": f"node-{n:05}", "zone": f"z{n % 8}"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        **_named(f"node-{n:05}", "", labels=labels),
        "status": status,
    }


def _container(gpus: str) -> Body:
    amounts = {"cpu": "4", "memory": "16Gi", **({"nvidia.com/gpu": gpus} if gpus != "0" else {})}
    return {"name": "aitj-t", "image": "i", "resources": {"limits": amounts, "requests": amounts}}


def job_body(name: str, gpus: str, *, uid: str, is_running: bool = False) -> Body:
    role = {
        "replicas": N_REPLICAS,
        "minReplicas": N_REPLICAS // 2,
        "maxReplicas": 2 * N_REPLICAS,
        "edlPolicy": "Auto",
        "template": {"spec": {"containers": [_container(gpus)]}},
    }
    body: Body = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        **_named(name),
        "spec": {"replicaSpecs": {"trainer": role}},
    }
    if uid:
        body["metadata"]["uid"] = uid
        body["status"] = {
            "phase": "Running" if is_running else "Pending",
            "targetReplicas": {"trainer": N_REPLICAS},
            "startTime": _SINCE,
            **({"startRunningTime": _SINCE} if is_running else {}),
        }
    return body


def group_body(name: str, *, is_running: bool) -> Body:
    spec = {
        "minMember": N_REPLICAS // 2,
        "minTaskMember": {"trainer": N_REPLICAS // 2},
        "queue": "default",
    }
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        **_named(name),
        "spec": spec,
        "status": {"phase": "Running" if is_running else "Inqueue"},
    }


def pod_body(job: str, index: int, node: str, n: int) -> Body:
    owner = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "name": job,
        "uid": f"job-{n}",
        "controller": True,
    }
    marks = {
        "TrainingJobName": job,
        "TrainingJobReplicaName": "trainer",
        "TrainingJobReplicaIndex": str(index),
    }
    notes = {"scheduling.k8s.io/group-name": job, "volcano.sh/task-spec": "trainer"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **_named(
            f"{job}-trainer-{index}", labels=marks, annotations=notes, ownerReferences=[owner]
        ),
        "spec": {
            "schedulerName": "swell",
            "containers": [_container("1")],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running" if node else "Pending", "startTime": _SINCE},
    }


def other_body(n: int, node: str) -> Body:
    amounts = {"cpu": "500m", "memory": "1Gi"}
    container = {"name": "main", "image": "i", "resources": {"requests": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **_named(f"web-{n:05}", "web", labels={"app": f"app-{n % 50}"}),
        "spec": {"schedulerName": "default-scheduler", "containers": [container], "nodeName": node},
        "status": {"phase": "Running", "startTime": _SINCE},
    }
