"""`swell chaos`: what is broken is seen to be broken, and the rules for faults mend it."""

from __future__ import annotations

from tests.e2e.up.machine import Machine, until
from tests.e2e.up.test_run import job_file


def test_killed_pod_comes_back(running: Machine) -> None:
    """A killed process is a failure like any other: charged, and restarted by the job's rules."""
    script = "echo life $TRAININGJOB_REPLICA_RESTARTCOUNT; sleep 60"
    file = job_file(running.folder, "hardy", script, role={"restartPolicy": "OnFailure"})
    running.swell("run", "--detach", file)
    running.until_phase("hardy", "Running")

    assert running.swell("chaos", "kill-pod", "hardy-trainer-0").stdout == (
        "pod/hardy-trainer-0 killed\n"
    )

    def reported() -> str:
        return running.swell("logs", "hardy").stdout

    until(lambda: reported() == "[trainer-0] life 0\n[trainer-0] life 1\n", reported)
    assert running.job("hardy")["status"]["restartCounts"] == {"trainer": 1}
    running.swell("delete", "hardy")


def test_stopped_node_falls_silent_and_returns(running: Machine) -> None:
    """A stopped node starts no pod until it is started again."""
    running.swell("chaos", "stop-node", "here-0")
    running.swell("run", "--detach", "--name", "patient", "--", "true")
    running.swell("chaos", "start-node", "here-0")

    running.until_phase("patient", "Succeed")


def test_chaos_says_what_is_not_there(running: Machine) -> None:
    """A wrong name is an error of one line, and nothing on stdout."""
    for arguments in (("kill-pod", "x"), ("kill-node", "x"), ("stop-node", "x")):
        ended = running.swell("chaos", *arguments, expect=1)

        assert ended.stdout == ""
        assert "x" in ended.stderr
