"""When a checkpoint is due, and the thread that writes it while training goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from swell.train.checkpoints.folder import CheckpointFolder
from swell.train.errors import CheckpointError
from swell.train.state.tree import PackedState, TreeCodec, copied


@dataclass(frozen=True, slots=True)
class SaveRecord:
    """The last checkpoint that is complete: its step, when and how fast it was written."""

    step: int
    time_s: float
    seconds: float


class Saver:
    """Saves at intervals. The copy is made on the training thread, the file on another one."""

    def __init__(
        self,
        folder: CheckpointFolder,
        codec: TreeCodec,
        *,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._warn = warn
        self.folder, self._codec, self._every_s, self._clock = folder, codec, every_s, clock
        self.last: SaveRecord | None = None
        self.n_bytes: int | None = None
        self._due = clock() + every_s
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None

    @property
    def is_due(self) -> bool:
        """Whether it is time for a save, and the last one is complete."""
        return self.due_in_s <= 0.0 and not self.is_writing

    @property
    def due_in_s(self) -> float:
        """Seconds until it is time for a save."""
        return self._due - self._clock()

    @property
    def is_writing(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, tree: Any, step: int, part: tuple[int, int] = (0, 1)) -> None:
        """Copy the state, and write it on another thread.

        A save that failed is no reason to stop training: the next one may succeed.
        """
        try:
            self.wait()
        except CheckpointError as error:
            self._warn(f"{error}; training goes on")
        packed = copied(self._codec.pack(tree))
        self._due = self._clock() + self._every_s
        self._thread = threading.Thread(
            target=self._write, args=(packed, step, part), name="swell-save", daemon=True
        )
        self._thread.start()

    def save(self, tree: Any, step: int, part: tuple[int, int] = (0, 1)) -> None:
        """Write the state now, and return when it is on the disk."""
        self.start(tree, step, part)
        self.wait()

    def wait(self) -> None:
        """Wait for a save that is being written; raise if it failed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise CheckpointError(f"no checkpoint in {self.folder.path}: {error}") from error

    def _write(self, packed: PackedState, step: int, part: tuple[int, int]) -> None:
        started = self._clock()
        try:
            self.folder.save(packed, step=step, part=part)
        except OSError as error:  # raised on the training thread, by `wait`
            self._error = error
            return
        self.n_bytes = packed.n_bytes
        self.last = SaveRecord(step, time.time(), self._clock() - started)
