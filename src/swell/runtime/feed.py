"""Hands keys to the handlers of one consumer, and mends the consumer when one of them has failed.

A handler that raises is a bug in the consumer. It must not keep the change from other consumers,
and its own consumer must not go without it until the next resync, nor go on half-changed.

    fed --- a handler raises ---> broken --- rebuilt at once, or after a back-off ---> fed
                                    ^                                 |
                                    +---------- raises again ---------+

A consumer with derived state gives a function that builds it anew from the caches; while it is
broken it is handed nothing, because the rebuild reads everything. Without one the keys whose calls
failed are handed over again. It decides nothing and reads no clock but the event loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from swell.api.backoff import Backoff
from swell.api.meta import Key
from swell.runtime.logs import get_logger
from swell.runtime.manager import Bug, contain_call

log = get_logger(__name__)

Handler = Callable[[Key], None]
# A rebuild costs as much as a start, so one that keeps failing must not be all that is done.
REBUILD: Final = Backoff(base_s=1.0, cap_s=300.0)


class FeedMeter(Protocol):
    """Counts the calls of handlers that failed."""

    def handler_failed(self, consumer: str) -> None: ...


class Feed:
    """The handlers of one consumer. Only to be fed inside a running event loop."""

    def __init__(
        self,
        consumer: str,
        rebuild: Callable[[], None] | None = None,
        *,
        meter: FeedMeter | None = None,
        backoff: Backoff = REBUILD,
    ) -> None:
        self.consumer = consumer
        # Whether what the consumer derived from the caches may be wrong.
        self.is_broken = False
        self._rebuild = rebuild
        self._meter = meter
        self._backoff = backoff
        self._failed: dict[tuple[Handler, Key], None] = {}
        self._n_failures = 0
        self._failed_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def hand_over(self, handler: Handler, key: Key) -> None:
        """Call a handler with a key. A failure is logged and mended; it is not raised."""
        if self.is_broken and self._rebuild is not None:
            return
        result = contain_call(handler, key)
        if not isinstance(result, Bug):
            return
        self._note(f"handler of {key}", result)
        self._failed[handler, key] = None
        self.is_broken = True
        # The first failure is mended at once, so that no decision sees the consumer half-changed.
        if self._n_failures == 1 and self._rebuild is not None:
            self.mend()
        else:
            self.mend_later()

    def mend_later(self) -> None:
        """Mend the consumer after a back-off, also if it is not broken: each time a longer one."""
        if self._timer is None:
            if not self.is_broken:  # a failure has been counted already
                self._count()
            delay_s = self._backoff.full_s(self._n_failures)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.mend)

    def mend(self) -> None:
        """Rebuild the consumer, or hand over again the keys whose calls failed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        failed, self._failed = self._failed, {}
        self.is_broken = False
        if self._rebuild is None:
            for handler, key in failed:
                self.hand_over(handler, key)
            return
        result = contain_call(self._rebuild)
        if isinstance(result, Bug):
            self._note("rebuild", result)
            self.is_broken = True
            self.mend_later()

    def _count(self) -> None:
        now = asyncio.get_running_loop().time()
        # After a long time without a failure the next one is a first one again. Twice the longest
        # back-off, because that may pass between two failures.
        if now - self._failed_at > 2 * self._backoff.cap_s:
            self._n_failures = 0
        self._failed_at = now
        self._n_failures += 1

    def _note(self, what: str, bug: Bug) -> None:
        self._count()
        log.error(
            "consumer failed", consumer=self.consumer, at=what, failures=self._n_failures,
            trace=bug.trace,
        )  # fmt: skip
        if self._meter is not None:
            self._meter.handler_failed(self.consumer)
