"""A process that has loaded a framework, used nothing of it, and forks the workers.

It is started by its path, with the standard library alone. Over the socket that its first argument
names it reads a JSON line for each worker to start, and writes lines: `warm` once all is loaded,
`started` with a process id, and `ended` with a process id and an exit code.

A worker differs from a new interpreter in nothing that a script can see but the modules that are
loaded: it has its own process group, its own environment, and random numbers of its own.
"""

import builtins
import contextlib
import importlib
import importlib.machinery
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import types
from pathlib import Path
from typing import Any, cast

# This file's folder is on the path only if the interpreter puts it there.
_FOLDER = str(Path(__file__).parent)
sys.path.insert(0, _FOLDER)
from confined import die_with_parent  # type: ignore[import-not-found]  # noqa: E402

while _FOLDER in sys.path:
    sys.path.remove(_FOLDER)


def main() -> None:
    """Load, serve until the launcher is gone, and in each forked worker run the script."""
    number, parent, modules = sys.argv[1:4]
    die_with_parent(int(parent))
    with socket.socket(fileno=int(number)) as line:
        failed = preload(modules.split(",") if modules else [])
        _send(line, event="warm", failed=failed, blocked=reason_against_forking())
        with contextlib.closing(Zygote(line)) as zygote:
            request = zygote.serve()
    if request is not None:
        become(request)
        run(request["command"], is_module=request["module"])


def preload(modules: list[str]) -> list[str]:
    """Import what can be imported; return a sentence for each that cannot."""
    failed = []
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            failed.append(f"{name}: {error}")
    return failed


def reason_against_forking() -> str:
    """Why this process must not be forked; empty if it may be.

    The state of a GPU's driver does not survive a fork, and imports alone may have set it up.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA is initialised by an import"
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and getattr(bridge, "_backends", None):
        return "a backend of JAX is initialised by an import"
    return ""


class Zygote:
    """Forks workers, and tells how they ended."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._inbox = b""
        # Ends of workers wake the loop through this pair: a handler may run at any time, and
        # must not write to the line in the middle of another message.
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._line, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """Serve until the launcher closes the line. In a forked worker, return its request."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    self._woken.recv(4096)
                    self._reap()
                    continue
                part = self._received()
                if not part:
                    return None
                *requests, self._inbox = (self._inbox + part).split(b"\n")
                for request in requests:
                    asked = cast("dict[str, Any]", json.loads(request))
                    if self._fork(asked):
                        return asked

    def _received(self) -> bytes:
        """Read on; nothing comes if the launcher is gone, having read all our lines or not."""
        try:
            return self._line.recv(1 << 16)
        except ConnectionResetError:
            return b""

    def _fork(self, request: dict[str, Any]) -> bool:
        """Fork a worker; True in the worker."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            die_with_parent(parent)
            self.close()
            return True
        # Both sides set it, so that a signal to the group cannot come too early. A worker that has
        # ended already is not there for it.
        with contextlib.suppress(ProcessLookupError):
            os.setpgid(pid, pid)
        _send(self._line, event="started", local_rank=request["local_rank"], pid=pid)
        return False

    def close(self) -> None:
        """Undo all that this class has set up: at the end, and in every worker."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for one in (self._line, self._woken, self._waker):
            one.close()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            _send(self._line, event="ended", pid=pid, code=os.waitstatus_to_exitcode(status))


def _send(line: socket.socket, **message: object) -> None:
    try:
        line.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        sys.exit(1)  # the launcher is gone, and takes the workers along


def become(request: dict[str, Any]) -> None:
    """Take on the streams, variables and arguments of a worker."""
    for number, path in ((1, request["stdout"]), (2, request["stderr"])):
        if path is not None:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(file, number)
            os.close(file)
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv = list(request["command"])
    # Python seeds its own generator after a fork; numpy's was seeded by the import, once for all.
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def run(command: list[str], *, is_module: bool) -> None:
    """Run the script as the main program of this process. Errors show the script's frames only."""
    sys.excepthook = _show_error
    if is_module:
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        return
    if not sys.flags.safe_path:
        sys.path.insert(0, str(Path(command[0]).resolve().parent))
    try:
        source = Path(command[0]).read_bytes()
    except OSError as error:
        sys.stderr.write(f"swell launch: can't open file {command[0]!r}: {error.strerror}\n")
        sys.exit(2)  # as Python itself
    # As Python has it: a script that changes its folder still finds its own file.
    path = str(Path(command[0]).absolute())
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    module = types.ModuleType("__main__")
    vars(module).update(__file__=path, __builtins__=builtins, __cached__=None, __loader__=loader)
    sys.modules["__main__"] = module
    exec(compile(source, path, "exec"), vars(module))  # noqa: S102 (the user's script)


def _show_error(
    kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> None:
    while trace is not None and trace.tb_frame.f_code.co_filename in {__file__, runpy.__file__}:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    main()
