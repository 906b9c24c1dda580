"""A user at a machine: types `swell` commands for a state folder of the test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from swell.api.meta import Body
from swell.cluster.home import lock_holder
from tests.testbed.processes import dies_with_parent

SWELL = (sys.executable, "-m", "swell.cli.main")
WITHIN_S = 60.0
# A cluster gives its pods 40 s to end, and its parts ten more.
ENDS_S = 70.0
FLAGS = ("--cpu", "16", "--memory", "16Gi", "--name", "here")
# What this test run has and a user has not: a file left to the end of a command is no error there.
OURS = frozenset({"KUBECONFIG", "SWELL_HOME", "PYTHONWARNINGS"})


@dataclass
class Machine:
    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "state"

    @property
    def environment(self) -> dict[str, str]:
        """No cluster of the person who runs the tests is ever touched."""
        kept = {k: v for k, v in os.environ.items() if k not in OURS}
        own = {"SWELL_HOME": str(self.home), "HOME": str(self.folder)}
        return {k: v for k, v in {**kept, **own, **self.environ}.items() if v}

    def swell(self, *arguments: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [*SWELL, *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert "Traceback" not in ended.stderr, ended.stderr
        if expect is not None:
            assert ended.returncode == expect, f"{arguments}: {ended.stdout}\n{ended.stderr}"
        return ended

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on meanwhile, and hears Ctrl-C even if this test run does not."""
        return subprocess.Popen(
            [*SWELL, *arguments],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_interrupts,  # noqa: PLW1509
        )

    def start(self) -> None:
        self.swell("up", "--detach", *FLAGS)

    @contextmanager
    def up(self, *flags: str) -> Iterator[None]:
        """A cluster for as long as the body runs; nothing of it runs afterwards.

        It is a child of this process, which the kernel asks to end if this process is killed: a
        cluster in the background would stay.
        """
        with (self.folder / "up.err").open("ab") as errors:
            child = subprocess.Popen(
                [*dies_with_parent(signal.SIGTERM), *SWELL, "up", *flags],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # a signal to the group of this process is not for it
            )
        try:
            assert child.stdout is not None
            first = child.stdout.readline()  # written when all parts are ready
            assert first, (self.folder / "up.err").read_text()
            yield
        finally:
            child.terminate()
            try:
                child.wait(ENDS_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            finally:
                self.swell("down", expect=None)  # processes of containers that outlived it

    def kill(self) -> None:
        """As if the power of the cluster's process were cut."""
        running = lock_holder(self.home)
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        until(lambda: lock_holder(self.home) is None)

    def job(self, name: str) -> Body:
        found: Body = msgspec.json.decode(self.swell("get", "aitj", name, "-o", "json").stdout)
        return found

    def phase(self, name: str) -> str:
        return str(self.job(name).get("status", {}).get("phase", ""))

    def until_phase(self, name: str, phase: str) -> None:
        until(lambda: self.phase(name) == phase, lambda: str(self.job(name).get("status")))

    def processes(self) -> list[str]:
        """Command lines of everything that was started for this folder, containers included."""
        found = []
        marks = (f"SWELL_HOME={self.home}\0".encode(), f"HOME={self.folder}\0".encode())
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            try:
                arguments = (entry / "cmdline").read_bytes()
                variables = (entry / "environ").read_bytes()
            except OSError:
                continue
            is_ours = any(mark in variables for mark in marks)
            if arguments and (str(self.home).encode() in arguments or is_ours):
                found.append(arguments.replace(b"\0", b" ").decode())
        return found


def hear_interrupts() -> None:
    """A shell lets what it starts in the background ignore SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def until(holds: Callable[[], bool], reported: Callable[[], str] = lambda: "") -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, reported()
        time.sleep(0.05)
