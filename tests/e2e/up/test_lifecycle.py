"""Lives of jobs with real processes: what ends them, what restarts them, and what is said of it.

All of them are submitted together and looked at when every one is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest
import yaml

from swell.api.meta import Body
from tests.e2e.up.machine import Machine, until

FINAL = {"Succeed", "Failed", "Timeout", "Preempted", "NodeFail"}
FOREVER = "sleep 1000"
# What the process with index 1 does in its first life; the others wait for what comes of it.
SECOND_FAILS = """
echo life $TRAININGJOB_REPLICA_RESTARTCOUNT
[ $TRAININGJOB_REPLICA_RESTARTCOUNT = 1 ] && exit 0
[ $TRAININGJOB_REPLICA_INDEX = 1 ] && sleep 0.5 && exit 1
sleep 1000
"""
# The processes with other indexes than 0 stay.
FIRST_ENDS = "[ $TRAININGJOB_REPLICA_INDEX = 0 ] && exit {code}; sleep 1000"
EATS_MEMORY = "exec python -c 'b = bytearray(300 << 20); import time; time.sleep(60)'"


@dataclass(frozen=True)
class Role:
    """One role of a job: its script, and what else is said of it."""

    script: str
    replicas: int = 1
    container: Body = field(default_factory=dict)
    pod: Body = field(default_factory=dict)
    says: Body = field(default_factory=dict)

    @property
    def body(self) -> Body:
        container = {"name": "aitj-main", "image": "local", "command": ["sh", "-c", self.script]}
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container | self.container]}
        return {"replicas": self.replicas, "template": {"spec": spec | self.pod}, **self.says}


@dataclass(frozen=True)
class Life:
    """A job, and how it ends: its phase, restarts by role, parts of its message, its output."""

    roles: dict[str, Role]
    phase: str
    counts: dict[str, int] = field(default_factory=dict)
    message: tuple[str, ...] = ()
    printed: tuple[str, ...] | None = None
    pods: tuple[str, ...] = ()  # those that are left
    spec: Body = field(default_factory=dict)

    def body(self, name: str) -> Body:
        return {
            "apiVersion": "elasticdeeplearning.ai/v1",
            "kind": "AITrainingJob",
            "metadata": {"name": name},
            "spec": {"replicaSpecs": {r: role.body for r, role in self.roles.items()}, **self.spec},
        }


def again(script: str, **says: object) -> Role:
    """A role whose second life ends well."""
    return Role(f"[ $TRAININGJOB_REPLICA_RESTARTCOUNT = 1 ] || {script}", says=says)


def scoped(scope: str) -> dict[str, Role]:
    says = {"restartPolicy": "OnFailure", "restartScope": scope, "restartLimit": 3}
    waits = "echo life $TRAININGJOB_REPLICA_RESTARTCOUNT; sleep 3"
    return {"a": Role(SECOND_FAILS, 2, says=says), "b": Role(waits)}


ON_CODE = {"restartPolicy": "ExitCode", "restartLimit": 3}
LIVES = {
    "code-retryable": Life(
        {"t": again("exit 3", **ON_CODE)}, "Succeed", {"t": 1}, spec={"restartingExitCode": "3,4"}
    ),
    "code-final": Life(
        {"t": Role("echo oh no; exit 5", says=ON_CODE)}, "Failed", {},
        ("code-final-t-0", "here-0", "aitj-main", "exit code 5", "oh no"), ("[t-0] oh no",),
        spec={"restartingExitCode": 3},
    ),
    "signal-retryable": Life(
        {"t": again("kill -9 $$$$", restartPolicy="OnNodeFailWithExitCode", restartLimit=1)},
        "Succeed", {"t": 1}, spec={"restartingExitCode": "137,128"},
    ),
    "signal-final": Life(
        {"t": Role("kill -15 $$$$", says=ON_CODE)}, "Failed", {}, ("exit code 143",),
        spec={"restartingExitCode": "137"},
    ),
    "limit": Life(
        {"t": Role("echo $TRAININGJOB_REPLICA_RESTARTCOUNT; exit 1",
                   says={"restartPolicy": "Always", "restartLimit": 2})},
        "Failed", {"t": 2}, ("exit code 1",), ("[t-0] 0", "[t-0] 1", "[t-0] 2"),
    ),
    "never": Life({"t": Role("exit 137")}, "Failed", {}, ("exit code 137",)),
    "scope-pod": Life(
        {"a": Role(SECOND_FAILS.replace("sleep 1000", "sleep 2"), 2,
                   says={"restartPolicy": "OnFailure", "restartScope": "Pod"})},
        "Succeed", {"a": 1}, (), ("[a-0] life 0", "[a-1] life 0", "[a-1] life 1"),
    ),
    "scope-replica": Life(
        scoped("Replica"), "Succeed", {"a": 1}, (),
        ("[a-0] life 0", "[a-0] life 1", "[a-1] life 0", "[a-1] life 1", "[b-0] life 0"),
    ),
    "scope-all": Life(
        scoped("All"), "Succeed", {"a": 1, "b": 1}, (),
        ("[a-0] life 0", "[a-0] life 1", "[a-1] life 0", "[a-1] life 1", "[b-0] life 0",
         "[b-0] life 1"),
    ),
    "complete-rank0": Life(
        {"t": Role(FIRST_ENDS.format(code=0), 2, says={"completePolicy": "Rank0"})}, "Succeed"
    ),
    "complete-any": Life(
        {"t": Role(FIRST_ENDS.format(code=0), 3, says={"completePolicy": "Any"})}, "Succeed"
    ),
    "fail-any": Life(
        {"t": Role(FIRST_ENDS.format(code=7), 2)}, "Failed", {}, ("fail-any-t-0", "exit code 7")
    ),
    "fail-rank0": Life(
        {"t": Role("[ $TRAININGJOB_REPLICA_INDEX = 1 ] && exit 1; sleep 1", 2,
                   says={"failPolicy": "Rank0", "completePolicy": "Rank0"})},
        "Succeed",
    ),
    "job-complete-any": Life(
        {"a": Role("true"), "b": Role(FOREVER)}, "Succeed", spec={"completePolicy": "Any"}
    ),
    "job-fail-all": Life(
        {"a": Role("exit 1"), "b": Role("sleep 1; exit 2")}, "Failed", {}, ("exit code",),
        spec={"failPolicy": "All"},
    ),
    "time-limit": Life({"t": Role(FOREVER)}, "Timeout", spec={"timeLimit": 1}),
    "unstartable": Life(
        {"t": Role("", container={"command": ["no-such-program"]},
                   says={"restartPolicy": "ExitCode", "restartLimit": 1})},
        "Failed", {"t": 1}, ("StartError", "exit code 128", "cannot start no-such-program"),
        spec={"restartingExitCode": "137,128"},
    ),
    "out-of-memory": Life(
        {"t": Role(EATS_MEMORY, container={"resources": {"limits": {"memory": "64Mi"}}})},
        "Failed", {}, ("OOMKilled", "exit code 137"),
    ),
    "deaf": Life(
        {"t": Role("[ $TRAININGJOB_REPLICA_INDEX = 0 ] && sleep 1 && exit 0\n"
                   "trap '' TERM; while true; do sleep 0.1; done", 2,
                   says={"completePolicy": "Rank0"})},
        "Succeed",
    ),
    "init-fails": Life(
        {"t": Role("echo never", pod={"initContainers": [
            {"name": "before", "image": "local", "command": ["sh", "-c", "exit 9"]}]})},
        "Failed", {}, ("before", "exit code 9"), (),
    ),
    "init-order": Life(
        {"t": Role("echo third", pod={"initContainers": [
            {"name": f"i{n}", "image": "local", "command": ["echo", argument]}
            for n, argument in enumerate(("first", "second"))]})},
        "Succeed", {}, (), ("[t-0] first", "[t-0] second", "[t-0] third"),
    ),
    "liveness": Life(
        {"t": Role("[ $TRAININGJOB_REPLICA_RESTARTCOUNT = 1 ] || sleep 1000",
                   container={"livenessProbe": {"periodSeconds": 1, "failureThreshold": 1, "exec": {
                       "command": ["sh", "-c", "[ $TRAININGJOB_REPLICA_RESTARTCOUNT = 1 ]"]}}},
                   says={"restartPolicy": "OnFailure", "restartLimit": 1})},
        "Succeed", {"t": 1},
    ),
    "clean-none": Life(
        {"t": Role("true", 2)}, "Succeed", pods=("clean-none-t-0", "clean-none-t-1"),
        spec={"cleanPodPolicy": "None"},
    ),
    "clean-running": Life(
        {"t": Role(FIRST_ENDS.format(code=0), 2, says={"completePolicy": "Rank0"})}, "Succeed",
        pods=("clean-running-t-0",), spec={"cleanPodPolicy": "Running"},
    ),
}  # fmt: skip


def listed(machine: Machine, kind: str) -> list[Body]:
    answer = machine.swell("get", kind, "-o", "json").stdout
    items: list[Body] = msgspec.json.decode(answer)["items"]
    return items


@pytest.fixture(scope="module")
def over(running: Machine) -> dict[str, Body]:
    """Every job in its last state, by name."""
    bodies = [life.body(name) for name, life in LIVES.items()]
    (running.folder / "lives.yaml").write_text(yaml.safe_dump_all(bodies))
    running.swell("apply", "-f", "lives.yaml")

    def unfinished() -> list[str]:
        jobs = listed(running, "aitj")
        return [
            f"{job['metadata']['name']}: {job.get('status')}"
            for job in jobs
            if (job.get("status") or {}).get("phase") not in FINAL
        ]

    until(lambda: not unfinished(), lambda: str(unfinished()))
    return {job["metadata"]["name"]: job for job in listed(running, "aitj")}


@pytest.mark.parametrize("name", LIVES)
def test_life_ends_as_the_rules_say(running: Machine, over: dict[str, Body], name: str) -> None:
    """Phase, restarts, message, output and what is left of the pods."""
    life, status = LIVES[name], over[name]["status"]
    printed = sorted(running.swell("logs", name).stdout.splitlines())
    left = [pod["metadata"]["name"] for pod in listed(running, "pods")]

    assert status["phase"] == life.phase, status
    assert {r: n for r, n in (status.get("restartCounts") or {}).items() if n} == life.counts
    assert [part for part in life.message if part not in status.get("message", "")] == []
    assert life.printed is None or printed == sorted(life.printed)
    assert sorted(pod for pod in left if pod.startswith(f"{name}-")) == list(life.pods)


def test_nothing_runs_when_all_is_over(running: Machine, over: dict[str, Body]) -> None:
    """Whoever was deaf or forgotten is gone from the machine's own list, too."""
    until(
        lambda: not [line for line in running.processes() if "sh -c" in line],
        lambda: str(running.processes()),
    )


@pytest.mark.parametrize(
    ("argument", "phase"),
    [("Failed", "Failed"), ("NODEFAILED", "NodeFail"), ("nodefail", "NodeFail"),
     ("preempted", "Preempted")],
)  # fmt: skip
def test_annotation_ends_a_running_job(running: Machine, argument: str, phase: str) -> None:
    """Whatever its capitals; the value is the message, and the processes are gone."""
    name = f"noted-{argument.lower()}"
    body = Life({"t": Role(FOREVER)}, phase).body(name)
    file = running.folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(body))
    running.swell("apply", "-f", str(file))
    running.until_phase(name, "Running")
    body["metadata"]["annotations"] = {argument: "somebody says so"}
    file.write_text(yaml.safe_dump(body))
    running.swell("apply", "-f", str(file))
    running.until_phase(name, phase)

    assert "somebody says so" in running.job(name)["status"]["message"]


def test_container_that_cannot_be_made_is_waited_for(running: Machine) -> None:
    """The reason is in the job's message; once the cause is gone, the job goes on."""
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "x"}}}]
    body = Life({"t": Role("echo $X", container={"env": env})}, "Succeed").body("patient")
    (running.folder / "patient.yaml").write_text(yaml.safe_dump(body))
    running.swell("apply", "-f", "patient.yaml")
    until(lambda: "CreateContainerConfigError" in str(running.job("patient").get("status")))
    late = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
    (running.folder / "late.yaml").write_text(yaml.safe_dump(late | {"data": {"x": "hello"}}))
    running.swell("apply", "-f", "late.yaml")
    running.until_phase("patient", "Succeed")

    assert running.swell("logs", "patient").stdout == "[t-0] hello\n"
