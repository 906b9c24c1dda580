"""What users are told of a job that can never start, a crashed, a waiting one and a victim.

The texts come from the real controllers, and are compared whole, but for times. Each place alone
has to say why: the columns of `get`, the first lines of `describe`, `explain`, events and the SDK.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.up.machine import SWELL, WITHIN_S, Machine, until
from tests.testbed.control_plane import running_control_plane
from tests.testbed.processes import dies_with_parent

pytestmark = pytest.mark.long
TIMES = re.compile(r"\b\d+(m\d+)?s\b|\b\d+ s\b")
COST = re.compile(r"costs \d+ CPU-seconds")
# What a program would print of a job.
PROGRAM = "import swell, sys; job = swell.connect().job(sys.argv[1]); print(job.phase, job.message)"

NEVER = """\
get: never Pending CannotEverFit a pod of trainer asks for 100 cpu, and the largest node has 4
describe: State: Pending 0/1
describe: Why: CannotEverFit: a pod of trainer asks for 100 cpu, and the largest node has 4
explain: default/never can never start on this cluster as it is: a pod of trainer asks for 100 \
cpu, and the largest node has 4
explain: Queue default, Open, holds nothing; position 1 of 1, nothing waits before it
explain: What would help
explain: - a pod asks for cpu 100, and no node it may use has more than 4
event: CannotEverFit: a pod of trainer asks for 100 cpu, and the largest node has 4
sdk: Pending a pod of trainer asks for 100 cpu, and the largest node has 4
"""
CRASHED = """\
get: crash Failed RolesFailed pod crash-trainer-0 on node here-0 failed: container aitj-trainer: \
Error exit code 7: boom
describe: State: Failed 0/1
describe: Why: RolesFailed: pod crash-trainer-0 on node here-0 failed: container aitj-trainer: \
Error exit code 7: boom
explain: default/crash has ended: Failed: pod crash-trainer-0 on node here-0 failed: container \
aitj-trainer: Error exit code 7: boom
event: TrainingJobFailed: pod crash-trainer-0 on node here-0 failed: container aitj-trainer: Error \
exit code 7: boom
sdk: Failed pod crash-trainer-0 on node here-0 failed: container aitj-trainer: Error exit code 7: \
boom
"""
WAITING = """\
get: waits Pending ClusterFull the cluster has 4 cpu in all; 3 in use or promised, 2 more asked for
describe: State: Pending 0/1
describe: Why: ClusterFull: the cluster has 4 cpu in all; 3 in use or promised, 2 more asked for
explain: default/waits waits: 1 pod has no node
explain: Queue default, Open, holds cpu 3; position 1 of 1, nothing waits before it
explain: default/holder default 0 1 cpu 3 its priority 0 is not below 0
explain: What would help
explain: - it starts when this is gone: default/holder
explain: - with a priority above 0 it would be given their room
explain: - 1 more node like here-0 (cpu 4, memory 8Gi)
event: ClusterFull: the cluster has 4 cpu in all; 3 in use or promised, 2 more asked for
sdk: Pending the cluster has 4 cpu in all; 3 in use or promised, 2 more asked for
"""
PREEMPTED = (
    "preempted by the scheduler for default/winner (queue default, priority 1000): 1 pod leaves;"
    " its own priority is 0; costs SOME CPU-seconds of work: no save is reported since the start"
    " TIME ago"
)
FULL = "it waits: the cluster has 4 cpu in all; 4 in use or promised, 3 more asked for"
VICTIM = f"""\
get: holder Restarting Preempted {PREEMPTED}; {FULL}
describe: State: Restarting 0/1
describe: Why: Preempted: {PREEMPTED}; {FULL}
explain: default/holder waits: 1 pod has no node
explain: Queue default, Open, holds cpu 4; position 1 of 1, nothing waits before it
explain: default/winner default 1000 1 cpu 4 its priority 1000 is not below 0
explain: What would help
explain: - it starts when this is gone: default/winner
explain: - with a priority above 1000 it would be given their room
explain: - 1 more node like here-0 (cpu 4, memory 8Gi)
event: Preempted: {PREEMPTED}
sdk: Restarting {PREEMPTED}; {FULL}
"""
# The reasons of events that say why; others only say which phase a job is in.
WHY = {"CannotEverFit", "TrainingJobFailed", "ClusterFull", "Preempted"}
FLAGS = ("--cpu", "4", "--memory", "8Gi", "--name", "here")
Cluster = Callable[[Machine], contextlib.AbstractContextManager[None]]
EXPLAINED = ("default/", "Queue", "What would help", "-")


@contextlib.contextmanager
def on_kubernetes(machine: Machine) -> Iterator[None]:
    """Our programs, and a node of this machine, beside a real kube-apiserver."""
    with running_control_plane() as control_plane, contextlib.ExitStack() as running:
        kubeconfig = str(control_plane.kubeconfig)
        # Without a state folder of its own a command asks the cluster of KUBECONFIG.
        machine.environ |= {"KUBECONFIG": kubeconfig, "SWELL_HOME": ""}
        for parts in (
            ("operator", "--install-crds"),
            ("scheduler",),
            ("node", *FLAGS),
        ):
            log = running.enter_context((machine.folder / f"{parts[0]}.log").open("wb"))
            program = running.enter_context(
                subprocess.Popen(
                    [*dies_with_parent(signal.SIGTERM), *SWELL, *parts, "--kubeconfig", kubeconfig],
                    env=machine.environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
            running.callback(program.terminate)
        until(lambda: machine.swell("get", "queue", "default", expect=None).returncode == 0)
        until(lambda: machine.swell("get", "node", "here-0", expect=None).returncode == 0)
        yield


@contextlib.contextmanager
def on_this_machine(machine: Machine) -> Iterator[None]:
    machine.swell("up", "--detach", *FLAGS)  # the machine ends it
    yield


@pytest.mark.parametrize("cluster", [on_this_machine, on_kubernetes])
def test_every_place_says_why(cluster: Cluster, machine: Machine) -> None:
    """Four jobs on a cluster of four cpus, one after the other; of a real server the same."""
    with cluster(machine):
        play(machine)


def play(machine: Machine) -> None:
    machine.swell("run", "--detach", "--name", "never", "--cpu", "100", "--", "true")
    said(machine, "never", "CannotEverFit")
    assert told(machine, "never", "Pending CannotEverFit") == NEVER
    machine.swell("delete", "never")
    machine.swell("run", "--name", "crash", "--", "sh", "-c", "echo boom; exit 7", expect=1)
    assert told(machine, "crash", "Failed RolesFailed") == CRASHED
    machine.swell("run", "--detach", "--name", "holder", "--cpu", "3", "--", "sleep", "1000")
    until(lambda: machine.job("holder")["status"].get("phase") == "Running")
    machine.swell("run", "--detach", "--name", "waits", "--cpu", "2", "--", "true")
    said(machine, "waits", "3 in use")
    assert told(machine, "waits", "Pending ClusterFull") == WAITING
    machine.swell("delete", "waits")
    machine.swell("create", "priorityclass", "high", "--value", "1000")
    wins = ("--name", "winner", "--priority", "high", "--cpu", "4")
    machine.swell("run", "--detach", *wins, "--", "sleep", "1000")
    said(machine, "holder", "; it waits: the cluster has 4 cpu in all; 4 in use")
    assert told(machine, "holder", "Restarting Preempted") == VICTIM


def said(machine: Machine, name: str, part: str) -> None:
    """Wait until the status of a job holds a text, in its reason or message."""

    def holds() -> bool:
        status = machine.job(name).get("status") or {}
        return part in f"{status.get('reason')} {status.get('message')}"

    until(holds)


def told(machine: Machine, name: str, state: str) -> str:
    """Return what each place says of a job, a line for every fact."""
    phase, reason = state.split()
    lines = []
    shown = machine.swell("get", name, "-o", "wide", "--no-headers").stdout
    assert shown.split()[:2] == [name, phase]
    told_why = shown[shown.index(reason) :].partition(" <none>")[0]
    lines.append(f"get: {name} {phase} {told_why}")
    described = machine.swell("describe", name).stdout
    first = described.partition("\nSizes:")[0]
    lines += [f"describe: {line}" for line in re.sub(r"\n +", " ", first).splitlines()]
    explained = machine.swell("explain", name).stdout.splitlines()
    lines += [f"explain: {line}" for line in explained if line.strip().startswith(EXPLAINED)]
    events = json.loads(machine.swell("events", "--for", name, "-o", "json").stdout)["items"]
    own = [one for one in events if one["involvedObject"]["kind"] == "AITrainingJob"]
    lines += [f"event: {one['reason']}: {one['message']}" for one in own if one["reason"] in WHY]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name],
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    lines += [f"sdk: {done.stdout.strip()}"]
    text = COST.sub("costs SOME CPU-seconds", TIMES.sub("TIME", "\n".join(lines)))
    return re.sub(r" +$", "", re.sub(r" +", " ", text), flags=re.MULTILINE) + "\n"
