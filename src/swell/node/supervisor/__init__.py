"""The parent of one container's process. It outlives the agent that had it started.

It reads an order from its folder, starts the process in a session (and, where ordered, a mount
namespace) of its own, copies its output to a rotated log, and leaves on disk who it is, when the
process began and how it ended. SIGTERM is passed on to the process group; SIGUSR1 kills it. When
the process ends, so does everything it has started. In reading order:

- `protocol`: the order, and the notes that supervisors and agents leave for each other;
- `identity`: a process, told from later ones that have its pid;
- `launching`: the warm process that forks supervisors; `supervising`: what one does;
- `output`: the log; `mounts`: a view of the file system of its own; `kernel`: calls Python lacks.

Standard library only, and imported relatively: a launcher has to start without the rest of Swell,
under another name.
"""

from .identity import signal_exactly, start_mark
from .kernel import LINUX
from .output import LOG_FILES_MAX
from .protocol import EXIT, IDENTITY, LAUNCHER_NAME, ORDER, STARTED, SUPERVISOR_NAME, Order

__all__ = [
    "EXIT",
    "IDENTITY",
    "LAUNCHER_NAME",
    "LINUX",
    "LOG_FILES_MAX",
    "ORDER",
    "STARTED",
    "SUPERVISOR_NAME",
    "Order",
    "signal_exactly",
    "start_mark",
]
