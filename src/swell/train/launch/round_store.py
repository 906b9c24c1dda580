"""The store of one round of torchrun's agents, which nobody waits in for a member that has died.

An agent asks the round's store for ranks right after it has met the others, and catches no error of
that: it would end when the keeper of the store dies there, and wait for five minutes when another
member does. So waiting ends here when the round is over, and the agent gets ranks that it could
have had. It asks a moment later whether the group changes, and stops the workers it has started.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.distributed import Store

# How often a key is asked for: meeting takes milliseconds, and so few agents ask at a time.
_LOOK_S = 0.01
# What torch's agents say of themselves, and what the first of them answers, by number of agent.
ROLE_INFO = "torchelastic/role_info/"
ASSIGNED_RANKS = "torchelastic/assigned_ranks/"


class RoundOverError(RuntimeError):
    """The round is over, or its store is gone: what was asked for will not be said any more."""


class RoundStore:
    """A store of torch for one round. It has the methods that agents use, and delegates the rest.

    `end` tells the group that the round has failed; `is_over` says whether the group knows.
    """

    def __init__(
        self, store: Store, size: int, is_over: Callable[[], bool], end: Callable[[], None]
    ) -> None:
        self._store, self._size = store, size
        self._is_over, self._end = is_over, end
        self._is_lost = False
        # All that this agent has said, which it can read also when the store is gone.
        self._own: dict[str, bytes] = {}

    # ---- what agents ask for

    @property
    def timeout(self) -> timedelta:
        found: timedelta = self._store.timeout
        return found

    def set(self, key: str, value: str | bytes) -> None:
        self._own[key] = _encoded(value)
        self._tell(lambda: self._store.set(key, value))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        for key, value in zip(keys, values, strict=True):
            self._own[key] = _encoded(value)
        self._tell(lambda: self._store.multi_set(list(keys), list(values)))

    def get(self, key: str) -> bytes:
        """The value of a key, when somebody has said it; RoundOverError if nobody will.

        For the ranks of workers there is a value even then.
        """
        try:
            self.wait([key])
            found: bytes = self._asked(lambda: self._store.get(key))
            return found
        except RoundOverError:
            value = self._own.get(key) or self._stand_in(key)
            if value is None:
                raise
            return value

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys have values; RoundOverError if that will not be."""
        patience = self.timeout if timeout is None else timeout  # of zero seconds, too
        give_up = time.monotonic() + patience.total_seconds()
        while not self._asked(lambda: self._store.check(list(keys))):
            if time.monotonic() > give_up:
                self._end()
                raise RoundOverError(f"nobody has said {', '.join(keys)} in time")
            time.sleep(_LOOK_S)

    def __getattr__(self, name: str) -> Any:
        # All else that a store of torch can do.
        return getattr(self._store, name)

    # ---- when the round is over

    def _tell(self, ask: Callable[[], object]) -> None:
        """Say something to the others, who need it no more if the round is over."""
        try:
            self._asked(ask)
        except RoundOverError:
            return

    def _asked(self, ask: Callable[[], Any]) -> Any:
        if self._is_lost or self._is_over():
            raise RoundOverError("the round is over")
        try:
            return ask()
        except RuntimeError as error:  # all errors of torch's stores are such
            self._is_lost = True
            self._end()
            raise RoundOverError(f"the store of the round is gone: {error}") from error

    def _stand_in(self, key: str) -> bytes | None:
        """Returns what another agent might have said, if all members have as many workers."""
        own = next((v for k, v in self._own.items() if k.startswith(ROLE_INFO)), None)
        if own is None:
            return None
        if key.startswith(ROLE_INFO):
            return own
        if not key.startswith(ASSIGNED_RANKS):
            return None
        n_local = int(json.loads(own)["local_world_size"])
        first, n_workers = int(key.removeprefix(ASSIGNED_RANKS)) * n_local, self._size * n_local
        return json.dumps([first, n_workers, first, n_workers]).encode()


def _encoded(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
