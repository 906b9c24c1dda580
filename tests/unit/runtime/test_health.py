"""Named checks decide what /livez and /readyz answer, and failures say why."""

from __future__ import annotations

import asyncio

import aiohttp

from swell.runtime.health import Endpoints, HealthAnswer, HealthChecks
from swell.runtime.metrics import Metrics


def test_health_answers_as_kubernetes_components_do() -> None:
    """Short when all is well, every check by name when asked or when something is wrong."""
    health = HealthChecks(live={"loop": lambda: ""}, ready={"caches": lambda: ""})

    assert health.livez() == HealthAnswer(200, "ok")
    assert health.readyz(verbose=True) == HealthAnswer(
        200, "[+]loop ok\n[+]caches ok\nreadyz check passed\n"
    )
    health.ready["caches"] = lambda: "pods not listed"
    assert health.livez().status == 200
    assert health.readyz() == HealthAnswer(
        503, "[+]loop ok\n[-]caches failed: pods not listed\nreadyz check failed\n"
    )


def test_process_that_does_not_live_is_not_ready() -> None:
    """What only a restart can help is not to be relied on meanwhile."""
    health = HealthChecks(live={"loop": lambda: "stuck"})

    assert health.livez().status == health.readyz().status == 503


def test_check_that_raises_has_failed() -> None:
    """A broken check is no reason for the endpoint to break."""

    def broken() -> str:
        raise ZeroDivisionError

    assert "ZeroDivisionError" in HealthChecks(live={"broken": broken}).livez().text


def test_endpoints_serve_health_and_metrics() -> None:
    """What a kubelet and Prometheus ask for, over HTTP on loopback."""

    async def main() -> dict[str, tuple[int, str]]:
        metrics = Metrics()
        metrics.reconciled("toy", "wrote", 0.02)
        metrics.queued("toy", 3)
        metrics.wrote("pods", "CreateObject", "done")
        metrics.set_leading(True)
        health = HealthChecks(ready={"caches": lambda: "no"})
        endpoints = Endpoints(health, metrics, port=0)
        task = asyncio.create_task(endpoints.run())
        await asyncio.wait_for(endpoints.serving.wait(), 10)
        answers = {}
        async with aiohttp.ClientSession(f"http://127.0.0.1:{endpoints.port}") as session:
            for path in ("/livez", "/healthz", "/readyz", "/livez?verbose", "/metrics", "/other"):
                async with session.get(path) as response:
                    answers[path] = (response.status, await response.text())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return answers

    answers = asyncio.run(main())

    assert answers["/livez"] == answers["/healthz"] == (200, "ok")
    assert answers["/livez?verbose"] == (200, "livez check passed\n")
    assert answers["/readyz"][0] == 503
    assert answers["/other"][0] == 404
    status, text = answers["/metrics"]
    assert status == 200
    for line in (
        'swell_controller_passes_total{controller="toy",result="wrote"} 1.0',
        'swell_controller_pass_seconds_bucket{controller="toy",le="0.05"} 1.0',
        'swell_controller_queued_keys{controller="toy"} 3.0',
        'swell_writes_total{action="CreateObject",resource="pods",result="done"} 1.0',
        "swell_leader 1.0",
    ):
        assert line in text
