"""An end of training at a step that all workers agree on, after SIGTERM to any of them.

Workers of one group are at most one step apart, since each step waits for all gradients. The first
that is asked to leave names the step after its own, in the store that all of them share: no worker
can be done with that step before the name is there.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any, Protocol

LEAVER_EXIT = 128 + signal.SIGTERM
_KEY = "swell/leave-after"


class StepStore(Protocol):
    """The two methods of torch's store that are needed."""

    def check(self, keys: list[str]) -> bool: ...

    def compare_set(self, key: str, expected: str, desired: str) -> bytes: ...


class AgreedDeparture:
    """Tells at the end of each step whether it was the last one."""

    def __init__(self, store: StepStore | None = None) -> None:
        self._store = store
        self._is_asked = False
        self._earlier: Any = None

    def catch_sigterm(self, *, keeps_earlier: bool = True) -> None:
        """Note SIGTERM from now on, in place of ending by it. Only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            earlier = signal.signal(signal.SIGTERM, self._asked)
            self._earlier = earlier if keeps_earlier else None

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self._is_asked = True
        if callable(self._earlier):
            self._earlier(number, frame)

    def is_last(self, step: int) -> bool:
        """Whether the step that has just ended is the last one of this process."""
        store = self._store if self._store is not None else default_store()
        if store is None:
            return self._is_asked
        if self._is_asked:
            store.compare_set(_KEY, "", str(step + 1))
        if not store.check([_KEY]):
            return False
        # A value that is there is not replaced, and is the answer.
        return step >= int(store.compare_set(_KEY, "", str(step + 1)))

    def leave(self) -> None:
        """End this process as one that leaves: 0 would say that all is trained."""
        sys.exit(LEAVER_EXIT)


def default_store() -> StepStore | None:
    """The store of torch's default group; None in a process that has none."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized() or distributed.get_world_size() < 2:
        return None
    store: StepStore = distributed.distributed_c10d._get_default_store()  # noqa: SLF001 (there is no public way)
    return store
