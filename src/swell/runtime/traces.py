"""Traces as OpenTelemetry has them: a span for each look at a key, sent by OTLP over HTTP.

Spans are kept until the next batch is sent. A collector that is away or slow costs spans and never
a pass: the buffer is bounded, and what cannot be sent is dropped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from swell import __version__
from swell.api import codec
from swell.api.meta import Body
from swell.runtime.clock import Clock
from swell.runtime.logs import get_logger, reconcile_pass

log = get_logger(__name__)

PATH = "/v1/traces"
_BATCH_S = 5.0
_SPANS_MAX = 4096  # kept while the collector is away: about 2 MB
_FAILED = frozenset({"bug"})
_INTERNAL = 1  # SPAN_KIND_INTERNAL
_ERROR = 2  # STATUS_CODE_ERROR


class SpanSender(Protocol):
    """Sends one batch; raises OSError or TimeoutError when the collector does not take it."""

    async def send(self, body: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work: when it began and ended (wall time), and what it was about."""

    name: str
    started_at: float
    ended_at: float
    attributes: tuple[tuple[str, str], ...]
    failed: bool = False


@dataclass(slots=True)
class Tracer:
    """Keeps spans and sends them in batches."""

    service: str
    sender: SpanSender
    clock: Clock
    random: Random
    spans: deque[Span] = field(default_factory=lambda: deque(maxlen=_SPANS_MAX))
    n_dropped: int = 0
    _is_away: bool = False

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        """Keep the span of the pass that has just ended."""
        current, now = reconcile_pass.get(), self.clock.now()
        about: tuple[tuple[str, str], ...] = (("controller", controller), ("result", result))
        if current is not None:
            about += (
                ("namespace", current.key.namespace),
                ("name", current.key.name),
                ("reconcileID", f"{current.controller}-{current.number}"),
            )
        self.add(Span(f"reconcile {controller}", now - seconds, now, about, result in _FAILED))

    def worked(self, name: str, seconds: float, about: tuple[tuple[str, str], ...]) -> None:
        """Keep the span of other work that has just ended."""
        now = self.clock.now()
        self.add(Span(name, now - seconds, now, about))

    def add(self, span: Span) -> None:
        self.n_dropped += len(self.spans) == self.spans.maxlen
        self.spans.append(span)

    async def run(self) -> None:
        """Send what there is every few seconds, until cancelled."""
        while True:
            await self.clock.sleep(_BATCH_S)
            await self.flush()

    async def flush(self) -> None:
        if not self.spans:
            return
        batch = tuple(self.spans)
        self.spans.clear()
        try:
            await self.sender.send(codec.encode(self.body(batch)))
        except (OSError, TimeoutError) as error:
            self.n_dropped += len(batch)
            if not self._is_away:  # said once for each time that it goes away
                log.warning("traces not sent", why=str(error), n_dropped=self.n_dropped)
            self._is_away = True
        else:
            self._is_away = False

    def body(self, batch: Sequence[Span]) -> Body:
        """A batch as OTLP has it in JSON."""
        resource = {"service.name": self.service, "service.version": __version__}
        spans = [self._span(span) for span in batch]
        scope = {"scope": {"name": "swell", "version": __version__}, "spans": spans}
        attributes = _attributes(tuple(resource.items()))
        return {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [scope]}]}

    def _span(self, span: Span) -> Body:
        return {
            "traceId": f"{self.random.getrandbits(128):032x}",
            "spanId": f"{self.random.getrandbits(64):016x}",
            "name": span.name,
            "kind": _INTERNAL,
            "startTimeUnixNano": str(int(span.started_at * 1e9)),
            "endTimeUnixNano": str(int(span.ended_at * 1e9)),
            "attributes": _attributes(span.attributes),
            "status": {"code": _ERROR} if span.failed else {},
        }


def _attributes(pairs: Sequence[tuple[str, str]]) -> list[Body]:
    return [{"key": name, "value": {"stringValue": text}} for name, text in pairs]


@dataclass(slots=True)
class HttpSpanSender:
    """Posts batches to a collector: OTLP over HTTP, in JSON."""

    endpoint: str  # such as http://collector:4318
    timeout_s: float = 5.0

    async def send(self, body: bytes) -> None:
        from aiohttp import ClientError, ClientSession, ClientTimeout

        limit = ClientTimeout(total=self.timeout_s)
        headers = {"Content-Type": "application/json"}
        try:
            async with (
                ClientSession(timeout=limit) as session,
                session.post(
                    self.endpoint.rstrip("/") + PATH, data=body, headers=headers
                ) as answer,
            ):
                if answer.status >= 300:
                    raise OSError(f"{self.endpoint} answered {answer.status}")
        except ClientError as error:
            raise OSError(str(error)) from error
