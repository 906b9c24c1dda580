"""The line of `swell run` on a terminal, replaced as the job goes on; no colours elsewhere."""

from __future__ import annotations

import os
import random
from pathlib import Path

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.cluster.kube import calls
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.cluster import merge_patch
from tests.contract.swell_command import Swell
from tests.contract.terminal import on_terminal

JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit}
spec:
  replicaSpecs:
    trainer:
      replicas: 1
      template: {spec: {containers: [{name: aitj-trainer, image: python}]}}
"""
CLEAR = "\r\x1b[K"
ESCAPE = "\x1b"


def report(namespace: str, **status: str) -> None:
    """Write what the controllers would say of the job."""
    client = OneShot(read_kubeconfig([Path(os.environ["KUBECONFIG"])]), random.Random(1))
    body: Body = {"status": status}
    job = AI_TRAINING_JOBS.untyped().status
    client.send(calls.patch(job, Key(namespace, "fit"), merge_patch(body)))


def test_line_is_replaced_and_its_end_stays(swell: Swell) -> None:
    """Each state takes the place of the last one; only the end is a line of its own."""
    with on_terminal("run", swell.file(JOB), "-n", swell.namespace) as terminal:
        terminal.until(f"{CLEAR}fit: Accepted")
        report(swell.namespace, phase="Pending", reason="NotEnough", message="waits for 4 cpu")
        terminal.until(f"{CLEAR}fit: Pending: NotEnough: waits for 4 cpu")
        report(swell.namespace, phase="Running", reason="", message="", ready="1/1")
        terminal.until(f"{CLEAR}fit: Running 1/1")
        report(swell.namespace, phase="Succeed", message="completed: trainer")
        assert terminal.ends() == 0

    shown = terminal.seen.replace("\r\n", "\n")
    assert "\nfit: Pending" not in shown
    assert f"{CLEAR}fit: Succeed after " in shown
    assert shown.endswith(": completed: trainer\n")


def test_nothing_that_is_piped_or_asked_to_be_plain_has_colours(swell: Swell) -> None:
    """Tables, errors and help have no escapes: in a pipe, and on a terminal with NO_COLOR."""
    for line in (("get",), ("get", "nobody"), ("--help",), ("run", "--help"), ("api-resources",)):
        answer = swell(*line)
        assert ESCAPE not in answer.out + answer.err
        environ = {**os.environ, "NO_COLOR": "1"}
        with on_terminal(*line, environ=environ) as terminal:
            terminal.ends()
        assert ESCAPE not in terminal.seen, line
