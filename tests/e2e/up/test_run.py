"""`swell run` and `logs` on a running cluster: what is printed, and how they end."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
import yaml

from swell.api.meta import Body
from swell.cluster.home import lock_holder
from tests.contract.terminal import on_terminal
from tests.e2e.up.machine import Machine


def job_file(folder: Path, name: str, script: str, role: Body | None = None, **spec: object) -> str:
    """A manifest of a job with one shell script."""
    container: Body = {"name": "aitj-trainer", "image": "local", "command": ["sh", "-c", script]}
    trainer: Body = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    body: Body = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": {"trainer": trainer | (role or {})}, **spec},
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(body))
    return str(path)


def test_run_prints_every_line_with_its_source(running: Machine) -> None:
    """Output of all pods is on stdout, prefixed, a last line without an end included."""
    ended = running.swell(
        "run", "--name", "prints", "--min", "2", "--", "sh", "-c", "echo a; echo b >&2; printf c"
    )

    lines = sorted(ended.stdout.splitlines())
    assert lines == [f"[trainer-{index}] {text}" for index in (0, 1) for text in "abc"]


def test_run_works_where_the_user_is(running: Machine) -> None:
    """A command finds the files of the folder it is called in."""
    (running.folder / "train.py").write_text("print('trained')")

    ended = running.swell("run", "--", "python", "train.py")

    assert ended.stdout == "[trainer-0] trained\n"
    assert re.search(r"run-[a-z0-9]{5}: Succeed", ended.stderr)


@pytest.mark.parametrize(("code", "expected"), [("0", 0), ("3", 1)])
def test_run_ends_as_the_job_does(running: Machine, code: str, expected: int) -> None:
    """Succeed is 0 and Failed is 1, whatever the process's own code was."""
    running.swell(
        "run", "--name", f"ends-{code}", "--", "sh", "-c", f"exit {code}", expect=expected
    )


def test_run_tells_a_time_out(running: Machine) -> None:
    """A job that took too long ends the command with 124."""
    file = job_file(running.folder, "slow", "sleep 60", timeLimit=1)

    running.swell("run", file, expect=124)


def test_run_tells_a_preemption(running: Machine) -> None:
    """A preempted job ends the command with 75."""
    with running.begin("run", "--name", "yields", "--", "sleep", "60") as run:
        _wait_for_line(run.stderr, "Running")
        running.swell("stop", "yields", "--as", "Preempted")
        assert run.wait(30) == 75


def test_run_interrupted_leaves_the_job_alone(running: Machine) -> None:
    """Without a terminal Ctrl-C detaches; swell stop ends the job and keeps record and logs."""
    script = "trap 'echo bye; exit' TERM; echo hi; while true; do sleep 0.1; done"
    with running.begin("run", "--name", "stopped", "--", "sh", "-c", script) as run:
        _wait_for_line(run.stdout, "hi")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=30)
        assert run.returncode == 0
    assert running.phase("stopped") == "Running"
    running.swell("stop", "stopped", "--reason", "enough")
    running.until_phase("stopped", "Failed")
    status = running.job("stopped")["status"]

    assert (status["reason"], status["message"]) == ("Stopped", "enough")
    printed = running.swell("logs", "stopped").stdout
    assert printed.startswith("[trainer-0] hi\n")
    assert printed.endswith("[trainer-0] bye\n")


def test_run_stopped_on_a_terminal_ends_with_130(running: Machine) -> None:
    """Ctrl-C, then s: the last output is printed, the job has failed, and its logs are kept."""
    script = "trap 'echo bye; exit' TERM; echo hi; while true; do sleep 0.1; done"
    command = ("run", "--name", "asked", "--", "sh", "-c", script)
    with on_terminal(*command, environ=running.environment) as terminal:
        terminal.until("[trainer-0] hi")
        terminal.type("\x03")
        terminal.until("continue?")
        terminal.type("s")
        assert terminal.ends() == 130

    assert "[trainer-0] bye" in terminal.seen
    assert running.job("asked")["status"]["reason"] == "Stopped"
    assert "bye" in running.swell("logs", "asked").stdout


def test_run_gives_a_folder_for_checkpoints_and_workers(running: Machine) -> None:
    """Two workers of a pod write to the folder that the variable names, outside of the pod."""
    (running.folder / "save.py").write_text(
        "import os, pathlib\n"
        "folder = pathlib.Path(os.environ['SWELL_CHECKPOINTS'])\n"
        "(folder / os.environ['RANK']).write_text('saved')\n"
    )
    folder = running.folder / "ckpt"
    flags = ("--checkpoints", str(folder), "--nproc-per-node", "2", "--name", "saves")
    running.swell("run", *flags, "--", "python", "save.py")

    assert sorted(path.name for path in folder.iterdir()) == ["0", "1"]


def test_run_does_not_wait_for_a_job_that_cannot_start(running: Machine) -> None:
    """The numbers are given, the exit code is 3, and the job stays until it is deleted."""
    ended = running.swell("run", "--name", "huge", "--cpu", "500", "--", "true", expect=3)

    assert "a pod of trainer asks for 500 cpu, and the largest node has 16" in ended.stderr
    assert "error: huge cannot start on this cluster as it is" in ended.stderr
    assert "--wait-forever" in ended.stderr
    assert running.swell("get", "huge", "-o", "name").stdout == "aitrainingjob/huge\n"
    running.swell("delete", "huge")


def test_run_prints_the_manifest_instead_of_submitting_it(running: Machine) -> None:
    """--print shows what would be sent, ready for apply."""
    printed = running.swell(
        "run", "--print", "--name", "shown", "--queue", "q", "--", "true"
    ).stdout
    body = yaml.safe_load(printed)

    assert (body["metadata"]["name"], body["spec"]["queue"]) == ("shown", "q")
    running.swell("get", "shown", expect=1)


def test_run_passes_the_environment_of_the_caller(running: Machine) -> None:
    """An active environment is what programs of the job see, with variables and folder."""
    folder = running.folder / "venv" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "python"
    program.write_text("#!/bin/sh\necho mine $VIRTUAL_ENV $LR $PWD\n")
    program.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    active = {"VIRTUAL_ENV": str(folder.parent), "PATH": path}
    caller = Machine(running.folder, {**running.environ, **active})

    ended = caller.swell("run", "--name", "venv", "--env", "LR=0.1", "--", "python")

    assert ended.stdout == f"[trainer-0] mine {folder.parent} 0.1 {running.folder}\n"


def test_run_that_may_grow_knows_its_members(running: Machine) -> None:
    """An elastic command finds the list of its members mounted."""
    script = "cat /etc/swell-members/trainer || cat $PWD/etc/swell-members/trainer"
    flags = ("--min", "1", "--max", "2", "--name", "grows")

    ended = running.swell("run", *flags, "--", "sh", "-c", script)

    assert "grows-trainer-0" in ended.stdout
    assert "warning" not in ended.stderr


def test_attach_follows_a_job_and_leaves_it_alone(running: Machine) -> None:
    """The output so far is printed; Ctrl-C detaches, and the job goes on to its end."""
    go = running.folder / "attach-go"
    script = f"echo begun; until [ -e {go} ]; do sleep 0.1; done; echo over"
    running.swell("run", "--detach", "--name", "stays", "--", "sh", "-c", script)
    with running.begin("attach", "stays") as attached:
        _wait_for_line(attached.stdout, "begun")
        attached.send_signal(signal.SIGINT)
        _, said = attached.communicate(timeout=30)
        assert attached.returncode == 0
    assert "detached, it goes on" in said
    go.touch()

    assert running.swell("attach", "stays").stdout.endswith("[trainer-0] over\n")


def test_logs_take_the_flags_of_kubectl(running: Machine) -> None:
    """The last lines, the newest, with times; of a job, of a pod and by labels."""
    script = "for i in 1 2 3 4 5; do echo line $i; done; sleep 60"
    running.swell("run", "--detach", "--name", "talks", "--", "sh", "-c", script)
    _until_printed(running, "talks", "line 5")

    assert running.swell("logs", "talks", "--tail", "2").stdout == (
        "[trainer-0] line 4\n[trainer-0] line 5\n"
    )
    assert running.swell("logs", "talks-trainer-0", "--tail", "1").stdout == "line 5\n"
    assert running.swell("logs", "pod/talks-trainer-0", "--since", "1h").stdout.count("line") == 5
    timed = running.swell("logs", "talks", "--timestamps", "--tail=1").stdout
    assert re.fullmatch(r"\[trainer-0\] \d{4}-\d\d-\d\dT\S+ line 5\n", timed)
    labels = "TrainingJobName=talks"
    assert "line 5" in running.swell("logs", "-l", labels, "-c", "aitj-trainer").stdout
    assert running.swell("logs", "talks", "-p", expect=None).returncode in {0, 1}
    running.swell("delete", "talks")


def _until_printed(machine: Machine, job: str, text: str) -> None:
    deadline = time.monotonic() + 30
    while text not in machine.swell("logs", job).stdout:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_run_strictly_submits_nothing_that_is_warned_about(running: Machine) -> None:
    """A warning is an error with --strict."""
    asked = ("--name", "strange", "--cpu", "500", "--strict")
    running.swell("run", *asked, "--", "true", expect=1)

    running.swell("get", "strange", expect=1)


def test_run_waits_for_ever_when_told_to(running: Machine) -> None:
    """With --wait-forever a job that cannot start is followed like any other."""
    asked = ("--name", "patient", "--cpu", "500", "--wait-forever")
    with running.begin("run", *asked, "--", "true") as waiting:
        _wait_for_line(waiting.stderr, "patient: Pending")
        assert waiting.poll() is None
        running.swell("delete", "patient")
        assert waiting.wait(30) == 1


def test_run_replaces_a_finished_job_only(running: Machine) -> None:
    """A finished job makes room, with its logs; a live one stays."""
    running.swell("run", "--name", "again", "--", "echo", "first")
    assert running.swell("run", "--name", "again", "--", "echo", "second").stdout == (
        "[trainer-0] second\n"
    )
    detached = running.swell("run", "--detach", "--name", "again", "--", "sleep", "60")
    assert detached.stdout == "aitrainingjob/again created\n"

    refused = running.swell("run", "--name", "again", "--", "true", expect=1)

    assert "still there" in refused.stderr
    running.swell("delete", "again")


def test_run_says_what_is_wrong_with_its_words(running: Machine) -> None:
    """Wrong usage is 2, a wrong job 1, and nothing is created by either."""
    file = job_file(running.folder, "fine", "true")
    running.swell("run", expect=2)
    running.swell("run", file, "--", "true", expect=2)
    running.swell("run", file, "--cpu", "1", expect=2)
    running.swell("run", "--min", "3", "--max", "2", "--", "true", expect=2)
    running.swell("run", "--name", "No_Name", "--", "true", expect=1)
    running.swell("run", "missing.yaml", expect=1)

    running.swell("get", "aitj", "fine", expect=1)


def test_run_writes_what_flags_say(running: Machine) -> None:
    """A command becomes one role, elastic when it may grow, with requests and limits alike."""
    flags = ("--min", "1", "--max", "2", "--cpu", "100m", "--memory", "64Mi")
    running.swell("run", "--detach", "--name", "shape", *flags, "--", "sleep", "60")
    role = running.job("shape")["spec"]["replicaSpecs"]["trainer"]
    container = role["template"]["spec"]["containers"][0]
    running.swell("delete", "shape")

    sizes = (role["replicas"], role["minReplicas"], role["maxReplicas"], role["edlPolicy"])
    assert sizes == (1, 1, 2, "Auto")
    assert (container["name"], container["image"]) == ("aitj-trainer", "local")
    assert container["resources"]["requests"] == container["resources"]["limits"]


def test_logs_outlive_the_pods(running: Machine) -> None:
    """What was printed can be read as long as there is the job, by pod and as it was."""
    script = "echo from $TRAININGJOB_REPLICA_INDEX"
    running.swell("run", "--name", "told", "--min", "2", "--", "sh", "-c", script)

    assert running.swell("logs", "told").stdout == "[trainer-0] from 0\n[trainer-1] from 1\n"
    one = running.swell("logs", "told", "--role", "trainer", "--index", "1")
    assert one.stdout == "from 1\n"
    assert (
        "no container other"
        in running.swell("logs", "told", "--container", "other", expect=1).stderr
    )
    running.swell("logs", "nobody", expect=1)


def test_logs_follow_to_the_end(running: Machine) -> None:
    """Following ends when the job does."""
    script = "for i in 1 2 3; do echo $i; sleep 0.2; done"
    running.swell("run", "--detach", "--name", "counts", "--", "sh", "-c", script)

    followed = running.swell("logs", "-f", "counts")

    assert followed.stdout == "[trainer-0] 1\n[trainer-0] 2\n[trainer-0] 3\n"


def test_run_asks_a_named_cluster_for_its_logs(running: Machine) -> None:
    """Where no files are at hand, the API server's logs are followed instead."""
    kubeconfig = str(running.home / "kubeconfig")
    script = "echo hi; sleep 1; echo bye"

    ended = running.swell(
        "run", "--kubeconfig", kubeconfig, "--name", "far", "--", "sh", "-c", script
    )

    assert ended.stdout == "[trainer-0] hi\n[trainer-0] bye\n"
    assert "warning" not in ended.stderr


def test_run_never_takes_the_usual_kubeconfig(machine: Machine) -> None:
    """With nothing chosen it starts a cluster of its own and says so."""
    usual = machine.folder / ".kube" / "config"
    usual.parent.mkdir()
    usual.write_text("apiVersion: v1\nkind: Config\ncurrent-context: production\n")
    machine.environ["SWELL_HOME"] = ""
    try:
        ended = machine.swell("run", "--", "echo", "here")
        state = machine.folder / ".local" / "state" / "swell"

        assert ended.stdout == "[trainer-0] here\n"
        assert f"starting an embedded cluster in {state}" in ended.stderr
        assert lock_holder(state) is not None
    finally:
        machine.swell("down")


def _wait_for_line(stream: object, text: str) -> None:
    deadline = time.monotonic() + 30
    assert stream is not None
    for line in stream:  # type: ignore[attr-defined]
        if text in line:
            return
        assert time.monotonic() < deadline
    pytest.fail(f"{text!r} was never printed")
