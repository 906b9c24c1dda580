"""What happened in a run: a digest to compare runs by, and on request the story to read."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from swell.cluster.embedded.storage import Commit
from swell.sim.plan import Fault


class Trace:
    """Takes every commit and every call, in order, with its time."""

    def __init__(self, monotonic: Callable[[], float], *, keep: bool = False) -> None:
        self._monotonic = monotonic
        self._digest = sha256()
        self._keep = keep
        self.story: list[str] = []

    def on_commit(self, commit: Commit) -> None:
        state = commit.after or commit.before
        self._note(
            f"commit {commit.version} {commit.actor} {commit.verb} {commit.collection}"
            f" {commit.key} {state.uid if state else ''}"
        )

    def on_call(self, _actor: str, site: str) -> None:
        self._note(f"call {site}")

    def on_fault(self, fault: Fault) -> None:
        self._note(f"fault {fault}")

    def note(self, text: str) -> None:
        """Anything else worth telling; it counts as part of the run."""
        self._note(text)

    def tell(self, text: str) -> None:
        """Something for readers only."""
        if self._keep:
            self.story.append(f"{self._monotonic():10.3f}  log {text}")

    def digest(self) -> str:
        return self._digest.hexdigest()[:16]

    def _note(self, text: str) -> None:
        line = f"{self._monotonic():10.3f}  {text}"
        self._digest.update(line.encode())
        if self._keep:
            self.story.append(line)
