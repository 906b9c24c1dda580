"""A master with its etcd, pservers and trainers in containers: they scale, and lose a pserver.

The etcd is the testbed's own binary in an image of the name that the operator uses by default, so
that nodes find it without a registry.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from image.build import reference
from image.oci import Image, add_file, write_images
from image.root import PYTHON
from swell.api.meta import Body
from swell.operator.trainingjob.settings import TrainingJobSettings
from tests.e2e.kubernetes.machine import RealMachine
from tests.testbed.binaries import binary

STORY = Path(__file__).with_name("etcd_story.yaml")
NAMESPACE = "e2e-etcd"
TOTAL = sum(number**2 for number in range(1, 61))
WITHIN_S = 180.0
POLL_S = 0.5


def etcd_image(folder: Path) -> Path:
    """An image with etcd and nothing else; it is linked statically."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        add_file(tar, "usr/local/bin/etcd", binary("etcd").read_bytes(), mode=0o755)
    file = folder / "etcd.tar"
    write_images(file, [Image(TrainingJobSettings().etcd_image, [content.getvalue()])])
    return file


def read(machine: RealMachine, *terms: str) -> Body:
    found: Body = msgspec.json.decode(
        machine.kubectl.ok("get", "-n", NAMESPACE, *terms, "-o", "json")
    )
    return found


def status(machine: RealMachine) -> Body:
    return dict(read(machine, "trainingjob", "ps").get("status", {}))


def until(machine: RealMachine, holds: Callable[[], bool], what: str) -> float:
    """Wait until something holds; returns the seconds that took."""
    began = time.monotonic()
    while not holds():
        found = status(machine)
        assert found.get("phase") not in {"Failed", "Timeout"}, f"not {what}: {found}"
        assert time.monotonic() < began + WITHIN_S, f"not {what}: {found}"
        time.sleep(POLL_S)
    return time.monotonic() - began


def swell(machine: RealMachine, *arguments: str) -> str:
    command = [sys.executable, "-m", "swell.cli.main", *arguments]
    where = ["-n", NAMESPACE, "--kubeconfig", str(machine.cluster.kubeconfig)]
    done = subprocess.run(
        [*command, *where], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def pods(machine: RealMachine, role: str) -> list[Body]:
    found = read(machine, "pods", "-l", f"paddle-job-{role}=ps")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def is_ready(pod: Body) -> bool:
    return all(c["ready"] for c in pod["status"].get("containerStatuses", [{"ready": False}]))


def test_job_with_etcd_scales_and_survives_a_lost_pserver(
    machine: RealMachine, tmp_path: Path
) -> None:
    """Every piece of work is counted once; the new pserver takes the place of the lost one."""
    machine.cluster.load_images(etcd_image(tmp_path))
    manifest = tmp_path / "ps.yaml"
    text = STORY.read_text(encoding="utf-8").replace("IMAGE", reference())
    manifest.write_text(text.replace("PYTHON", f"python{PYTHON}"))
    machine.kubectl.ok("create", "namespace", NAMESPACE)
    machine.kubectl.ok("apply", "-n", NAMESPACE, "-f", str(manifest))
    until(machine, lambda: status(machine).get("phase") == "Running", "running")
    (master,) = pods(machine, "master")
    images = {c["name"]: c["image"] for c in master["spec"]["containers"]}

    assert images["etcd"] == TrainingJobSettings().etcd_image
    assert "trainingjob/ps scaled" in swell(machine, "scale", "ps", "trainer=2")
    lost = pods(machine, "pserver")[0]["metadata"]
    machine.kubectl.ok(
        "delete", "pod", "-n", NAMESPACE, lost["name"], "--grace-period=0", "--force"
    )

    def is_replaced() -> bool:
        found = pods(machine, "pserver")
        names = {pod["metadata"]["name"] for pod in found}
        return len(found) == 2 and lost["name"] not in names and all(map(is_ready, found))

    until(machine, is_replaced, "replaced")
    restarts = [
        c["restartCount"]
        for pod in pods(machine, "pserver")
        for c in pod["status"]["containerStatuses"]
    ]
    until(machine, lambda: status(machine).get("phase") == "Succeed", "done")
    said = swell(machine, "logs", "ps", "--role", "trainer")
    ended = status(machine)

    assert restarts == [0, 0]
    assert f"total {float(TOTAL)}" in said
    assert any(one["by"] == "user" for one in ended["scale_records"]), ended
    assert "ps" in swell(machine, "get", "ps")
    assert "trainingjob/ps deleted" in swell(machine, "delete", "ps")
    assert read(machine, "pods", "-l", "paddle-job-name=ps")["items"] == []
    machine.kubectl.ok("delete", "namespace", NAMESPACE, "--wait=false")
