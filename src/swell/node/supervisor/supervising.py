"""What a supervisor does: starts one process, watches over it, and tells how it ended."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import NoReturn

from .identity import start_mark
from .kernel import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, control, set_name
from .mounts import enter_namespace
from .output import Log
from .protocol import (
    EXIT,
    IDENTITY,
    ORDER,
    STARTED,
    SUPERVISOR_NAME,
    Order,
    announce,
    leave,
    read_order,
    report,
)

START_ERROR = 128
DRAIN_S = 2.0
CHUNK_BYTES = 65536
# How often a disk that was full is tried again.
RETRY_S = 1.0


def supervise(folder: str) -> int:
    """Run what the folder's order says, to its end."""
    paper = os.open(f"{folder}/{ORDER}", os.O_RDONLY | os.O_CLOEXEC)
    order = read_order(paper)
    os.setsid()
    set_name(SUPERVISOR_NAME)
    wake = _catch_signals()
    control(PR_SET_CHILD_SUBREAPER, 1)
    try:
        if order.dies_with_parent:
            control(PR_SET_PDEATHSIG, signal.SIGTERM)
        elif not announce(folder, paper):
            return 0
        log = Log(order.log)
    except OSError as error:
        # Nothing has begun; on a full disk the agent tries again later.
        _forget(folder)
        report(f"refused {error.filename or folder}: {error.strerror}")
        return 0
    _end(folder, order, _run(folder, order, log, wake), wake)
    return 0


def _run(folder: str, order: Order, log: Log, wake: int) -> str:
    """Start the process and stay with it; what is to be told of its end."""
    output, input_ = os.pipe()
    started_at = time.time()
    pid, problem = _launch(order, input_)
    os.close(input_)
    if problem:
        log.write(problem.encode() + b"\n")
        return f"{START_ERROR} 0 {started_at:.3f} {time.time():.3f} StartError"
    told = f"{pid} {start_mark(pid)} {started_at:.3f}"
    if not order.dies_with_parent:
        _leave_if_possible(folder, STARTED, told)
    report(f"started {told}")
    status = _watch(pid, output, wake, log)
    _end_descendants(pid)
    _drain(output, log)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = 128 + number if number else os.WEXITSTATUS(status)
    return f"{code} {number} {started_at:.3f} {time.time():.3f} "


def _end(folder: str, order: Order, told: str, wake: int) -> None:
    """See to it that the end is known: on disk, or to an agent that listens."""
    if order.dies_with_parent:
        report(f"exit {told}")
        return
    is_left = _leave_if_possible(folder, EXIT, told)
    is_known = report(f"exit {told}") or is_left
    # The disk is full and nobody listens: stay until there is room, or until told to go.
    while not is_known and not _is_told_to_go(wake, RETRY_S):
        is_known = _leave_if_possible(folder, EXIT, told)


def _is_told_to_go(wake: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    if not poll.poll(within_s * 1e3):
        return False
    return not {signal.SIGTERM, signal.SIGUSR1}.isdisjoint(os.read(wake, CHUNK_BYTES))


def _leave_if_possible(folder: str, name: str, text: str) -> bool:
    try:
        leave(folder, name, text)
    except OSError:
        return False
    return True


def _forget(folder: str) -> None:
    try:
        os.unlink(f"{folder}/{IDENTITY}")
    except OSError:
        return


def _catch_signals() -> int:
    """Have signals written to a pipe; the end to read them from."""
    wake, wake_in = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return wake


def _launch(order: Order, output: int) -> tuple[int, str]:
    """Start the process; its pid, or why it could not be started."""
    told, tell = os.pipe()
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(order, output, tell, supervisor)
    os.close(tell)
    problem = b""
    while piece := os.read(told, CHUNK_BYTES):
        problem += piece
    os.close(told)
    if problem:
        os.waitpid(pid, 0)
    return pid, problem.decode(errors="replace")


def _become(order: Order, output: int, tell: int, supervisor: int) -> NoReturn:
    """The new process turns into the command. Does not return, whatever happens."""
    step = order.argv[0]
    try:
        os.setsid()
        for path in order.cgroups:
            with open(path, "w") as file:
                file.write(str(os.getpid()))
        if order.namespace:
            step = "private mounts"
            enter_namespace(order)
        # The supervisor's end is the end of what it watches over.
        control(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)
        step = f"working directory {order.cwd}"
        os.chdir(order.cwd)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        step = order.argv[0]
        os.execvpe(order.argv[0], order.argv, order.env)  # noqa: S606
    except OSError as error:
        os.write(tell, f"cannot start {step}: {error.strerror}".encode())
    except ValueError as error:
        os.write(tell, f"cannot start {step}: {error}".encode())
    os._exit(1)


def _watch(pid: int, output: int, wake: int, log: Log) -> int:
    """Copy output and pass on signals until the process ends; its wait status."""
    poll = select.poll()
    poll.register(output, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == output:
                data = os.read(output, CHUNK_BYTES)
                if data:
                    log.write(data)
                else:
                    poll.unregister(output)
                continue
            for number in os.read(wake, CHUNK_BYTES):
                if number == signal.SIGTERM:
                    _signal_group(pid, signal.SIGTERM)
                elif number == signal.SIGUSR1:
                    _signal_group(pid, signal.SIGKILL)
            status = _reap(pid)
            if status is not None:
                return status


def _reap(wanted: int) -> int | None:
    """Collect every process that has ended; the status of the one that matters, if it has."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == wanted:
            found = status
        if pid == 0:
            return found


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _end_descendants(pid: int) -> None:
    """Kill what the process has left behind, also what has left its group."""
    _signal_group(pid, signal.SIGKILL)
    deadline = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline:
        for child in _children():
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)
        except ChildProcessError:
            return


def _children() -> list[int]:
    """The processes that were handed to us when their parents ended."""
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _drain(output: int, log: Log) -> None:
    """What was written before the end and not read yet."""
    os.set_blocking(output, False)
    deadline = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline:
        try:
            data = os.read(output, CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            return
        log.write(data)
