"""The user's own functions at changes of the group, and what they are told."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

OnChange = Callable[[int, int], None]
OnRelease = Callable[[str, str | None], None]


@dataclass(slots=True)
class TrainHooks:
    """Functions to be called with sizes, and with the reason and the deadline of a departure."""

    # The file in which the operator says why this member has to leave, and until when.
    release_file: Path | None = None
    on_change: list[OnChange] = field(default_factory=list)
    on_release: list[OnRelease] = field(default_factory=list)
    _is_release_said: bool = False

    def say_change(self, old_size: int, new_size: int) -> None:
        """Tell of another group."""
        for hook in self.on_change:
            hook(old_size, new_size)

    def say_release(self) -> None:
        """Tell, once, that this member was asked to leave."""
        if self._is_release_said:
            return
        self._is_release_said = True
        reason, deadline = "terminated", None
        if self.release_file is not None:
            # The file may be missing, empty, or half written: the signal alone is enough.
            with contextlib.suppress(OSError, ValueError):
                said = json.loads(self.release_file.read_text() or "{}")
                reason, deadline = said.get("reason", reason), said.get("deadline")
        for hook in self.on_release:
            hook(reason, deadline)
