"""Members that only count, as processes on loopback addresses of their own, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.unit.train.outputs import Fact, Outputs

ROOT = Path(__file__).parents[4]
# Of its own for each worker of the tests, so that two runs never meet.
_NETWORK = f"127.{64 + os.getpid() % 64}.{os.getpid() // 64 % 250}"
PORT = 23232


class CountingCluster:
    """Processes, the members folder they read, and all they have told."""

    def __init__(self, folder: Path) -> None:
        self.members = folder / "members"
        self.members.mkdir()
        self._outputs = Outputs(folder / "outputs")
        self._n_versions = 0
        self._instances: dict[int, int] = {}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._every: list[subprocess.Popen[bytes]] = []
        self.size = 0
        self.epoch = 0

    def address(self, index: int) -> str:
        return f"{_NETWORK}.{index + 1}"

    def resize(self, size: int, hosts: Sequence[str] | None = None) -> None:
        """Write the folder of the next epoch, as a mounted ConfigMap changes."""
        self.size, self.epoch = size, self.epoch + 1
        self._n_versions += 1
        version = self.members / f"..{self._n_versions}"
        version.mkdir()
        (version / "epoch").write_text(f"{self.epoch}\n")
        rows = hosts or [f"{self.address(index)}:2222" for index in range(size)]
        (version / "trainer").write_text("".join(f"{row}\n" for row in rows))
        counts = " ".join(str(self._instances.get(i, 0)) for i in range(size))
        (version / "instances").write_text(f"trainer {counts}\n")
        link = self.members / "..new"
        link.symlink_to(version.name)
        link.rename(self.members / "..data")

    def start(self, *indexes: int, steps: int = 1_000_000, **settings: object) -> None:
        for index in indexes:
            self._instances[index] = self._instances.get(index, 0) + 1
            given = {
                "index": index,
                "instance": self._instances[index],
                "members": str(self.members),
                "address": self.address(index),
                "port": PORT,
                "step_s": 0.02,
                "steps": steps,
                "secret": "open sesame",
                **settings,
            }
            name = f"{index}-{self._instances[index]}"
            path = self._outputs.folder / name
            with path.open("wb") as out, path.with_suffix(".err").open("wb") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.unit.train.bus.counting", json.dumps(given)],
                    stdout=out,
                    stderr=errors,
                    cwd=ROOT,
                )
            self.processes[index] = process
            self._every.append(process)

    def kill(self, *indexes: int) -> float:
        """Kill members; returns when."""
        at = time.time()
        for index in indexes:
            self.processes[index].kill()
        return at

    def signal(self, number: signal.Signals, *indexes: int) -> float:
        at = time.time()
        for index in indexes:
            self.processes[index].send_signal(number)
        return at

    def facts(self, index: int | None = None, since: float = 0.0) -> list[Fact]:
        """All that was told since then, in order of time."""
        found = self._outputs.facts(since)
        return [fact for fact in found if index is None or fact["index"] == index]

    def errors(self) -> str:
        return self._outputs.errors()

    def wait(self, wanted: Callable[[], Any], within_s: float = 60.0) -> Any:
        """Wait until a question has an answer that is true."""
        deadline = time.monotonic() + within_s
        while not (answer := wanted()):
            if time.monotonic() > deadline:
                last = "\n".join(map(str, self.facts()[-20:]))
                raise AssertionError(f"not within {within_s:g} s\n{last}\n{self.errors()}")
            time.sleep(0.02)
        return answer

    def wait_for_size(self, size: int, *, since: float = 0.0, within_s: float = 60.0) -> Fact:
        """Wait until a group of this size has done a step since then; returns that step."""

        def first() -> Fact | None:
            steps = [f for f in self.facts(since=since) if f.get("size") == size]
            return steps[0] if steps else None

        found: Fact = self.wait(first, within_s)
        return found

    def wait_for_exit(self, index: int, within_s: float = 60.0) -> int:
        code: int = self.processes[index].wait(within_s)
        return code

    def close(self) -> None:
        for process in self._every:
            if process.poll() is None:
                process.kill()
            process.wait(10)
