"""What measures components under test: a bug the runtime contains still ends the run."""

from __future__ import annotations


class BugMeter:
    """Raises where a controller says that a pass of it was a bug: the process ends by itself."""

    def passed(self, controller: str, result: str, seconds: float) -> None:
        del seconds
        if result == "bug":
            raise AssertionError(f"bug in a pass of {controller}")

    def queued(self, controller: str, n_keys: int) -> None:
        pass
