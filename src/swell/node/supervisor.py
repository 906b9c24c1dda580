"""The parent of one container's process.

Forked by a launcher, `python -I -S supervisor.py HOME`, that an agent keeps: a warm process has
nothing to load, and hundreds may be wanted at once. It outlives launcher and agent. It reads an
order from its folder, starts the process in a
session (and, where ordered, a mount namespace) of its own, copies its output to a rotated log,
and leaves on disk who it is, when the process began and how it ended. SIGTERM is passed on to the
process group; SIGUSR1 kills it. When the process ends, so does everything it has started.

Standard library only: nothing of Swell can be imported here, the file is run by its path.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import select
import signal
import socket
import sys
import time
from typing import NoReturn

ORDER, IDENTITY, STARTED, EXIT = "order", "identity", "started", "exit"
START_ERROR = 128
REPORT_FD = 1
LAUNCHER_NAME, SUPERVISOR_NAME = "swell-launcher", "swell-supervise"  # 15 letters at most
PATH_BYTES_MAX = 4096
DESCRIPTORS_MAX = 65536
DRAIN_S = 2.0
CHUNK_BYTES = 65536
LOG_BYTES_MAX = 10 << 20
LOG_FILES_MAX = 5
LINUX = sys.platform.startswith("linux")

# From linux/sched.h, linux/mount.h and linux/prctl.h.
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 32, 4096, 8192, 16384, 1 << 18
MS_KEPT = 2 | 4 | 8 | 1024 | 2048  # nosuid, nodev, noexec, noatime, nodiratime
MS_RELATIME, ST_RELATIME = 1 << 21, 4096
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36


class Order:
    """What to run. Mounts are (source, target, read only); a namespace is "", "root" or "user"."""

    def __init__(
        self,
        *,
        argv: tuple[str, ...],
        env: dict[str, str],
        cwd: str,
        log: str,
        namespace: str = "",
        mounts: tuple[tuple[str, str, bool], ...] = (),
        cgroups: tuple[str, ...] = (),
        stage: str = "",
        dies_with_parent: bool = False,
    ) -> None:
        self.argv, self.env, self.cwd, self.log = argv, env, cwd, log
        self.namespace, self.mounts, self.cgroups = namespace, mounts, cgroups
        self.stage = stage  # an empty folder that mounts are prepared on
        self.dies_with_parent = dies_with_parent


class Log:
    """The output, in files of bounded size, with an index of when each piece of it came.

    An index entry is 16 bytes: the offset in the file and the time in microseconds.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o644)
        self._index = os.open(self._path + ".times", flags, 0o644)
        self._size = os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        """Append. What a full disk does not take is lost; the process goes on."""
        if self._size + len(data) > LOG_BYTES_MAX and self._size:
            self._rotate()
        stamp = self._size.to_bytes(8, "little") + int(time.time() * 1e6).to_bytes(8, "little")
        try:
            os.write(self._index, stamp)
            while data:
                n_written = os.write(self._file, data)
                self._size += n_written
                data = data[n_written:]
        except OSError:
            return

    def _rotate(self) -> None:
        os.close(self._file)
        os.close(self._index)
        for suffix in ("", ".times"):
            for number in range(LOG_FILES_MAX - 1, 0, -1):
                older = f"{self._path}.{number}{suffix}"
                newer = f"{self._path}.{number - 1}{suffix}" if number > 1 else self._path + suffix
                if os.path.exists(newer):  # noqa: PTH110
                    os.replace(newer, older)  # noqa: PTH105
        self._open()


def launch(requests: socket.socket) -> int:
    """Fork a supervisor for every folder that is asked for, until nobody asks any more.

    A request is a folder and the descriptor to report to; the answer is the pid.
    """
    os.setsid()
    os.closerange(3, DESCRIPTORS_MAX)  # what the agent's own parent left open is no affair of ours
    _name(LAUNCHER_NAME)
    # Whoever ends is collected by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        folder, descriptors, _, _ = socket.recv_fds(requests, PATH_BYTES_MAX, 1)
        if not folder:
            return 0
        pid = os.fork()
        if pid == 0:
            requests.detach()  # what it stood for is replaced
            _take_over(folder.decode(), descriptors[0])
        os.close(descriptors[0])
        requests.send(str(pid).encode())


def _take_over(folder: str, report: int) -> NoReturn:
    """A forked launcher becomes a supervisor."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    errors = os.open(f"{folder}/supervisor.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for standard, given in enumerate((nothing, report, errors)):
        os.dup2(given, standard)
        os.close(given)
    os._exit(supervise(folder))


def supervise(folder: str) -> int:
    """Run what the folder's order says, to its end."""
    paper = os.open(f"{folder}/{ORDER}", os.O_RDONLY | os.O_CLOEXEC)
    order = read_order(paper)
    os.setsid()
    _name(SUPERVISOR_NAME)
    wake = _catch_signals()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    if order.dies_with_parent:
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    elif not _announce(folder, paper):
        return 0
    output, input_ = os.pipe()
    started_at = time.time()
    pid, problem = _launch(order, input_)
    os.close(input_)
    log = Log(order.log)
    if problem:
        log.write(problem.encode() + b"\n")
        _end(folder, order, f"{START_ERROR} 0 {started_at:.3f} {time.time():.3f} StartError")
        return 0
    told = f"{pid} {start_mark(pid)} {started_at:.3f}"
    if not order.dies_with_parent:
        _leave(folder, STARTED, told)
    _report(f"started {told}")
    status = _watch(pid, output, wake, log)
    _end_descendants(pid)
    _drain(output, log)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = 128 + number if number else os.WEXITSTATUS(status)
    _end(folder, order, f"{code} {number} {started_at:.3f} {time.time():.3f} ")
    return 0


def read_order(paper: int) -> Order:
    with open(paper, "rb", closefd=False) as file:
        return Order(**marshal.load(file))  # noqa: S302 (written by the agent, for its owner alone)


def _announce(folder: str, paper: int) -> bool:
    """Leave word who we are; False when the order has been withdrawn.

    An agent that finds an order without an identity withdraws the order and then looks for the
    identity again. Either it sees ours, or we see that the order is gone.
    """
    if _is_withdrawn(folder, paper):
        return False
    _leave(folder, IDENTITY, f"{os.getpid()} {start_mark(os.getpid())}")
    return not _is_withdrawn(folder, paper)


def _is_withdrawn(folder: str, paper: int) -> bool:
    try:
        there = os.stat(f"{folder}/{ORDER}")  # noqa: PTH116
    except FileNotFoundError:
        return True
    return not os.path.samestat(there, os.fstat(paper))


def start_mark(pid: int) -> str:
    """What tells a process from a later one with its pid; empty when there is none.

    On Linux the boot and the tick it began at; elsewhere only that it exists.
    """
    try:
        if not LINUX:
            os.kill(pid, 0)
            return "alive"
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
            boot = file.read(8)
    except (OSError, IndexError):
        return ""
    if fields[0] in {b"Z", b"X"}:
        return ""
    return f"{boot}.{fields[19].decode()}"


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
            with open(path, "w") as file:  # noqa: PTH123
                file.write(str(os.getpid()))
        if order.namespace:
            step = "private mounts"
            enter_namespace(order)
        # The supervisor's end is the end of what it watches over.
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
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
        with open(f"/proc/{own}/task/{own}/children") as file:  # noqa: PTH123
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


def _end(folder: str, order: Order, told: str) -> None:
    if not order.dies_with_parent:
        _leave(folder, EXIT, told)
    _report(f"exit {told}")


def _leave(folder: str, name: str, text: str) -> None:
    """Write a file in one step. On a full disk the report is all there is.

    Nothing is synced: what the disk forgets with the machine's power, no process outlives.
    """
    draft = f"{folder}/.{name}"
    try:
        with open(draft, "w") as file:  # noqa: PTH123
            file.write(text)
        os.replace(draft, f"{folder}/{name}")  # noqa: PTH105
    except OSError:
        return


def _report(line: str) -> None:
    """Tell the agent, if it still listens."""
    try:
        os.write(REPORT_FD, line.encode() + b"\n")
    except OSError:
        return


# -- private mounts ------------------------------------------------------------------------------


def enter_namespace(order: Order) -> None:
    """A mount namespace in which the ordered mounts, and nothing else, differ from the host's."""
    uid, gid = os.getuid(), os.getgid()
    is_user = order.namespace == "user"
    _check(_libc().unshare(CLONE_NEWNS | (CLONE_NEWUSER if is_user else 0)))
    if is_user:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)
    _mount("none", "/", MS_REC | MS_PRIVATE)
    for source, target, read_only in order.mounts:
        _make_place(source, target, order.stage)
        _mount(source, target, MS_BIND | MS_REC)
        if read_only:
            _mount("none", target, MS_BIND | MS_REMOUNT | MS_RDONLY | _kept_flags(target))


def _kept_flags(target: str) -> int:
    """What a mount already forbids, which nobody in a user namespace may allow again."""
    held = os.statvfs(target).f_flag
    return (held & MS_KEPT) | (MS_RELATIME if held & ST_RELATIME else 0)


def _make_place(source: str, target: str, stage: str) -> None:
    """See to it that there is something to mount on, without touching the host's folders.

    The nearest folder that exists is covered by one of our own that shows the same content, and
    the missing path is made in there.
    """
    if os.path.exists(target):  # noqa: PTH110
        return
    missing = target
    while not os.path.isdir(parent := os.path.dirname(missing)):  # noqa: PTH112, PTH120
        missing = parent
    if not _is_ours(parent, stage):
        _cover(parent, stage)
    if os.path.isdir(source):  # noqa: PTH112
        os.makedirs(target, exist_ok=True)  # noqa: PTH103
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


_covered: set[str] = set()


def _is_ours(folder: str, stage: str) -> bool:
    """Whether a folder is in one that we have covered, and not below something mounted there."""
    return folder in _covered or folder.startswith(stage)


def _cover(folder: str, stage: str) -> None:
    _mount("tmpfs", stage, 0, "tmpfs")
    for entry in sorted(os.listdir(folder)):  # noqa: PTH208
        real, shown = os.path.join(folder, entry), os.path.join(stage, entry)  # noqa: PTH118
        if os.path.islink(real):  # noqa: PTH114
            os.symlink(os.readlink(real), shown)  # noqa: PTH115, PTH211
            continue
        if os.path.isdir(real):  # noqa: PTH112
            os.mkdir(shown)  # noqa: PTH102
        else:
            os.close(os.open(shown, os.O_CREAT | os.O_WRONLY, 0o644))
        _mount(real, shown, MS_BIND | MS_REC)
    _covered.add(folder)
    if folder != "/":
        _mount(stage, folder, MS_MOVE)
        return
    os.chdir(stage)
    _mount(".", "/", MS_MOVE)
    os.chroot(".")
    os.chdir("/")


def _mount(source: str, target: str, flags: int, kind: str = "") -> None:
    names = (source.encode(), target.encode(), kind.encode() or None)
    _check(_libc().mount(*names, ctypes.c_ulong(flags), None), f"{source} at {target}")


def _name(name: str) -> None:
    """What process lists call us."""
    if LINUX:
        _libc().prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def _prctl(option: int, value: int) -> None:
    if LINUX:
        _libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0)


_loaded: list[ctypes.CDLL] = []


def _libc() -> ctypes.CDLL:
    if not _loaded:
        _loaded.append(ctypes.CDLL(None, use_errno=True))
    return _loaded[0]


def _check(result: int, what: str = "") -> None:
    if result != 0:
        number = ctypes.get_errno()
        text = os.strerror(number)
        raise OSError(number, f"{text} ({what})" if what else text)


if __name__ == "__main__":
    with socket.socket(fileno=0) as given:
        sys.exit(launch(given))
