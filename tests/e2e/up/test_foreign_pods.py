"""Pods that name another scheduler, or none, run where no other scheduler is."""

from __future__ import annotations

import json

import pytest

from tests.e2e.up.machine import Machine, until

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  schedulerName: SCHEDULER
  containers:
    - name: main
      image: local
      command: [sh, -c, "echo from NAME"]
      resources: {requests: {cpu: CPU}}
"""
BATCH_JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: plain}
spec:
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: local, command: ["true"]}]
"""


def apply(machine: Machine, name: str, text: str) -> None:
    path = machine.folder / f"{name}.yaml"
    path.write_text(text)
    machine.swell("apply", "-f", str(path))


def pod(name: str, scheduler: str, cpu: str = "100m") -> str:
    return POD.replace("NAME", name).replace("SCHEDULER", scheduler).replace("CPU", cpu)


@pytest.mark.parametrize("scheduler", ["default-scheduler", "volcano"])
def test_pod_of_another_scheduler_runs(running: Machine, scheduler: str) -> None:
    """`kubectl run` leaves the scheduler out, and a real server then writes its default."""
    name = f"of-{scheduler}"
    apply(running, name, pod(name, scheduler))

    def phase() -> str:
        found = running.swell("get", "pod", name, "-o", "jsonpath={.status.phase}").stdout
        return str(found)

    until(lambda: phase() == "Succeeded", phase)

    assert f"from {name}" in running.swell("logs", name).stdout
    running.swell("delete", "pod", name)


def test_batch_job_of_kubernetes_completes(running: Machine) -> None:
    """Its pods name no scheduler."""
    apply(running, "plain", BATCH_JOB)

    def succeeded() -> bool:
        found = json.loads(running.swell("get", "jobs.batch", "plain", "-o", "json").stdout)
        return bool(found.get("status", {}).get("succeeded") == 2)

    until(succeeded)
    running.swell("delete", "jobs.batch", "plain")


def test_pod_without_room_is_explained(running: Machine) -> None:
    """`explain` counts it among the pods that wait here, and not as another scheduler's."""
    apply(running, "huge", pod("huge", "default-scheduler", cpu="1000"))

    def reason() -> str:
        return str(json.loads(running.swell("explain", "pod/huge", "-o", "json").stdout)["reason"])

    until(lambda: reason() == "NotEnoughResources", reason)
    reported = running.swell("explain", "pod/huge").stdout

    assert "default-scheduler" not in reported
    running.swell("delete", "pod", "huge")
