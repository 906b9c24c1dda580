"""Programs that train together on `swell up`: what they are given, and what is heard of them."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import time
from pathlib import Path
from random import Random

import pytest

from swell.api.kinds import CONFIG_MAPS, PODS
from swell.api.meta import Body, Key
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.operator.framework.training import RELEASE, TRAINING
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import merge_patch
from tests.e2e.up.machine import Machine, until

# Answers for its report as a member of a group does, and says when its folder changes.
PROGRAM = """
import hashlib, hmac, http.server, json, os, signal, sys, threading, time
from swell.train.place import place_of

place = place_of(os.environ)
token = hmac.new(place.secret, b"swell report", hashlib.sha256).hexdigest()
step = 0

class Bus(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_asked = self.headers["Authorization"] == f"Bearer {token}" and self.path == "/report"
        report = {"generation": 1, "epoch": 1, "size": 2, "step": step, "samples": step * 10,
                  "totalSamples": 100000, "rates": {"2": 100.0}, "lastPauseSeconds": 0.25}
        body = json.dumps(report if place.index == 1 else {"leader": 1}).encode()
        self.send_response((200 if place.index == 1 else 404) if is_asked else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer((place.address, place.bus_port), Bus)
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.signal(signal.SIGTERM, lambda *_: (print(f"SIGTERM {time.time():.4f}", flush=True),
                                          sys.exit(143)))
last = None
while True:
    step += 1
    seen = {name: (place.members / name).read_text() for name in ("epoch", "trainer", "instances")}
    if seen != last:
        last = seen
        print(f"MEMBERS {time.time():.4f} {place.instance} {seen}", flush=True)
    time.sleep(0.002)
"""
# Trains nothing, together with the others.
GROUPED = """
import os, sys, time
from swell.api.report import TrainingReport
from swell.train.bus import open_group
from swell.train.bus.plan import NOTHING, GroupPlan, Held
from swell.train.place import place_of

group = open_group(place_of(os.environ), minimum=1, meeting_port=29999, on_abort=lambda _: None)
held, step = NOTHING, 0
while True:
    plan = group.join(held, trained=step > 0)
    if not isinstance(plan, GroupPlan):
        group.close()
        sys.exit(143)
    while group.begin(step):
        step += 1
        held = Held(plan.generation, step)
        group.publish(TrainingReport(generation=plan.generation, epoch=plan.epoch, size=plan.size,
                                     step=step))
        time.sleep(0.02)
"""
WRITES = """
import json, os, time
step = 0
while True:
    step += 1
    path = os.environ["SWELL_REPORT"]
    with open(path + ".new", "w") as file:
        json.dump({"generation": 1, "epoch": 1, "size": 1, "step": step}, file)
    os.replace(path + ".new", path)
    time.sleep(0.5)
"""
N_TIMES = 10


def manifest(folder: Path, name: str, program: str) -> str:
    script = folder / f"{name}.py"
    script.write_text(program)
    container: Body = {
        "name": "aitj-main",
        "image": "local",
        "command": [sys.executable, str(script)],
        "volumeMounts": [{"name": "mine", "mountPath": "/mine"}],
    }
    spec = {
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": [{"name": "mine", "configMap": {"name": "mine", "optional": True}}],
    }
    role = {
        "replicas": 2,
        "minReplicas": 1,
        "maxReplicas": 4,
        "edlPolicy": "Manual",
        "restartPolicy": "Always",
        "restartScope": "Pod",
        "template": {"spec": spec},
    }
    body: Body = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"reporting": True, "replicaSpecs": {"trainer": role}},
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(body))
    return str(path)


@pytest.fixture(scope="module")
def fit(running: Machine) -> Machine:
    """A cluster with a job whose two programs run."""
    running.swell("apply", "-f", manifest(running.folder, "fit", PROGRAM))
    until(lambda: bool(seen(running, 0) and seen(running, 1)))
    return running


def log_of(machine: Machine, index: int) -> str:
    one = ("--role", "trainer", "--index", str(index))
    return machine.swell("logs", "fit", *one, expect=None).stdout


def seen(machine: Machine, index: int) -> list[tuple[int, str]]:
    """Each membership that a pod's programs have read: their number, and the content."""
    found = re.findall(r"MEMBERS \S+ (\d+) (.*)", log_of(machine, index))
    return [(int(instance), text) for instance, text in found]


def waits_s(machine: Machine) -> dict[str, list[float]]:
    """How long after their write a new ConfigMap and a new annotation are in a pod's files."""

    async def main() -> dict[str, list[float]]:
        found: dict[str, list[float]] = {"map": [], "annotation": []}
        access = read_kubeconfig([machine.home / "kubeconfig"])
        async with connect(access, SystemClock(), Random()) as cluster:
            pod = await cluster.get(PODS, Key("default", "fit-trainer-0"))
            volumes = machine.home / "pods" / pod.metadata.uid / "volumes"
            meta = {"name": "mine", "namespace": "default"}
            first: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
            await cluster.create(CONFIG_MAPS, first)
            for n in range(N_TIMES):
                change = merge_patch({"data": {"n": f"map {n}"}})
                await cluster.patch(CONFIG_MAPS, Key("default", "mine"), change)
                found["map"].append(await _until_it_says(volumes / "mine" / "n", f"map {n}"))
                note = merge_patch({"metadata": {"annotations": {RELEASE: f"note {n}"}}})
                await cluster.patch(PODS, pod.metadata.key, note)
                path = volumes / "swell-pod" / "release"
                found["annotation"].append(await _until_it_says(path, f"note {n}"))
        return found

    return asyncio.run(main())


def _says(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


async def _until_it_says(path: Path, text: str) -> float:
    began = time.monotonic()
    while not _says(path, text):
        assert time.monotonic() < began + 10, f"{path} never says {text}"
        await asyncio.sleep(0.001)
    return time.monotonic() - began


def test_mounted_files_follow_their_objects_at_once(fit: Machine) -> None:
    """The members folder is such a ConfigMap, the release file such an annotation."""
    waits = waits_s(fit)

    assert statistics.median(waits["map"]) <= 0.05, waits
    assert statistics.median(waits["annotation"]) <= 0.05, waits


def test_report_of_the_leader_is_shown(fit: Machine) -> None:
    """By `get`, `describe` and `top`; the leader is pod 1, which pod 0 names."""
    until(lambda: "training" in fit.job("fit").get("status", {}))
    wide = fit.swell("get", "aitj", "fit", "-o", "wide").stdout

    assert {"PROGRESS", "RATE", "ETA"} <= set(wide.split())
    assert "100" in wide.split()
    assert {"Training:", "PAUSE", "0.25"} <= set(
        fit.swell("describe", "aitj", "fit").stdout.split()
    )
    assert "PAUSE" in fit.swell("top").stdout


def test_members_learn_of_resizes_and_restarts(fit: Machine) -> None:
    """Numbers and epochs grow; pods that leave hear SIGTERM."""
    fit.swell("scale", "fit", "trainer=3")
    until(lambda: any("'epoch': '2'" in text for _, text in seen(fit, 0)))
    until(lambda: bool(seen(fit, 2)))
    fit.swell("delete", "pod", "fit-trainer-0")
    until(lambda: [number for number, _ in seen(fit, 0)][-1:] == [2])
    until(lambda: "trainer 2 1 1" in seen(fit, 1)[-1][1])
    fit.swell("scale", "fit", "trainer=2")
    until(lambda: "SIGTERM" in log_of(fit, 2))


def test_report_file_of_a_program_without_the_library_is_read(running: Machine) -> None:
    running.swell("apply", "-f", manifest(running.folder, "plain", WRITES))
    until(lambda: "training" in running.job("plain").get("status", {}))

    assert running.job("plain")["status"]["training"]["step"] > 0


def test_report_of_a_real_group_is_heard(running: Machine) -> None:
    """The bus of the library answers as the operator asks."""
    running.swell("apply", "-f", manifest(running.folder, "grouped", GROUPED))
    until(lambda: running.job("grouped").get("status", {}).get("training", {}).get("size") == 2)

    assert running.job("grouped")["status"]["training"]["step"] > 0


def test_trainers_of_a_trainingjob_train_together(running: Machine) -> None:
    """They meet by the same bus, outlive a deleted pod, and their report is shown."""
    script = running.folder / "trainers.py"
    script.write_text(GROUPED)
    trainer = {
        "entrypoint": f"{sys.executable} {script}",
        "min-instance": 1,
        "max-instance": 3,
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    body: Body = {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "trainers", "annotations": {TRAINING: "true"}},
        "spec": {
            "image": "local",
            "is_nccl": True,
            "fault_tolerant": True,
            "master": {"entrypoint": "sleep 600", "etcd-endpoint": "http://127.0.0.1:1"},
            "trainer": trainer,
        },
    }
    path = running.folder / "trainers.json"
    path.write_text(json.dumps(body))
    running.swell("apply", "-f", str(path))

    def trained() -> Body:
        text = running.swell("get", "tj", "trainers", "-o", "json").stdout
        found: Body = json.loads(text).get("status", {}).get("training", {})
        return found

    def trainers() -> set[str]:
        """The names of the trainers' pods that run."""
        pods = json.loads(running.swell("get", "pods", "-o", "json").stdout)["items"]
        live = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        names = {pod["metadata"]["name"] for pod in live}
        return {name for name in names if name.startswith("trainers-trainer-")}

    running.swell("scale", "tj/trainers", "trainer=3")
    until(lambda: trained().get("size") == 3)
    before = trained()["generation"]
    gone = sorted(trainers())[0]
    running.swell("delete", "pod", gone)
    until(lambda: len(trainers() - {gone}) == 3)
    until(
        lambda: trained()["generation"] > before and trained()["size"] == 3,
        lambda: running.swell("describe", "tj", "trainers").stdout,
    )

    assert "Training:" in running.swell("describe", "tj", "trainers").stdout
    assert "TrainingJob/trainers" in running.swell("top").stdout
    assert "RATE" in running.swell("get", "tj", "trainers", "-o", "wide").stdout.split()
    running.swell("delete", "tj", "trainers")
