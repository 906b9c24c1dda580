"""Ctrl-C on a job that is followed, and `swell stop`: on the embedded server and on a real one."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from swell.cli.jobs.interrupting import QUESTION
from tests.contract.swell_command import Swell
from tests.contract.terminal import SWELL, WITHIN_S, on_terminal

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
OLD_JOB = """\
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {name: old}
spec:
  image: python
  trainer: {entrypoint: "true", min-instance: 1, max-instance: 1}
"""
STOPPED = "elasticdeeplearning.ai/stopped"
CTRL_C = "\x03"


def notes_on(swell: Swell, name: str, kind: str = "aitj") -> dict[str, str]:
    metadata = swell.here("get", kind, name, "-o", "json").json["metadata"]
    assert isinstance(metadata, dict)
    found: dict[str, str] = metadata.get("annotations", {})
    return found


def test_ctrl_c_on_a_terminal_asks_and_detaches(swell: Swell) -> None:
    """`c` goes on, another key asks again, and `d` leaves the job alone, which is no failure."""
    with on_terminal("run", swell.file(JOB), "-n", swell.namespace) as terminal:
        terminal.until("fit: Accepted")
        terminal.type(CTRL_C)
        terminal.until(QUESTION)
        terminal.type("c")
        terminal.until(f"{QUESTION}c")
        terminal.seen = ""
        terminal.type(CTRL_C)
        terminal.until(QUESTION)
        terminal.type("x")
        terminal.until(f"{QUESTION}x\n\n{QUESTION}")
        terminal.type("d")

        assert terminal.ends() == 0
    assert "detached, it goes on; again: swell attach fit; end it: swell stop fit" in terminal.seen
    assert STOPPED not in notes_on(swell, "fit")


def test_ctrl_c_at_the_question_detaches(swell: Swell) -> None:
    """Whoever presses Ctrl-C again does not want to be asked."""
    with on_terminal("run", swell.file(JOB), "-n", swell.namespace) as terminal:
        terminal.until("fit: Accepted")
        terminal.type(CTRL_C)
        terminal.until(QUESTION)
        terminal.type(CTRL_C)

        assert terminal.ends() == 0
    assert STOPPED not in notes_on(swell, "fit")


def test_ctrl_c_on_a_terminal_can_stop_the_job(swell: Swell) -> None:
    """`s` stops the job; its end is waited for, and once more Ctrl-C leaves. Both are 130."""
    with on_terminal("run", swell.file(JOB), "-n", swell.namespace) as terminal:
        terminal.until("fit: Accepted")
        terminal.type(CTRL_C)
        terminal.until(QUESTION)
        terminal.type("s\n")
        terminal.until("stopping it")
        assert notes_on(swell, "fit")[STOPPED] == "stopped by Ctrl-C in swell run"
        terminal.type(CTRL_C)

        assert terminal.ends() == 130
    assert swell.here("get", "fit", "-o", "name").out == "aitrainingjob/fit\n"


@pytest.mark.parametrize("command", ["run", "attach"])
def test_ctrl_c_without_a_terminal_detaches(swell: Swell, command: str) -> None:
    """There is nobody to ask: the job goes on, and the command has not failed."""
    if command == "attach":
        swell.apply(JOB)
    what = swell.file(JOB) if command == "run" else "fit"
    with subprocess.Popen(
        [*SWELL, command, what, "-n", swell.namespace],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
        preexec_fn=_hear_interrupts,  # noqa: PLW1509
    ) as process:
        assert process.stderr is not None
        while "Accepted" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=WITHIN_S)

    assert (process.returncode, QUESTION in said) == (0, False)
    assert "detached, it goes on" in said
    assert STOPPED not in notes_on(swell, "fit")


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("phase", ["Failed", "Preempted", "NodeFail"])
def test_job_is_stopped_as_asked(swell: Swell, phase: str) -> None:
    """The operator is told by two annotations, one of which earlier operators know, too."""
    swell.apply(JOB)

    answer = swell.here("stop", "fit", "--as", phase.lower(), "--reason", "enough")

    assert (answer.code, answer.out, answer.err) == (0, "aitrainingjob/fit stopped\n", "")
    assert notes_on(swell, "fit").items() >= {phase: "enough", STOPPED: "enough"}.items()


def test_training_job_is_stopped_as_failed(swell: Swell) -> None:
    """Its kind has no other phase for it."""
    swell.apply(OLD_JOB)

    refused = swell.here("stop", "tj/old", "--as", "Preempted")
    assert (refused.code, refused.out) == (2, "")
    assert "can end as Failed only" in refused.err
    assert swell.here("stop", "old").out == "trainingjob/old stopped\n"
    assert notes_on(swell, "old", "tj")[STOPPED] == "stopped by swell stop"


def test_nothing_is_stopped_if_one_name_is_wrong(swell: Swell) -> None:
    """All names are looked up first."""
    swell.apply(JOB)

    answer = swell.here("stop", "fit", "nobody")

    assert (answer.code, answer.out) == (1, "")
    assert "no job nobody" in answer.err
    assert STOPPED not in notes_on(swell, "fit")


@pytest.mark.parametrize(
    ("alias", "instead"), [("fail", "swell stop fit"), ("preempt", "swell stop fit --as Preempted")]
)
def test_older_forms_say_what_to_write(swell: Swell, alias: str, instead: str) -> None:
    """They work as before, with one line about their successor."""
    swell.apply(JOB)

    answer = swell.here(alias, "fit")

    assert answer.code == 0
    assert answer.err == f"note: swell {alias} is deprecated; write: {instead}\n"
    assert notes_on(swell, "fit")[STOPPED] == f"ended by swell {alias}"
