"""Training programs as processes on loopback addresses of their own, with the real bus."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swell.api import injection
from tests.unit.train.outputs import Fact, Outputs

ROOT = Path(__file__).parents[3]
ROLE = "trainer"
BUS_PORT = 23232


class TrainingCluster:
    """Processes of one job, the members folder they read, and all they have printed.

    A program prints one JSON object a line. The environment is that of the operator.
    """

    # Every cluster of a process has a network of its own, so that two never meet.
    n_clusters = 0

    def __init__(self, folder: Path, command: list[str], **variables: str) -> None:
        TrainingCluster.n_clusters += 1
        number = os.getpid() * 16 + TrainingCluster.n_clusters
        self._network = f"127.{128 + number % 120}.{number // 120 % 250}"
        self.folder, self._command, self._variables = folder, command, variables
        self.members, self._outputs = folder / "members", Outputs(folder / "outputs")
        self.members.mkdir()
        (folder / "secret").write_text("open sesame\n")
        self._epoch = self._size = self._n_versions = 0
        self._listed: dict[str, str] = {}
        self.rows: list[str] = []  # in the folder; the members' own addresses otherwise
        self._instances: dict[int, int] = {}
        self._leaving: dict[int, subprocess.Popen[bytes]] = {}  # told to go by a shrink
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._every: list[subprocess.Popen[bytes]] = []

    def set_variable(self, name: str, value: str) -> None:
        """Give a variable to all processes that are started from now on."""
        self._variables[name] = value

    def set_pace(self, seconds: float) -> None:
        """Let each step of a program that reads `$PACE` take so long from now on.

        Training has to last until the successors of killed processes have loaded their framework,
        however long that takes.
        """
        path = self.folder / "pace"
        path.with_suffix(".new").write_text(str(seconds))
        path.with_suffix(".new").rename(path)
        self._variables["PACE"] = str(path)

    def address(self, index: int) -> str:
        return f"{self._network}.{index + 1}"

    def list_members(self, size: int) -> float:
        """Write the members folder of the next epoch, as a mounted ConfigMap changes."""
        self._epoch, self._size = self._epoch + 1, size
        self.tend()
        return time.time()

    def tend(self) -> None:
        """Do what the operator does about pods that have ended.

        The members folder tells of those that are gone or have succeeded. One that was told to go,
        and is listed again since then, has a successor.
        """
        gone = {i: one for i, one in self._leaving.items() if one.poll() is not None}
        for index in gone:
            del self._leaving[index]  # before any start, which comes here again
        for index, process in gone.items():
            is_last = self.processes.get(index) is process  # none while its successor starts
            if index < self._size and is_last and process.returncode:
                self._epoch += 1
                self.start(index)
        codes = {index: process.poll() for index, process in sorted(self.processes.items())}
        rows = self.rows or [self.address(index) for index in range(self._size)]
        counts = " ".join(str(self._instances.get(i, 0)) for i in range(self._size))
        former = [i for i, code in codes.items() if code is None and i >= self._size]
        done = [i for i, code in codes.items() if code == 0]
        ended = done if len(done) < len(codes) else []
        files = {
            "epoch": f"{self._epoch}\n",
            ROLE: "".join(f"{row}\n" for row in rows[: self._size]),
            injection.INSTANCES_FILE: f"{ROLE} {counts}\n",
            injection.FORMER_FILE: " ".join([ROLE, *(f"{i}={self.address(i)}" for i in former)]),
            injection.SUCCEEDED_FILE: " ".join(
                [ROLE, *(f"{i}={self._instances[i]}" for i in ended)]
            ),
        }
        if files == self._listed:
            return
        self._listed = files
        self._n_versions += 1
        version = self.members / f"..{self._n_versions}"
        version.mkdir()
        for name, text in files.items():
            (version / name).write_text(text)
        link = self.members / "..new"
        link.symlink_to(version.name)
        link.rename(self.members / "..data")

    def start(self, *indexes: int) -> None:
        for index in indexes:
            instance = self._instances[index] = self._instances.get(index, 0) + 1
            self.processes.pop(index, None)
            self.tend()  # The operator counts a pod before it makes it.
            given = {
                injection.MEMBERS_VARIABLE: str(self.members),
                injection.SECRET_FILE_VARIABLE: str(self.folder / "secret"),
                injection.ADDRESS_VARIABLE: self.address(index),
                injection.BUS_PORT_VARIABLE: str(BUS_PORT),
                injection.INSTANCE_VARIABLE: str(instance),
                "TRAININGJOB_REPLICA_NAME": ROLE,
                "TRAININGJOB_REPLICA_INDEX": str(index),
            }
            name = self._outputs.folder / f"{index}-{instance}"
            with name.open("wb") as out, name.with_suffix(".err").open("wb") as errors:
                process = subprocess.Popen(
                    self._command,
                    stdout=out,
                    stderr=errors,
                    cwd=ROOT,
                    env={
                        **os.environ,
                        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
                        **self._variables,
                        **given,
                    },
                )
            self.processes[index] = process
            self._every.append(process)

    def begin(self, size: int) -> None:
        self.list_members(size)
        self.start(*range(size))

    def kill(self, *indexes: int) -> float:
        """Kill members; returns the time at which they are dead."""
        for index in indexes:
            self.processes[index].kill()
        for index in indexes:
            self.processes[index].wait()
        return time.time()

    def replace(self, *indexes: int) -> float:
        """Kill members and start successors, as the operator does."""
        at = self.kill(*indexes)
        self._epoch += 1
        self.start(*indexes)
        return at

    def resize(self, size: int) -> float:
        """Shrink as the operator does: the folder, then SIGTERM; or grow."""
        old = self._running()
        at = self.list_members(size)
        for index in sorted(old):
            if index >= size:
                self._leaving[index] = self.processes[index]
                self.processes[index].send_signal(signal.SIGTERM)
        # A member that had left and is listed again may have its successor already.
        self.start(*(i for i in range(size) if i not in old | self._running()))
        return at

    def _running(self) -> set[int]:
        return {index for index, one in self.processes.items() if one.poll() is None}

    def facts(self, since: float = 0.0) -> list[Fact]:
        """All that was printed since then, in order of time; `process` names the process."""
        return self._outputs.facts(since)

    def leader(self) -> int:
        """The index of the member that was last seen with rank 0."""
        ranks = [f for f in self.facts() if f.get("rank") == 0]
        return int(ranks[-1]["index"])

    def errors(self) -> str:
        return self._outputs.errors()

    def wait(self, wanted: Callable[[], Any], within_s: float = 60.0) -> Any:
        deadline = time.monotonic() + within_s
        while not (answer := wanted()):
            if time.monotonic() > deadline:
                last = "\n".join(str(f)[:200] for f in self.facts()[-10:])
                raise AssertionError(f"not within {within_s:g} s\n{last}\n{self.errors()[-4000:]}")
            self.tend()
            time.sleep(0.02)
        return answer

    def wait_for_size(self, size: int, since: float = 0.0, within_s: float = 60.0) -> None:
        """Wait until a group of this size has done a step since then, and was formed since then."""
        facts = [f for f in self.facts() if f["at"] < since]
        old = max((f.get("generation", 0) for f in facts), default=0)

        def is_new(fact: Fact) -> bool:
            return fact.get("size") == size and fact.get("generation", old + 1) > old

        self.wait(lambda: any(map(is_new, self.facts(since))), within_s)

    def wait_for_end(self, within_s: float = 120.0) -> list[int]:
        """The exit statuses of the last processes at each index."""
        processes = self.processes.values()
        self.wait(lambda: all(p.poll() is not None for p in processes), within_s)
        return [self.processes[index].wait() for index in sorted(self.processes)]

    def pause_after(self, event: float, within_s: float = 2.0) -> float:
        """The longest time between two steps of one process, around an event."""
        longest = 0.0
        for name in {fact["process"] for fact in self.facts()}:
            times = [f["at"] for f in self.facts() if f["process"] == name and "step" in f]
            for before, after in itertools.pairwise(times):
                if after > event and before < event + within_s:
                    longest = max(longest, after - before)
        return longest

    def close(self) -> None:
        for process in self._every:
            if process.poll() is None:
                process.kill()
            process.wait(10)


def python() -> str:
    return sys.executable
