"""Pods and runs for tests of decisions."""

from __future__ import annotations

from swell.api.codec import convert
from swell.api.meta import Body
from swell.node.pods import BoundPod
from swell.node.runs import Exited, Run, Running, Waiting

NOW = 1_800_000_000.0


def pod(
    *containers: str, inits: tuple[str, ...] = (), metadata: Body | None = None, **spec: object
) -> BoundPod:
    """A pod with containers of these names; init containers ending in + are sidecars."""
    body: Body = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u", **(metadata or {})},
        "spec": {
            "nodeName": "node",
            "restartPolicy": "Never",
            "containers": [{"name": name} for name in containers or ("main",)],
            "initContainers": [init(name) for name in inits],
            **spec,
        },
    }
    return convert(body, BoundPod)


def init(name: str) -> Body:
    return {"name": name.rstrip("+"), **({"restartPolicy": "Always"} if "+" in name else {})}


def running(attempt: int = 0, *, since: float = NOW - 100, **more: object) -> Run:
    return Run(attempt, Running(since, **more))  # type: ignore[arg-type]


def exited(code: int = 0, attempt: int = 0, *, ago_s: float = 0.0, ran_s: float = 1.0) -> Run:
    return Run(attempt, Exited(code, NOW - ago_s - ran_s, NOW - ago_s))


def waiting(reason: str = "ContainerCreating", retry_at: float | None = None) -> Run:
    return Run(0, Waiting(reason, "", retry_at))
