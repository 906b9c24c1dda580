"""One training job of four members on `swell up`, with real operator, scheduler and node agent.

Programs tell their steps by lines of JSON in files of their own below `$FACTS`: when, which member
(`index`), and the rank and size of the group that has done the step. A *pause* of survivors is the
longest time in which one of those that stay has done no step, from the event until every rank of
the new group has done one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swell.api.meta import Body
from tests.e2e.launch.programs import library_path
from tests.e2e.up.machine import Machine

ROOT = Path(__file__).parents[1]
SIZE = 4
JOB, ROLE = "train", "trainer"
# Long enough for four frameworks that load at once on a busy machine.
WITHIN_S = 240.0
GRACE_S = 20
# The first steps of a group are this close together, and no group is as short.
SETTLED_S = 0.2
# A killed process is gone after this, and writes no more facts.
DEAD_S = 0.02
SCRIPT = "{script}"
Fact = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TrainingWay:
    """One way to train: the command of a member, its variables, and the script it runs."""

    python: Path
    arguments: tuple[str, ...]
    script: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    framework: str = "pytorch"
    # Commands of the shell before that.
    setup: str = ""
    # The member that the others cannot do without, where that is not the one of rank 0.
    host: int | None = None
    # The command of a pod of its own, role `master`, that keeps what members meet by.
    keeper: tuple[str, ...] = ()
    # Whether its tensors are on a GPU, which the members share; the others see none.
    on_gpu: bool = False

    @property
    def package(self) -> str:
        """What the framework's distribution is called."""
        return {"pytorch": "torch", "paddle": "paddlepaddle"}.get(self.framework, self.framework)

    def command(self, script: Path) -> list[str]:
        return [str(self.python), *(one.replace(SCRIPT, str(script)) for one in self.arguments)]


@dataclass(frozen=True, slots=True)
class TrainingEvent:
    """One change that was caused, with what it has cost, and the machine's load."""

    pause_s: float
    load: float
    # The pause of the others when the successor of a dead member came.
    rejoin_pause_s: float | None = None
    # From the event until all four train; of that, from when the newcomers had loaded.
    full_s: float | None = None
    join_s: float | None = None
    # Steps that were done again after the event; below 0, steps that were lost for good.
    n_redone: int = 0
    # Members besides the one in question whose first process ended.
    n_crashed: int = 0


class TrainingStage:
    """The cluster, the job, and the facts of its programs."""

    def __init__(self, folder: Path, way: TrainingWay) -> None:
        self.folder, self.way = folder, way
        self.facts_folder = folder / "facts"
        self._pids = folder / "pids"
        for made in (self.facts_folder, self._pids):
            made.mkdir(parents=True)
        self._script = folder / "train.py"
        self._script.write_text(way.script)
        self._machine = Machine(folder)
        self._read: dict[str, int] = {}
        self._facts: list[Fact] = []

    # ---- the cluster

    def open(self) -> None:
        """Start the cluster and the job, and wait until four members train."""
        flags = ["--cpu", "16", "--memory", "64Gi", "--name", "here"]
        if self.way.on_gpu:
            # A node that knew of its GPU would hide it from all members but one.
            flags += ["--gpu", "0"]
        self._machine.swell("up", "--detach", *flags)
        self.apply(self._job())
        self.wait_for_group(SIZE, time.time())

    def close(self) -> None:
        self._machine.swell("down", expect=None)

    def apply(self, *objects: Body) -> None:
        path = self.folder / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        self._machine.swell("apply", "-f", str(path))

    def delete(self, name: str) -> None:
        self._machine.swell("delete", "aitj", name)

    def is_running(self, name: str) -> bool:
        return self._machine.phase(name) == "Running"

    def scale(self, size: int) -> None:
        self._machine.swell("scale", JOB, f"{ROLE}={size}")

    def _job(self) -> Body:
        variables = {
            "PIDS": str(self._pids),
            "FACTS": str(self.facts_folder),
            "PYTHONPATH": ":".join(
                [
                    library_path(self.folder)["PYTHONPATH"],
                    str(ROOT),
                    os.environ.get("PYTHONPATH", ""),
                ]
            ).rstrip(":"),
            "OMP_NUM_THREADS": "1",
            **self.way.variables,
        }
        # The pod's first process is the one that is killed. ($$$$ is $$ after Kubernetes' own
        # expansion of commands.)
        script = f'{self.way.setup}echo $$$$ > "$PIDS/$TRAININGJOB_REPLICA_INDEX"; exec "$@"'
        container: Body = {
            "name": "aitj-main",
            "image": "local",
            "command": ["sh", "-c", script, "member", *self.way.command(self._script)],
            "workingDir": str(ROOT),
            "env": [{"name": k, "value": v} for k, v in variables.items()],
            "ports": [{"name": "aitj-29500", "containerPort": 29500}],
            "resources": {"requests": {"cpu": "4", "memory": "8Gi"}},
        }
        role: Body = {
            "replicas": SIZE,
            "minReplicas": 1,
            "maxReplicas": SIZE,
            "edlPolicy": "Manual",
            "restartPolicy": "OnFailure",
            "restartScope": "Pod",
            "restartLimit": 1000,
            "template": {
                "spec": {"terminationGracePeriodSeconds": GRACE_S, "containers": [container]}
            },
        }
        roles = {ROLE: role, **self._keeper()}
        return {
            "apiVersion": "elasticdeeplearning.ai/v1",
            "kind": "AITrainingJob",
            "metadata": {"name": JOB, "namespace": "default"},
            "spec": {
                "reporting": True,
                "frameworkType": self.way.framework,
                "replicaSpecs": roles,
            },
        }

    def _keeper(self) -> dict[str, Body]:
        if not self.way.keeper:
            return {}
        container: Body = {
            "name": "aitj-main",
            "image": "local",
            "command": [str(self.way.python), *self.way.keeper],
            "ports": [{"name": "aitj-29500", "containerPort": 29500}],
        }
        template = {"spec": {"containers": [container]}}
        return {"master": {"replicas": 1, "restartPolicy": "OnFailure", "template": template}}

    # ---- its processes

    def pid(self, index: int) -> int:
        return int((self._pids / str(index)).read_text())

    def kill(self, index: int) -> float:
        """Kill all processes of a member; returns the time at which they are dead."""
        for pid in _family(self.pid(index)):
            with contextlib.suppress(ProcessLookupError):  # ended with its parent
                os.kill(pid, signal.SIGKILL)
        time.sleep(DEAD_S)
        return time.time()

    @contextlib.contextmanager
    def frozen(self, index: int) -> Iterator[float]:
        """Stop all processes of a member, as a machine that hangs does, for as long."""
        stopped = _family(self.pid(index))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield time.time()
        finally:
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    # ---- what they tell

    def facts(self) -> list[Fact]:
        """Everything that was told so far, by time."""
        news: list[Fact] = []
        for path in self.facts_folder.iterdir():
            done = self._read.get(path.name, 0)
            with path.open("rb") as file:
                file.seek(done)
                lines, _, _ = file.read().rpartition(b"\n")
            if lines:
                self._read[path.name] = done + len(lines) + 1
                news += [json.loads(line) for line in lines.splitlines()]
        if news:
            self._facts = sorted([*self._facts, *news], key=lambda fact: float(fact["at"]))
        return self._facts

    def steps(self, since: float = 0.0) -> list[Fact]:
        return [fact for fact in self.facts() if "step" in fact and fact["at"] >= since]

    def leader(self) -> int:
        if self.way.host is not None:
            return self.way.host
        return int(next(f["index"] for f in reversed(self.steps()) if f["rank"] == 0))

    def wait_for_group(self, size: int, since: float) -> float:
        """Wait until every rank of a group of this size has done a step; returns when."""
        self.wait(lambda: self.began(size, since) is not None, f"no group of {size} trains")
        return self.began(size, since) or 0.0

    def wait_for_others(self, victim: int, since: float) -> float:
        """Wait until members train again without a dead one, or with its successor already."""

        def began() -> float | None:
            successor = [f["at"] for f in self.steps(since) if f["index"] == victim]
            return self.began(SIZE - 1, since) or (
                self.began(SIZE, successor[0] - SETTLED_S) if successor else None
            )

        self.wait(lambda: began() is not None, f"nobody trains without member {victim}")
        return began() or 0.0

    def began(self, size: int, since: float) -> float | None:
        """When every rank of a group of this size had done a step."""
        first: dict[int, float] = {}
        for fact in self.steps(since):
            if fact["size"] == size:
                first.setdefault(fact["rank"], float(fact["at"]))
        return max(first.values()) if len(first) == size else None

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}, within {WITHIN_S:.0f} s\n{self.log()}")
            time.sleep(0.1)

    def pause_s(self, members: set[int], since: float, until: float) -> float:
        """The longest time without a step of one of these members, in a span of time."""
        longest = 0.0
        for index in members:
            times = [float(f["at"]) for f in self.steps() if f["index"] == index]
            for before, after in itertools.pairwise(times):
                if after > since and before < until:
                    longest = max(longest, after - before)
        return longest

    def loaded_at(self, since: float) -> float | None:
        """When the last of the processes that were started since then had loaded."""
        loads = [float(f["at"]) for f in self.facts() if "loaded" in f and f["at"] >= since]
        return max(loads, default=None)

    def log(self) -> str:
        """The last lines of every container, for a failure's message."""
        files = sorted((self._machine.home / "logs").rglob("*.log"), key=os.path.getmtime)
        return "\n".join(f"== {one}\n{one.read_text()[-1500:]}" for one in files[-8:])


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):  # no process, or one that has just ended
            # The name of the program may have blanks and brackets in it.
            after_name = (entry / "stat").read_text().rpartition(")")[2]
            parents[int(entry.name)] = int(after_name.split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found
