"""Real processes, many of them: they all start, and nothing is left of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from swell.api.kinds import PODS
from swell.api.pod import Pod
from tests.e2e.node.cluster import Site, play, pod_body
from tests.e2e.node.test_restart import processes_of

N_PODS = 200


def test_two_hundred_pods_start_and_leave_nothing(tmp_path: Path) -> None:
    """All run; after deletion no process and no folder of theirs is there."""

    async def act(site: Site) -> None:
        for number in range(N_PODS):
            await site.cluster.create(PODS, pod_body(f"p{number}", "sleep", "1000"))
        pods = await pods_that(site, lambda pods: all(is_running(pod) for pod in pods))
        for pod in pods:
            await site.delete(pod.metadata.name)
        await pods_that(site, lambda pods: not pods)
        await site.until(lambda: not list((tmp_path / "pods").iterdir()))

        assert not processes_of(tmp_path)

    play(tmp_path, act)


def is_running(pod: Pod) -> bool:
    return pod.status.phase.value == "Running"


async def pods_that(site: Site, holds: Callable[[tuple[Pod, ...]], bool]) -> tuple[Pod, ...]:
    async with asyncio.timeout(60):
        while True:
            pods = (await site.cluster.list(PODS)).items
            if holds(pods):
                return pods
            await asyncio.sleep(0.05)
