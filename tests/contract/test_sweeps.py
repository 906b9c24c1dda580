"""Sweeps on the embedded server and on a real one: submitted, shown, stopped, retried, deleted."""

from __future__ import annotations

import os
import random
from pathlib import Path

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Key
from swell.cli.choice import ChosenBy, ClusterChoice
from swell.cli.connection import access_of
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.cluster import merge_patch
from tests.contract.swell_command import Swell
from tests.contract.terminal import on_terminal

COMMAND = ("--", "python", "train.py", "--lr", "{lr}", "--seed", "{seed}")


def end(swell: Swell, phases: dict[str, str]) -> None:
    """Give jobs a final phase, as the operator does."""
    kubeconfig = Path(os.environ["KUBECONFIG"])
    access = access_of(ClusterChoice(ChosenBy.KUBECONFIG, (kubeconfig,)))
    client = OneShot(access, random.Random(1))
    for name, phase in phases.items():
        patch = merge_patch({"status": {"phase": phase}})
        client.send(calls.patch(AI_TRAINING_JOBS.status, Key(swell.namespace, name), patch))


def test_sweep_is_submitted_and_shown(swell: Swell) -> None:
    """Counts and rows as a table, and as an object; all sweeps as a list."""
    flags = ("--detach", "--name", "s", "-n", swell.namespace)
    answer = swell("sweep", *flags, "lr=1e-3,1e-4", "seed=0..1", *COMMAND)

    assert (answer.code, answer.out) == (0, "sweep/s created\n")
    assert "sweep/s: 4 jobs submitted" in answer.err
    shown = swell.here("get", "sweep", "s").out.splitlines()
    assert shown[0] == "sweep/s: 4 jobs: 4 Accepted"
    assert shown[2].split() == ["JOB", "lr", "seed", "STATE", "READY", "MESSAGE"]
    assert shown[5].split() == ["s-2", "1e-4", "0", "Accepted", "-"]
    body = swell.here("get", "sweep/s", "-o", "json").json
    assert body["status"] == {"jobs": 4, "counts": {"Accepted": 4}, "ended": False}
    assert isinstance(body["rows"], list)
    assert body["rows"][3] == {
        "index": 3,
        "job": "s-3",
        "parameters": {"lr": "1e-4", "seed": "1"},
        "phase": "",
        "message": "",
    }
    assert swell.here("get", "sweeps").out.split() == ["NAME", "JOBS", "ACCEPTED", "s", "4", "4"]
    assert swell.here("get", "sweeps", "-o", "name").out == "sweep/s\n"
    assert swell.here("get", "sweep", "s", "-o", "yaml").out.startswith("apiVersion:")
    assert swell.here("get", "aitj", "-l", "elasticdeeplearning.ai/sweep=s", "-o", "name").out


def test_sweep_of_a_known_name_is_refused(swell: Swell) -> None:
    """Neither its jobs nor a job of such a name are touched."""
    flags = ("--detach", "-n", swell.namespace)
    swell("sweep", *flags, "--name", "s", "a=1,2", "--", "true", "{a}")
    again = swell("sweep", *flags, "--name", "s", "a=1", "--", "true", "{a}")
    assert (again.code, again.out) == (1, "")
    assert "there is a sweep s already" in again.err
    swell("run", "--detach", "--name", "t-1", "-n", swell.namespace, "--", "true")

    other = swell("sweep", *flags, "--name", "t", "a=1,2", "--", "true", "{a}")

    assert other.code == 1
    assert "have the names: t-1" in other.err


def test_sweep_is_stopped_retried_and_deleted(swell: Swell) -> None:
    """Those that have succeeded are left alone, and so are jobs of no sweep."""
    flags = ("--detach", "--name", "s", "-n", swell.namespace)
    swell("sweep", *flags, "--array", "0-3", "--", "true", "{index}")
    swell("run", "--detach", "--name", "other", "-n", swell.namespace, "--", "true")
    end(swell, {"s-0": "Succeed", "s-1": "Failed"})

    assert swell.here("stop", "sweep/s", "--reason", "enough").out == "sweep/s: 2 jobs stopped\n"
    notes = swell.here("get", "aitj", "s-3", "-o", "json").json["metadata"]
    assert isinstance(notes, dict)
    assert notes["annotations"]["elasticdeeplearning.ai/stopped"] == "enough"
    end(swell, {"s-2": "Failed", "s-3": "Failed"})
    again = swell.here("retry", "sweep/s", "--failed")
    assert (again.code, again.out) == (0, "sweep/s: 3 jobs created again\n")
    counts = swell.here("get", "sweep", "s", "-o", "json").json["status"]
    assert counts == {"jobs": 4, "counts": {"Accepted": 3, "Succeed": 1}, "ended": False}
    assert swell.here("delete", "sweep/s").out.count("deleted") == 4
    assert swell.here("get", "aitj", "-o", "name").out == "aitrainingjob/other\n"


def test_single_job_is_retried_when_it_has_ended(swell: Swell) -> None:
    """A job that goes on is not."""
    swell("run", "--detach", "--name", "one", "-n", swell.namespace, "--", "true")
    refused = swell.here("retry", "one")
    assert (refused.code, "has not ended" in refused.err) == (1, True)
    end(swell, {"one": "Failed"})

    assert swell.here("retry", "one").out == "aitrainingjob/one created\n"
    assert swell.here("retry", "one", "--failed", "--all").code == 2


def test_sweep_that_is_not_there_is_reported(swell: Swell) -> None:
    """By every command, in the same words."""
    for command in ("get", "stop", "logs", "retry", "delete", "describe"):
        answer = swell.here(command, "sweep/none")
        assert (answer.code, answer.out) == (1, "")
        assert f"error: no sweep none in namespace {swell.namespace}" in answer.err
    assert swell.here("get", "sweeps").code == 0
    assert swell.here("logs", "sweep/none", "--tail", "3").code == 1
    assert swell.here("get", "sweep", "none", "-o", "jsonpath={.x}").code == 2


def test_sweep_is_followed_on_a_terminal(swell: Swell) -> None:
    """A bar with counts, and Ctrl-C asks; the table and exit code 1 when a job has failed."""
    command = ("sweep", "--name", "s", "-n", swell.namespace, "a=1,2", "--", "true", "{a}")
    with on_terminal(*command) as terminal:
        terminal.until("sweep/s [........................] 0/2  2 Accepted")
        terminal.type("\x03")
        terminal.until("c continue?")
        terminal.type("c")
        end(swell, {"s-0": "Succeed", "s-1": "Failed"})

        assert terminal.ends() == 1
    assert "sweep/s: 2 jobs: 1 Succeed, 1 Failed" in terminal.seen


def test_sweep_runs_a_few_jobs_at_a_time(swell: Swell) -> None:
    """The others are suspended, and resumed one by one as jobs end; attach takes it up again."""
    command = ("sweep", "--name", "s", "-n", swell.namespace, "--parallel", "2", "a=0..3")
    refused = swell(*command, "--detach", "--", "true", "{a}")
    assert (refused.code, "--parallel needs this command to stay" in refused.err) == (2, True)
    with on_terminal(*command, "--", "true", "{a}") as terminal:
        terminal.until("0/4  4 Accepted")
        assert suspended(swell) == ["s-2", "s-3"]
        terminal.type("\x03")
        terminal.until("c continue?")
        terminal.type("d")
        assert terminal.ends() == 0
    end(swell, {"s-1": "Succeed"})
    with on_terminal("attach", "sweep/s", "-n", swell.namespace) as terminal:
        terminal.until("1/4")
        end(swell, {"s-0": "Succeed"})
        terminal.until("2/4")
        end(swell, {"s-2": "Succeed", "s-3": "Succeed"})
        assert terminal.ends() == 0

    assert suspended(swell) == []


def suspended(swell: Swell) -> list[str]:
    items = swell.here("get", "aitj", "-o", "json").json["items"]
    assert isinstance(items, list)
    return [one["metadata"]["name"] for one in items if one["spec"].get("suspend")]


def test_sweep_is_printed_instead_of_submitted(swell: Swell) -> None:
    """--print shows the manifests, ready for apply."""
    printed = swell("sweep", "--print", "--name", "s", "a=1,2", "--", "true", "{a}")

    assert printed.out.count("kind: AITrainingJob") == 2
    assert swell.here("apply", "-f", swell.file(printed.out)).out.count("created") == 2
