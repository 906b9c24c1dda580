"""Spans of passes, and the batches in which a collector gets them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from random import Random

import pytest
from aiohttp import web

from swell.api.meta import Body, Key
from swell.runtime.clock import SystemClock
from swell.runtime.logs import ReconcilePass, reconcile_pass
from swell.runtime.metrics import Metrics
from swell.runtime.traces import PATH, HttpSpanSender, Span, Tracer
from swell.sim.loop import run
from tests.unit.runtime.world import World


@dataclass
class Collector:
    """Takes batches, or does not."""

    bodies: list[Body] = field(default_factory=list)
    error: Exception | None = None

    async def send(self, body: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.bodies.append(json.loads(body))

    def spans(self) -> list[Body]:
        return [span for body in self.bodies for span in _spans(body)]


def _spans(body: Body) -> list[Body]:
    (resource,) = body["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    found: list[Body] = scope["spans"]
    return found


def _attributes(span: Body) -> dict[str, str]:
    return {one["key"]: one["value"]["stringValue"] for one in span["attributes"]}


def test_pass_is_a_span() -> None:
    """With its times, what it was about, and the number that its log lines have."""
    collector = Collector()

    async def story() -> None:
        world = World()
        tracer = Tracer("swell-operator", collector, world.clock, world.random)
        metrics = Metrics()
        metrics.tracer = tracer
        sending = asyncio.create_task(tracer.run())
        await asyncio.sleep(2)
        token = reconcile_pass.set(ReconcilePass("toy", Key("ns", "a"), 7))
        metrics.reconciled("toy", "wrote", 0.5)
        metrics.reconciled("toy", "bug", 0.25)
        reconcile_pass.reset(token)
        await asyncio.sleep(10)
        sending.cancel()

    run(story())
    first, second = collector.spans()
    lasted = int(first["endTimeUnixNano"]) - int(first["startTimeUnixNano"])

    assert first["name"] == "reconcile toy"
    assert lasted == pytest.approx(0.5e9, abs=1000)
    assert _attributes(first) == {
        "controller": "toy",
        "result": "wrote",
        "namespace": "ns",
        "name": "a",
        "reconcileID": "toy-7",
    }
    assert (len(first["traceId"]), len(first["spanId"])) == (32, 16)
    assert first["traceId"] != second["traceId"]
    assert (first["status"], second["status"]) == ({}, {"code": 2})
    assert len(collector.bodies) == 1


def test_collector_that_is_away_costs_spans_alone() -> None:
    """What is kept for it is bounded, and sending goes on when it is back."""
    collector = Collector(error=OSError("refused"))

    async def story() -> None:
        world = World()
        tracer = Tracer("swell-operator", collector, world.clock, world.random)
        for number in range(5000):
            tracer.add(Span(f"{number}", 0.0, 1.0, ()))
        await tracer.flush()
        assert tracer.n_dropped == 5000
        collector.error = None
        await tracer.flush()
        tracer.add(Span("after", 0.0, 1.0, ()))
        await tracer.flush()

    run(story())

    assert [span["name"] for span in collector.spans()] == ["after"]


def test_batches_are_posted_as_json() -> None:
    """To the path of OTLP; a refusal, or nobody there, is an OSError."""
    taken: list[tuple[str, str, Body]] = []

    async def take(request: web.Request) -> web.Response:
        taken.append((request.path, request.content_type, await request.json()))
        return web.Response(status=503 if len(taken) > 1 else 200)

    async def story() -> None:
        app = web.Application()
        app.router.add_post("/{path:.*}", take)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        sender = HttpSpanSender(f"http://127.0.0.1:{runner.addresses[0][1]}/")
        tracer = Tracer("swell-operator", sender, SystemClock(), Random(1))
        tracer.add(Span("one", 0.0, 1.0, (("a", "b"),)))
        await tracer.flush()
        with pytest.raises(OSError, match="answered 503"):
            await sender.send(b"{}")
        await runner.cleanup()
        with pytest.raises(OSError, match="Cannot connect"):
            await sender.send(b"{}")

    asyncio.run(story())
    path, kind, body = taken[0]

    assert (path, kind) == (PATH, "application/json")
    assert [span["name"] for span in _spans(body)] == ["one"]
