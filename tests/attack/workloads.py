"""Attacks by pods and jobs on a whole cluster in one process: `swell up` with real processes.

    python -m tests.attack.workloads [NAME PART ...]

The containers are processes of this machine, so that their names, variables and logs reach files
and programs.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from swell.cluster.home import lock_holder
from tests.attack import controllers, pages, processes, streams
from tests.attack.harness import Attack, Target, limit_memory, measure
from tests.attack.objects import pod
from tests.contract.raw import Raw
from tests.e2e.up.machine import FLAGS, Machine

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs"
WITHIN_S = 5.0
# A bomb that has as many processes as the default allows would slow the whole machine down.
PROCESSES_FLAGS = ("--processes", "300")


class _UpProcess:
    """The process of `swell up` as far as the harness asks for it."""

    def __init__(self, machine: Machine) -> None:
        running = lock_holder(machine.home)
        assert running is not None
        self._machine, self.pid = machine, running.pid

    def poll(self) -> int | None:
        running = lock_holder(self._machine.home)
        return None if running is not None and running.pid == self.pid else 1


@contextlib.contextmanager
def target_cluster(folder: Path) -> Iterator[Target]:
    machine = Machine(folder)
    machine.swell("up", "--detach", *FLAGS, *PROCESSES_FLAGS)
    try:
        with Raw(machine.home / "kubeconfig") as raw:
            up = _UpProcess(machine)
            limit_memory(up.pid)
            process = cast("subprocess.Popen[bytes]", up)
            target = Target(machine.home, process, raw)
            streamed = streams.POD.rsplit("/", 1)[1]
            _run(target, streamed, _shell(streamed, "sleep 3600"))
            yield target
    finally:
        machine.swell("down")


def _run(target: Target, name: str, body: dict[str, Any], *, wait: bool = True) -> None:
    """Create a pod and wait until it has begun or ended, or was refused."""
    body["spec"] |= {"restartPolicy": "Never", "schedulerName": "swell"}
    answer = target.ask("POST", PODS, body)
    if answer is None or answer.code != 201 or not wait:
        return
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        found = target.ask("GET", f"{PODS}/{name}")
        if found is None or found.code != 200:
            return
        status = found.json().get("status", {})
        states = [one.get("state", {}) for one in status.get("containerStatuses", ())]
        if status.get("phase") not in {None, "Pending"} or any("waiting" in s for s in states):
            return
        time.sleep(0.1)


def _delete(target: Target, *names: str) -> None:
    for name in names:
        target.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


def _shell(name: str, text: str, **more: Any) -> dict[str, Any]:
    return pod(name, command=["sh", "-c", text], **more)


def _many_variables(target: Target) -> None:
    env = [{"name": f"E{n}", "value": "x" * 20} for n in range(10_000)]
    _run(target, "env", _shell("env", "true", env=env))
    chained = [{"name": f"E{n}", "value": f"$(E{n - 1})$(E{n - 1})"} for n in range(1, 60)]
    _run(target, "chain", _shell("chain", "true", env=[{"name": "E0", "value": "ab"}, *chained]))
    long = [{"name": "L", "value": "x" * 400_000}]
    _run(target, "long", _shell("long", "true", env=long))
    _run(target, "args", pod("args", command=["echo", *["x" * 100] * 5_000]))
    _delete(target, "env", "chain", "long", "args")


def _odd_values(target: Target) -> None:
    """NUL, line ends and equal signs where the system takes bytes up to a NUL."""
    odd = ("a\x00b", "a\nb", "=", "\u202e", "\U0001f600", "$(X", "$$(A)", "../../etc/passwd")
    for n, text in enumerate(odd):
        _run(target, f"v{n}", _shell(f"v{n}", "true", env=[{"name": "A", "value": text}]))
        _run(target, f"a{n}", pod(f"a{n}", command=["echo", text]))
        _run(target, f"d{n}", _shell(f"d{n}", "true", workingDir=text))
        _run(target, f"p{n}", pod(f"p{n}", command=[text]))
        _delete(target, f"v{n}", f"a{n}", f"d{n}", f"p{n}")


def _path_tricks(target: Target) -> None:
    for name in ("..", ".", "a/../../b", "a/b", "%2e%2e", "-rf", "a" * 64, "A", "con\x00"):
        target.ask("POST", PODS, pod("tricks", name=name))
        for query in ("", "&previous=true", "&follow=true&limitBytes=1"):
            quoted = name.replace("/", "%2F").replace("%2e", "%252e").replace("\x00", "%00")
            target.ask("GET", f"{PODS}/tricks/log?container={quoted}{query}")
        _delete(target, "tricks")
    mounts = [{"name": "v", "mountPath": "/" + "../" * 20 + "etc"}]
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/../../etc"}}]
    body = pod("mounted", {"volumes": volumes}, command=["true"], volumeMounts=mounts)
    _run(target, "mounted", body)
    items = [{"key": "k", "path": "../../../../tmp/escaped"}]
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    target.ask("POST", "/api/v1/namespaces/default/configmaps", {**config, "data": {"k": "v"}})
    volumes = [{"name": "v", "configMap": {"name": "c", "items": items}}]
    _run(target, "items", pod("items", {"volumes": volumes}, command=["true"]))
    assert not Path("/tmp/escaped").exists()
    _delete(target, "mounted", "items")


def _endless_line(target: Target) -> None:
    """A log of one line without end, read in every way."""
    text = "head -c 60000000 /dev/zero | tr '\\0' x; sleep 30"
    _run(target, "line", _shell("line", text))
    time.sleep(2)
    log = f"{PODS}/line/log"
    for query in ("tailLines=1", "tailLines=1&limitBytes=10", "sinceSeconds=1", "timestamps=true",
                  "tailLines=1&timestamps=true", "limitBytes=1000000"):  # fmt: skip
        target.ask("GET", f"{log}?{query}")
        target.take_memory()
    _delete(target, "line")


def _unread_logs(target: Target) -> None:
    """Logs that their clients ask for and do not read, while they grow."""
    text = "yes some line of a log that is longer than others | head -c 80000000; sleep 30"
    _run(target, "unread", _shell("unread", text))
    with contextlib.ExitStack() as stack:
        for n in range(60):
            query = "follow=true" if n % 2 else "timestamps=true"
            stack.enter_context(target.raw.open_stream(f"{PODS}/unread/log?{query}"))
        time.sleep(3)
        target.take_memory()
    _delete(target, "unread")


def _binary_logs(target: Target) -> None:
    text = "head -c 8000000 /dev/urandom; yes '' | head -c 8000000; sleep 30"
    _run(target, "binary", _shell("binary", text))
    time.sleep(1)
    for query in ("", "tailLines=100000", "timestamps=true", "sinceSeconds=5"):
        target.ask("GET", f"{PODS}/binary/log?{query}")
    _delete(target, "binary")


def _huge_jobs(target: Target) -> None:
    """Jobs with a billion replicas, or a thousand roles."""
    template = {"spec": {"containers": [{"name": "aitj-main", "image": "i", "command": ["true"]}]}}

    def job(name: str, roles: dict[str, Any]) -> dict[str, Any]:
        head = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob"}
        return {**head, "metadata": {"name": name}, "spec": {"replicaSpecs": roles}}

    one = {"replicas": 1, "template": template}
    wide = {f"r{n}": {**one, "replicas": 50} for n in range(40)}
    for name, roles in {
        "billion": {"trainer": {**one, "replicas": 10**9}},
        "more": {"trainer": {**one, "replicas": 2**31 - 1}},
        "elastic": {"trainer": {**one, "minReplicas": 1, "maxReplicas": 10**9}},
        "negative": {"trainer": {**one, "replicas": -(10**9)}},
        "beyond": {"trainer": {**one, "replicas": 10**30}},
        "roles": {f"r{n}": one for n in range(1_000)},
        "wide": wide,
    }.items():
        target.ask("POST", JOBS, job(name, roles))
    time.sleep(5)
    target.take_memory()
    for name in ("billion", "more", "elastic", "negative", "beyond", "roles", "wide"):
        target.ask("DELETE", f"{JOBS}/{name}")
    time.sleep(3)


def _many_pods(target: Target) -> None:
    """Hundreds of pods that fit nowhere, and some that end at once."""
    huge = {"resources": {"requests": {"cpu": "1000"}}}
    for n in range(300):
        _run(target, f"m{n}", pod(f"m{n}", command=["true"], **huge), wait=False)
    for n in range(30):
        _run(target, f"q{n}", _shell(f"q{n}", "exit 3"), wait=False)
    time.sleep(3)
    target.ask("DELETE", f"{PODS}?gracePeriodSeconds=0")
    time.sleep(1)


ATTACKS: dict[str, Attack] = {
    **streams.ATTACKS,
    **processes.ATTACKS,
    **controllers.ATTACKS,
    **pages.ATTACKS,
    "10000 variables": _many_variables,
    "NUL in variables and arguments": _odd_values,
    "names as paths": _path_tricks,
    "a log line without end": _endless_line,
    "logs that are never read": _unread_logs,
    "binary logs": _binary_logs,
    "jobs of a billion": _huge_jobs,
    "pods that fit nowhere": _many_pods,
}


def main(wanted: list[str]) -> int:
    n_bad = 0
    with tempfile.TemporaryDirectory() as folder, target_cluster(Path(folder)) as target:
        for name, attack in ATTACKS.items():
            if wanted and not any(part in name for part in wanted):
                continue
            harm = measure(target, name, attack)
            print(harm, *harm.problems(), sep="\n    ", flush=True)  # noqa: T201
            n_bad += bool(harm.problems())
    return min(n_bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
