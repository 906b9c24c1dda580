"""Binds a process to the life of its parent; as a program, it becomes its arguments then.

The kernel kills the process when its parent ends, however that ends: no worker outlives its
launcher. The bond survives `exec`, but not `fork`.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
# Exit codes of a shell for a program that cannot be run, or is not there.
_CANNOT_RUN = 126
_NOT_FOUND = 127


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; end at once if it has ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def main() -> None:
    """Become the program of the arguments: the parent's process id comes first."""
    parent, *command = sys.argv[1:]
    die_with_parent(int(parent))
    try:
        os.execvp(command[0], command)  # noqa: S606 (the user's own program)
    except OSError as error:
        sys.stderr.write(f"swell launch: {command[0]}: {error.strerror}\n")
        sys.exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN)


if __name__ == "__main__":
    main()
