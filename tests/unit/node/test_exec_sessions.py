"""Commands of users in a container: real processes, with pipes or a terminal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from swell.cluster.embedded.http.streams import ExecCommand
from swell.node.process.container import ExecRunner
from swell.node.process.exec_sessions import ExecSession
from swell.node.process.launcher import Launcher
from swell.node.process.supervised import SupervisedRun
from swell.runtime.clock import SystemClock

WITHIN_S = 60.0
Execute = Callable[[ExecCommand], ExecSession]


def in_container(folder: Path, act: Callable[[Execute], Awaitable[None]]) -> None:
    """Run a test beside a container that sleeps, with a variable and a folder of its own."""

    async def main() -> None:
        clock, launcher = SystemClock(), Launcher(folder)
        home, work = folder / "run", folder / "work"
        home.mkdir()
        work.mkdir()
        ended = asyncio.Event()
        container = SupervisedRun(home, clock, ended.set)
        spec: dict[str, object] = {
            "argv": ("sleep", "1000"),
            "env": {"PATH": os.environ["PATH"], "OWN": "variable"},
            "cwd": str(work),
            "log": str(folder / "log"),
        }
        container.start(launcher, spec)
        runner = ExecRunner(launcher, clock)
        try:
            async with asyncio.timeout(WITHIN_S):
                await container.wait_started(WITHIN_S)
                await act(lambda command: ExecSession(runner, container, command))
                container.kill()
                while container.ended is None:
                    ended.clear()
                    await ended.wait()
        finally:
            launcher.close()
        assert not list(home.glob("exec-*"))

    asyncio.run(main())


async def ran(session: ExecSession) -> tuple[bytes, bytes, int]:
    """Read a command to its end, and return both outputs and its exit code."""
    seen = {1: b"", 2: b""}
    try:
        async for stream, piece in session.output():
            seen[stream] += piece
        return seen[1], seen[2], session.exit_code
    finally:
        await session.close()


def test_command_has_what_the_container_has(tmp_path: Path) -> None:
    """Its variables and folder; outputs apart, and its own exit code."""

    async def act(execute: Execute) -> None:
        script = "echo $OWN; pwd; echo problem >&2; exit 3"
        found = await ran(execute(ExecCommand(("sh", "-c", script))))
        assert found == (f"variable\n{tmp_path / 'work'}\n".encode(), b"problem\n", 3)

    in_container(tmp_path, act)


def test_input_comes_whole_and_ends(tmp_path: Path) -> None:
    """Also when it is all there before the command has begun to read, and is larger than a pipe."""

    async def act(execute: Execute) -> None:
        small = execute(ExecCommand(("cat",), stdin=True))
        await small.write(b"hello")
        await small.close_input()
        assert await ran(small) == (b"hello", b"", 0)
        large = execute(ExecCommand(("wc", "-c"), stdin=True))
        reading = asyncio.create_task(ran(large))
        await large.write(b"x" * 1_000_000)
        await large.close_input()
        assert (await reading)[0].split() == [b"1000000"]

    in_container(tmp_path, act)


def test_large_output_is_complete(tmp_path: Path) -> None:
    """Nothing of it is lost at the command's end."""

    async def act(execute: Execute) -> None:
        out, _, code = await ran(execute(ExecCommand(("head", "-c", "3000000", "/dev/zero"))))
        assert (len(out), code) == (3_000_000, 0)

    in_container(tmp_path, act)


def test_terminal_has_a_size_and_keys(tmp_path: Path) -> None:
    """A command with a terminal sees one, of the user's size, and what is typed."""

    async def act(execute: Execute) -> None:
        script = "test -t 0 && test -t 1 && read answer && stty size && echo got $answer"
        session = execute(ExecCommand(("sh", "-c", script), stdin=True, tty=True))
        await session.resize(columns=101, rows=33)
        await session.write(b"yes\n")
        out, _, code = await ran(session)
        assert code == 0
        assert b"33 101" in out
        assert b"got yes" in out

    in_container(tmp_path, act)


def test_command_that_is_not_there_says_so(tmp_path: Path) -> None:
    """The reason is that of the operating system."""

    async def act(execute: Execute) -> None:
        session = execute(ExecCommand(("no-such-program",)))
        async for _ in session.output():
            raise AssertionError("a command that did not start has no output")
        assert session.start_problem == "cannot start no-such-program: No such file or directory"
        await session.close()

    in_container(tmp_path, act)


def test_closing_ends_a_command_that_goes_on(tmp_path: Path) -> None:
    """With the processes that it has started."""

    async def act(execute: Execute) -> None:
        session = execute(ExecCommand(("sh", "-c", "sleep 500 & echo begun; wait")))
        async for _, piece in session.output():
            assert piece == b"begun\n"
            break
        await session.close()
        assert session.exit_code == 137

    in_container(tmp_path, act)
