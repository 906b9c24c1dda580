"""A process is known by its pid and by when it began, so that no later one is taken for it."""

from __future__ import annotations

import os
import signal

from .kernel import LINUX


def start_mark(pid: int) -> str:
    """What tells a process from a later one with its pid; empty when there is none.

    On Linux the boot and the tick it began at; elsewhere only that it exists.
    """
    try:
        if not LINUX:
            os.kill(pid, 0)
            return "alive"
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read(8)
    except (OSError, IndexError):
        return ""
    if fields[0] in {b"Z", b"X"}:
        return ""
    return f"{boot}.{fields[19].decode()}"


def signal_exactly(pid: int, mark: str, number: int) -> bool:
    """Send a signal to that very process; False when it is gone, whoever has its pid now."""
    held = -1
    try:
        if hasattr(os, "pidfd_open"):
            held = os.pidfd_open(pid)  # stays with the process, whatever becomes of the pid
        if not mark or start_mark(pid) != mark:
            return False
        if held >= 0:
            signal.pidfd_send_signal(held, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    finally:
        if held >= 0:
            os.close(held)
    return True
