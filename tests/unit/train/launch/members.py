"""Launchers of one job on loopback addresses of their own, with a members folder, for tests.

The scripts that they run tell their steps by lines `{"at", "rank", "size", "step"}` in a file of
their own below `$FACTS`; a pause is the time between the last step before an event and the first
step after it that a group of the new size has done.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]
# Of its own for each process of the tests, so that two runs never meet.
_NETWORK = f"127.{128 + os.getpid() % 64}.{os.getpid() // 64 % 250}"
_PORT = 23232
Fact = dict[str, Any]
# As short as a training script can be: it counts, and goes on from its checkpoint.
COUNTING = """
import json, os, pathlib, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
facts = open(pathlib.Path(os.environ["FACTS"], f"{time.time_ns()}-{os.getpid()}"), "w", 1)
saved = pathlib.Path(os.environ["FACTS"], "..", "checkpoint")
step = int(saved.read_text()) if saved.exists() else 0
while step < int(os.environ.get("STEPS", "1000000")):
    step += 1
    time.sleep(0.01)
    if rank == 0:
        new = saved.with_suffix(".new")
        new.write_text(str(step))
        new.rename(saved)
    fact = {"at": time.time(), "rank": rank, "size": size, "step": step}
    fact |= {"generation": int(os.environ["SWELL_GENERATION"]), "pid": os.getpid()}
    print(json.dumps(fact), file=facts)
"""


@dataclass
class LaunchedMembers:
    """The launchers, the folder that they read, and all that their workers have told."""

    folder: Path
    command: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict)
    launchers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    size: int = 0
    _epoch: int = 0
    _instances: dict[int, int] = field(default_factory=dict)
    _every: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("members", "facts", "logs"):
            (self.folder / name).mkdir()
        (self.folder / "secret").write_text("open sesame")

    def resize(self, size: int) -> float:
        """Write the members of the next epoch, as a mounted ConfigMap changes; returns when."""
        self.size, self._epoch = size, self._epoch + 1
        version = self.folder / "members" / f"..{self._epoch}"
        version.mkdir()
        (version / "epoch").write_text(f"{self._epoch}\n")
        (version / "trainer").write_text("".join(f"{_NETWORK}.{i + 1}\n" for i in range(size)))
        counts = " ".join(str(self._instances.get(i, 0)) for i in range(size))
        (version / "instances").write_text(f"trainer {counts}\n")
        link = self.folder / "members" / "..new"
        link.symlink_to(version.name)
        at = time.time()
        link.rename(self.folder / "members" / "..data")
        return at

    def start(self, *indexes: int) -> None:
        for index in indexes:
            self._instances[index] = self._instances.get(index, 0) + 1
            with (self.folder / "logs" / f"{index}-{self._instances[index]}").open("wb") as log:
                started = subprocess.Popen(
                    list(self.command), env=self._environ(index), stdout=log, stderr=log
                )
            self.launchers[index] = started
            self._every.append(started)

    def _environ(self, index: int) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "SWELL_"))}
        kept.pop("PYTHONWARNINGS", None)  # a user's scripts are not held to ours
        return {
            **kept,
            "PYTHONPATH": str(ROOT / "src"),
            "SWELL_MEMBERS": str(self.folder / "members"),
            "SWELL_SECRET_FILE": str(self.folder / "secret"),
            "SWELL_POD_ADDRESS": f"{_NETWORK}.{index + 1}",
            "SWELL_BUS_PORT": str(_PORT),
            "TRAININGJOB_NAME": "job",
            "TRAININGJOB_REPLICA_NAME": "trainer",
            "TRAININGJOB_REPLICA_INDEX": str(index),
            "TRAININGJOB_INSTANCE": str(self._instances[index]),
            "FACTS": str(self.folder / "facts"),
            "OMP_NUM_THREADS": "1",
            **self.environ,
        }

    def kill(self, *indexes: int) -> float:
        """Kill launchers, and all that they run with them; returns when."""
        at = time.time()
        for index in indexes:
            self.launchers[index].kill()
        return at

    def terminate(self, *indexes: int) -> float:
        at = time.time()
        for index in indexes:
            self.launchers[index].send_signal(signal.SIGTERM)
        return at

    def facts(self, since: float = 0.0, size: int | None = None) -> list[Fact]:
        """All steps since then, of groups of one size if one is given, in order of time."""
        found: list[Fact] = []
        for path in (self.folder / "facts").iterdir():
            lines = path.read_bytes().split(b"\n")[:-1]
            found += [json.loads(line) for line in lines]
        kept = [one for one in found if one["at"] > since and size in {None, one["size"]}]
        return sorted(kept, key=lambda fact: float(fact["at"]))

    def log(self) -> str:
        files = sorted((self.folder / "logs").iterdir())
        return "\n".join(f"== {file.name}\n{file.read_text()}" for file in files)

    def wait(self, wanted: Callable[[], Any], within_s: float = 90.0) -> Any:
        """Wait until a question has an answer that is true."""
        deadline = time.monotonic() + within_s
        while not (answer := wanted()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {within_s:g} s\n{self.log()[-6000:]}")
            time.sleep(0.02)
        return answer

    def trains(self, size: int, since: float = 0.0, within_s: float = 90.0) -> float:
        """Wait until every rank of a new group of this size has done a step; returns when.

        Workers are new with every group, so those that were there before do not count.
        """
        before = {fact["pid"] for fact in self.facts() if fact["at"] <= since}

        def began() -> float:
            first: dict[int, float] = {}
            for fact in self.facts(since, size):
                if fact["pid"] not in before:
                    first.setdefault(fact["rank"], fact["at"])
            return max(first.values()) if len(first) == size else 0.0

        return float(self.wait(began, within_s))

    def pause_s(self, at: float, size: int, within_s: float = 60.0) -> float:
        """Seconds from an event until all ranks of a group of the new size train."""
        return self.trains(size, at, within_s) - at

    def close(self) -> None:
        for one in self._every:
            one.kill()
            one.wait()


def swell_launch(*arguments: str, python: str = sys.executable) -> list[str]:
    """The command of a launcher."""
    return [python, "-m", "swell.train.launch", *arguments]
