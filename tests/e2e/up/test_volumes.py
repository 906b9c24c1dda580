"""Claims on one machine: the manifests of a cluster run here, each claim with a folder."""

from __future__ import annotations

import json
from pathlib import Path

from swell.api.meta import Body
from tests.e2e.up.machine import Machine, until

CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
"""
JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: NAME}
spec:
  replicaSpecs:
    trainer:
      replicas: 1
      template:
        spec:
          containers:
            - name: aitj-trainer
              image: local
              command: [sh, -c, "COMMAND"]
              volumeMounts: [{name: data, mountPath: /data}]
          volumes:
            - name: data
              persistentVolumeClaim: {claimName: data}
"""


def apply(machine: Machine, name: str, text: str) -> None:
    path = machine.folder / f"{name}.yaml"
    path.write_text(text)
    machine.swell("apply", "-f", str(path))


def one(machine: Machine, kind: str, name: str) -> Body:
    found: Body = json.loads(machine.swell("get", kind, name, "-o", "json").stdout)
    return found


def test_claim_keeps_its_files_from_one_job_to_the_next(running: Machine) -> None:
    """A claim without a class gets a folder when its first pod has a node, and loses it at last."""
    apply(running, "claim", CLAIM)
    assert one(running, "pvc", "data")["status"]["phase"] == "Pending"
    apply(running, "first", JOB.replace("NAME", "first").replace("COMMAND", "echo 7 > /data/x"))
    running.until_phase("first", "Succeed")
    claim = one(running, "pvc", "data")
    volume = one(running, "pv", claim["spec"]["volumeName"])
    folder = Path(volume["spec"]["hostPath"]["path"])
    assert (folder / "x").read_text() == "7\n"
    again = "test $(cat /data/x) = 7"
    apply(running, "second", JOB.replace("NAME", "second").replace("COMMAND", again))
    running.until_phase("second", "Succeed")
    running.swell("delete", "aitrainingjob", "first", "second")
    running.swell("delete", "pvc", "data")

    until(lambda: not folder.exists())
