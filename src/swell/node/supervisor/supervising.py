"""The supervisor: starts one process, watches over it, and records how it ended."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from typing import NoReturn

from .kernel import (
    LINUX,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    control,
    set_name,
    start_mark,
)
from .mounts import enter_namespace
from .output import Log
from .processes import Descendants, n_threads_of_user
from .protocol import (
    EXIT_FILE,
    IDENTITY_FILE,
    SPEC_FILE,
    STARTED_FILE,
    SUPERVISOR_NAME,
    RunSpec,
    read_spec,
    send_report,
    write_file,
    write_identity,
)

# The exit code that container runtimes report with the reason StartError.
START_ERROR = 128
# How long the output of an ended process is waited for.
DRAIN_S = 2.0
# How often descendants are looked for on systems that do not hand orphans to the supervisor.
NOTE_S = 5.0
CHUNK_BYTES = 65536
# How often a disk that was full is tried again.
RETRY_S = 1.0


def supervise(folder: str) -> int:
    """Run the spec in a folder to its end.

    forked --the spec was withdrawn-------------> gone, nothing was started
      |  +---the disk takes no identity or log--> gone, "refused" is reported
      v
    identified (identity file) --the command cannot be started--+
      |                                                         |
      v                                                         |
    running (started file, "started" is reported)               |
      |  SIGTERM: passed on to the process group                |
      |  SIGUSR1: all processes of the container are killed     |
      v                                                         v
    ended (descendants are killed, the output is read) -> exit file, "exit" is reported -> gone
                                 the disk is full and no agent listens: stays and tries again
    """
    spec_descriptor = os.open(f"{folder}/{SPEC_FILE}", os.O_RDONLY | os.O_CLOEXEC)
    spec = read_spec(spec_descriptor)
    os.setsid()
    set_name(SUPERVISOR_NAME)
    signals = _catch_signals()
    # Orphans of the container become children of the supervisor, which can then end them.
    control(PR_SET_CHILD_SUBREAPER, 1)
    try:
        if spec.dies_with_parent:
            # It is killed at once: a command that ignores SIGTERM would go on without an agent.
            control(PR_SET_PDEATHSIG, signal.SIGUSR1)
        elif not write_identity(folder, spec_descriptor):
            return 0
        log = Log(spec.log)
    except OSError as error:
        # Nothing has begun; on a full disk the agent tries again later.
        _remove_identity(folder)
        send_report(f"refused {error.filename or folder}: {error.strerror}")
        return 0
    _record_exit(folder, spec, _run(folder, spec, log, signals), signals)
    return 0


def _run(folder: str, spec: RunSpec, log: Log, signals: int) -> str:
    """Start the process, stay until it ends, and return the line for the exit file."""
    output, output_in = os.pipe()
    started_at = time.time()
    pid, problem = _start_process(spec, output_in)
    os.close(output_in)
    if problem:
        log.write(problem.encode() + b"\n")
        return f"{START_ERROR} 0 {started_at:.3f} {time.time():.3f} StartError"
    line = f"{pid} {start_mark(pid)} {started_at:.3f}"
    if not spec.dies_with_parent:
        _try_write(folder, STARTED_FILE, line)
    send_report(f"started {line}")
    # The commands of probes are in the container's cgroups as well, and must not end it.
    descendants = Descendants(() if spec.dies_with_parent else spec.cgroups)
    status = _watch(pid, output, signals, log, descendants)
    _signal_group(pid, signal.SIGKILL)
    descendants.kill_all()
    _drain(output, log)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = 128 + number if number else os.WEXITSTATUS(status)
    return f"{code} {number} {started_at:.3f} {time.time():.3f} "


def _record_exit(folder: str, spec: RunSpec, line: str, signals: int) -> None:
    """Make sure that the end is known: to the disk, or to an agent that listens."""
    if spec.dies_with_parent:
        send_report(f"exit {line}")
        return
    is_written = _try_write(folder, EXIT_FILE, line)
    is_known = send_report(f"exit {line}") or is_written
    # The disk is full and no agent listens: stay until there is room, or until signalled to go.
    while not is_known and not _is_signalled(signals, RETRY_S):
        is_known = _try_write(folder, EXIT_FILE, line)


def _is_signalled(signals: int, within_s: float) -> bool:
    """Whether a signal to end comes within this time."""
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    if not poll.poll(within_s * 1e3):
        return False
    return not {signal.SIGTERM, signal.SIGUSR1}.isdisjoint(os.read(signals, CHUNK_BYTES))


def _try_write(folder: str, name: str, text: str) -> bool:
    try:
        write_file(folder, name, text)
    except OSError:
        return False
    return True


def _remove_identity(folder: str) -> None:
    try:
        os.unlink(f"{folder}/{IDENTITY_FILE}")
    except OSError:
        return


def _catch_signals() -> int:
    """Have signals written to a pipe, and return the end to read them from."""
    signals, signals_in = os.pipe()
    os.set_blocking(signals, False)
    os.set_blocking(signals_in, False)
    signal.set_wakeup_fd(signals_in, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    # The launcher was started with these signals blocked, so that none is lost before this point.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return signals


def _start_process(spec: RunSpec, output: int) -> tuple[int, str]:
    """Start the process; returns its pid, and the reason if it could not be started.

    The reason comes through a pipe that closes itself when the command is executed.
    """
    problems, problems_in = os.pipe()
    supervisor = os.getpid()
    limit_processes = _process_limiter(spec.processes_max)
    pid = os.fork()
    if pid == 0:
        _execute(spec, output, problems_in, supervisor, limit_processes)
    os.close(problems_in)
    problem = b""
    while piece := os.read(problems, CHUNK_BYTES):
        problem += piece
    os.close(problems)
    if problem:
        os.waitpid(pid, 0)
    return pid, problem.decode(errors="replace")


def _execute(
    spec: RunSpec,
    output: int,
    problems: int,
    supervisor: int,
    limit_processes: Callable[[], None],
) -> NoReturn:
    """Turn the forked process into the command. It never returns."""
    step = spec.argv[0]
    try:
        os.setsid()
        # Before private mounts hide them. A terminal becomes that of the new session.
        stdio = _open_stdio(spec.stdio)
        for path in spec.cgroups:
            with open(path, "w") as file:
                file.write(str(os.getpid()))
        if spec.namespace:
            step = "private mounts"
            enter_namespace(spec)
        if spec.user:
            step = f"user {spec.user[0]}"
            _become(spec.user)
        if spec.user or spec.hidden:
            # No program may give it the rights of another user back.
            control(PR_SET_NO_NEW_PRIVS, 1)
        # When the supervisor is killed, the process is killed as well.
        control(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # it was killed before the line above
            os._exit(1)
        step = "limit of processes"
        limit_processes()
        step = f"working directory {spec.cwd}"
        os.chdir(spec.cwd)
        for number, descriptor in enumerate(stdio or (0, output, output)):
            os.dup2(descriptor, number)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        step = spec.argv[0]
        os.execvpe(spec.argv[0], spec.argv, spec.env)  # noqa: S606
    except OSError as error:
        os.write(problems, f"cannot start {step}: {error.strerror}".encode())
    except ValueError as error:
        os.write(problems, f"cannot start {step}: {error}".encode())
    os._exit(1)


def _open_stdio(paths: tuple[str, ...]) -> tuple[int, ...]:
    """Open the files that a process reads and writes; none if it has those of its supervisor."""
    if len(paths) == 1:
        return (os.open(paths[0], os.O_RDWR),) * 3
    modes = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)
    return tuple(os.open(path, mode) for path, mode in zip(paths, modes, strict=False))


def _become(user: tuple[int, ...]) -> None:
    """Become another user, for good. It comes before the signal of the parent's end is set: the
    kernel forgets that when the user changes.
    """
    uid, gid, *groups = user
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _process_limiter(processes_max: int) -> Callable[[], None]:
    """Returns what limits the processes of this user, where no cgroup limits a container's.

    The kernel counts all processes of the user, so those that exist already are allowed for. It
    does not limit root in this way. It is prepared before the fork: the container may not see the
    files of Python any more.
    """
    if not processes_max:
        return lambda: None
    import resource  # it is needed in few containers, and not by the launcher

    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = n_threads_of_user() + processes_max
    allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    return lambda: resource.setrlimit(resource.RLIMIT_NPROC, (allowed, allowed))


def _watch(pid: int, output: int, signals: int, log: Log, descendants: Descendants) -> int:
    """Copy output and pass on signals until the process ends; returns its wait status."""
    poll = select.poll()
    poll.register(output, select.POLLIN)
    poll.register(signals, select.POLLIN)
    while True:
        ready = poll.poll(None if LINUX else NOTE_S * 1e3)
        descendants.note()
        for descriptor, _ in ready:
            if descriptor == output:
                data = os.read(output, CHUNK_BYTES)
                if data:
                    log.write(data)
                else:
                    poll.unregister(output)
                continue
            for number in os.read(signals, CHUNK_BYTES):
                if number == signal.SIGTERM:
                    _signal_group(pid, signal.SIGTERM)
                elif number == signal.SIGUSR1:
                    _signal_group(pid, signal.SIGKILL)
            status = _reap(pid)
            if status is not None:
                return status


def _reap(wanted: int) -> int | None:
    """Collect every process that has ended; returns the status of the wanted one, if it has."""
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


def _drain(output: int, log: Log) -> None:
    """Copy the output that was written before the end and not read yet."""
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
