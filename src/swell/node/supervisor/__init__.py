"""The supervisor: the parent of one container's process, which outlives the agent that started it.

It reads a spec file from the folder of its run, starts the process in a session (and, if asked, a
mount namespace) of its own, copies the output to a rotated log, and writes files that say which
process it is, when the container's process started and how it ended. SIGTERM is passed on to the
process group; SIGUSR1 kills it. When the process ends, everything it has started is killed, also
what runs in other sessions.

In reading order:

- `launching`: the warm process that forks supervisors.
- `supervising`: the supervisor itself, with its states.
- `protocol`: the spec, and the files and lines by which supervisor and agent communicate.
- `mounts`: a container's own view of the file system.
- `output`: the rotated log and its index of times.
- `processes`: everything that a process has started, and its end.
- `kernel`: Linux calls that Python has no names for, and the identity of a process.

It uses the standard library only, and relative imports: a launcher has to start without the rest
of Swell, and imports this package under another name. For the same reason it does without pathlib,
which would be most of what a launcher loads.
"""

from .kernel import LINUX, signal_exactly, start_mark
from .output import INDEX as LOG_INDEX
from .output import LOG_FILES_MAX
from .processes import (
    ProcessRow,
    children_by_parent,
    descendants,
    kill_members,
    members,
    process_table,
    send_all,
)
from .protocol import (
    EXIT_FILE,
    IDENTITY_FILE,
    LAUNCHER_NAME,
    SPEC_FILE,
    STARTED_FILE,
    SUPERVISOR_NAME,
    RunSpec,
)

__all__ = [
    "EXIT_FILE",
    "IDENTITY_FILE",
    "LAUNCHER_NAME",
    "LINUX",
    "LOG_FILES_MAX",
    "LOG_INDEX",
    "SPEC_FILE",
    "STARTED_FILE",
    "SUPERVISOR_NAME",
    "ProcessRow",
    "RunSpec",
    "children_by_parent",
    "descendants",
    "kill_members",
    "members",
    "process_table",
    "send_all",
    "signal_exactly",
    "start_mark",
]
