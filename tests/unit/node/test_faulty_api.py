"""Hollow nodes on a server that fails: every write is lost, or its answer is, and all ends well."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.cluster.embedded.client import InProcessCluster
from swell.runtime.errors import OutcomeUnknownError, UnreachableError
from tests.unit.node import hollow_world
from tests.unit.node.hollow_world import NAMESPACE, Scene, play

WRITES = frozenset({"create", "patch", "delete"})


class Unreliable:
    """A cluster where each write fails the first two times, before or after it is done."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self._cluster = cluster
        self._n_tries: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._cluster, name)
        if name not in WRITES:
            return call

        async def write(*args: Any, **more: Any) -> Any:
            what = f"{name} {args[0]} {args[1] if name != 'create' else args[1]['metadata']}"
            n_tries = self._n_tries[what] = self._n_tries.get(what, 0) + 1
            if n_tries % 3 == 1:
                raise UnreachableError("lost on its way")
            answer = await call(*args, **more)
            if n_tries % 3 == 2:
                raise OutcomeUnknownError("no answer came")
            return answer

        return write


def test_every_write_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes get ready, pods run, end and go, each with the end it should have."""
    real = InProcessCluster

    def connected(api: Any, actor: str) -> Any:
        cluster = real(api, actor)
        return Unreliable(cluster) if actor == hollow_world.AGENT else cluster

    monkeypatch.setattr(hollow_world, "InProcessCluster", connected)

    async def act(scene: Scene) -> None:
        await asyncio.sleep(30)
        await scene.pod("short", duration="20", exit_code="3")
        await scene.pod("long")
        await asyncio.sleep(120)
        short, long = await scene.get("short"), await scene.get("long")
        await scene.user.delete(PODS, Key(NAMESPACE, "long"))
        await asyncio.sleep(60)

        terminated = short.status.container_statuses[0].state.terminated
        assert terminated is not None
        assert terminated.exit_code == 3
        assert long.status.phase.value == "Running"
        assert not await scene.exists("long")

    play(act)
