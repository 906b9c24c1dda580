"""The start command of the operator that AITrainingJobs come from, run as it is, on a server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.contract.targets import embedded_server
from tests.testbed import binaries
from tests.testbed.kubectl import Kubectl

LINE = (
    "--master {address} --v 4 --thread-num 1000 --logtostderr --leader-elect=true"
    " --enable-creating-failed=true"
)
JOB = """
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit, namespace: default}
spec:
  replicaSpecs:
    trainer: {template: {spec: {containers: [{name: aitj-main, image: local}]}}}
"""
WITHIN_S = 60.0


def _until(what: str, kubectl: Kubectl, *arguments: str, wanted: str) -> None:
    """Wait until the output of a command has a text."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if wanted in kubectl.run(*arguments).stdout:
            return
        time.sleep(0.2)
    raise AssertionError(f"{what}: {kubectl.run(*arguments)}")


def test_start_command_of_the_older_operator_serves_jobs(
    testbed_binaries: None, tmp_path: Path
) -> None:
    """An address without a scheme, no kubeconfig and no definitions: a job gets its pods."""
    home = {**os.environ, "HOME": str(tmp_path / "nobody")}
    for name in ("KUBECONFIG", "SWELL_HOME", "KUBERNETES_SERVICE_HOST"):
        home.pop(name, None)
    kubectl = Kubectl(tmp_path / "kubeconfig", tmp_path / "cache")
    through = [str(binaries.binary("kubectl")), f"--kubeconfig={kubectl.kubeconfig}", "proxy"]
    with (
        embedded_server(tmp_path),
        subprocess.Popen([*through, "--port=0"], stdout=subprocess.PIPE, text=True) as proxy,
    ):
        assert proxy.stdout is not None
        line = LINE.format(address=proxy.stdout.readline().split()[-1])
        command = [sys.executable, "-m", "swell.cli.main", "operator", *line.split()]
        with subprocess.Popen(command, env=home, stderr=subprocess.DEVNULL) as operator:
            try:
                _until("definitions", kubectl, "get", "crds", wanted="aitrainingjobs")
                _until("a lease", kubectl, "get", "leases", "-A", wanted="swell-operator")
                kubectl.ok("apply", "-f", "-", stdin=JOB)
                _until("a pod", kubectl, "get", "pods", wanted="fit-trainer-0")
                _until("events", kubectl, "describe", "aitj", "fit", wanted="TrainingJobPending")
            finally:
                operator.terminate()
                proxy.terminate()
