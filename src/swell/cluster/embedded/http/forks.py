"""Long work on a snapshot of the server, in a forked copy of its process.

A thread that checks a large object holds the interpreter's lock most of the time: the event loop
waits for it at every system call that it makes, for as many clients as have something to say, and
on a busy machine each time until the thread is given a processor. A copy of the process shares
nothing with the loop but the machine. It sees the store as it was at one moment, for the price of a
page table, and what it decides comes back through a pipe.

A copy has one thread, waits for no lock, and does nothing but compute: it closes every descriptor
but its pipe, collects no garbage (which would copy all pages), runs at a lower priority, and ends
with its parent. On other systems a thread does the work (see `payloads`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import gc
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NoReturn, TypeVar, cast

from swell.api.meta import Status
from swell.cluster.embedded import refusals
from swell.cluster.embedded.http.payloads import off_loop
from swell.runtime.errors import ClusterError, error_for

# A thread takes less than a fork's milliseconds for what is smaller.
FORKED_BYTES_MIN = 128 << 10
# No decision on 3 MiB takes so long; a client of kube-apiserver waits no longer either.
FORK_S_MAX = 60.0
CAN_FORK = sys.platform.startswith("linux") and hasattr(os, "pidfd_open")
_PR_SET_PDEATHSIG = 1  # from linux/prctl.h
_libc = ctypes.CDLL(None) if CAN_FORK else None
_NICENESS = 5  # the loop and the processes of others go first
_PIPE_BYTES = 1 << 20

T = TypeVar("T")
# Python warns because a lock of another thread stays locked in the copy, which takes none.
warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)


class ForkError(Exception):
    """The copy failed, or ended without a result."""


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    """The message of a copy: its result, the Status of a refusal, or what went wrong."""

    value: T | None = None
    status: Status | None = None
    failure: str = ""


class Forks:
    """Runs work in copies of this process, one at a time, in the order in which it was asked."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work, which has to be picklable; ClusterError where it raises one."""
        if not CAN_FORK:
            return await off_loop(work)
        async with self._turn:
            try:
                pid, pipe = _forked(work)
            except OSError:  # no process or no memory is left for it
                raise refusals.too_many_large_bodies() from None
            outcome: _Outcome[T] = await _outcome_of(pid, pipe)
        if outcome.status is not None:
            raise error_for(outcome.status)
        if outcome.failure:
            raise ForkError(outcome.failure)
        return cast("T", outcome.value)


async def elsewhere(forks: Forks, work: Callable[[], T], n_bytes: int) -> T:
    """Do work on so many bytes away from the loop: much in a copy, less in a thread."""
    return await (forks.run(work) if n_bytes > FORKED_BYTES_MIN else off_loop(work))


def _forked(work: Callable[[], object]) -> tuple[int, int]:
    """Start the work in a copy of this process; returns its pid and the pipe of its result."""
    read_end, write_end = os.pipe()
    # A signal that comes before the copy has taken the loop's handlers away would wake the loop.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _be_the_copy(work, write_end)
    except OSError:
        os.close(read_end)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        os.close(write_end)
    with contextlib.suppress(OSError):  # more than a user may have in pipes
        fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return pid, read_end


def _be_the_copy(work: Callable[[], object], pipe: int) -> NoReturn:
    """Do the work, write its result, and end, whatever happens."""
    try:
        gc.disable()
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _take_no_signals()
        _close_all_but(pipe)
        os.nice(_NICENESS)
        _send(pipe, _outcome(work))
    finally:
        # An error of ours is raised by the parent, whose log has it.
        with contextlib.suppress(OSError):
            if (error := sys.exc_info()[1]) is not None:
                _send(pipe, _Outcome(failure=repr(error)))
        os._exit(0)  # nothing of the parent's is closed, flushed, or told


def _send(pipe: int, outcome: _Outcome[object]) -> None:
    whole = memoryview(pickle.dumps(outcome, protocol=5))
    while whole:
        whole = whole[os.write(pipe, whole) :]


def _take_no_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _close_all_but(kept: int) -> None:
    """Close what is the parent's: a connection that it closes must not stay open here."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        if int(entry.name) > 2 and int(entry.name) != kept:
            with contextlib.suppress(OSError):
                os.close(int(entry.name))


def _outcome(work: Callable[[], T]) -> _Outcome[T]:
    try:
        return _Outcome(value=work())
    except ClusterError as error:
        return _Outcome(status=error.status)


async def _outcome_of(pid: int, pipe: int) -> _Outcome[T]:
    """Read what the copy writes until it ends; it is ended when nobody waits for it any more."""
    raw: bytes | None = None
    try:
        async with asyncio.timeout(FORK_S_MAX):
            raw = await _read_all(pipe)
    except TimeoutError:
        raise refusals.decision_too_slow(FORK_S_MAX) from None
    finally:
        if raw is None:
            os.kill(pid, signal.SIGKILL)
        os.close(pipe)
        await _reaped(pid)
    if not raw:
        return _Outcome(failure="a copy of the server that decided on a request was killed")
    # It comes from our own code and memory.
    found: _Outcome[T] = pickle.loads(raw)  # noqa: S301
    return found


async def _read_all(pipe: int) -> bytes:
    loop = asyncio.get_running_loop()
    os.set_blocking(pipe, False)
    ended: asyncio.Future[None] = loop.create_future()
    parts: list[bytes] = []

    def read() -> None:
        try:
            part = os.read(pipe, _PIPE_BYTES)
        except BlockingIOError:
            return
        parts.append(part)
        if not part and not ended.done():
            ended.set_result(None)

    loop.add_reader(pipe, read)
    try:
        await ended
    finally:
        loop.remove_reader(pipe)
    return b"".join(parts)


def _reaped(pid: int) -> asyncio.Future[None]:
    """Done when the process is gone. It is about to be: giving its memory back takes moments."""
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[None] = loop.create_future()
    held = os.pidfd_open(pid)

    def reap() -> None:
        loop.remove_reader(held)
        os.close(held)
        os.waitpid(pid, 0)
        if not gone.done():
            gone.set_result(None)

    loop.add_reader(held, reap)
    return gone
