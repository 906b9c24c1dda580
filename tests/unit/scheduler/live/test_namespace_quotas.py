"""Quotas of a namespace in the reason of a gang that lacks pods; and informers without readers."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from swell.api import codec
from swell.api.core import ResourceQuota
from swell.api.meta import Body
from swell.api.scheduling import PodGroupPhase
from swell.scheduler.live import informers as module
from swell.scheduler.live.informers import SchedulerInformers
from swell.scheduler.live.namespace_quotas import explained
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.status import GroupStatus
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage


def _quota(name: str, hard: Body, used: Body) -> ResourceQuota:
    meta = {"name": name, "namespace": NAMESPACE}
    body = {"metadata": meta, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}}
    return codec.convert(body, ResourceQuota)


FULL = _quota(
    "team",
    {"pods": "2", "requests.cpu": "10", "requests.storage": "1Gi", "services": "1"},
    {"pods": "2", "requests.cpu": "2", "requests.storage": "1Gi", "services": "1"},
)
SPARE = _quota("spare", {"pods": "9", "limits.cpu": "4"}, {"pods": "2"})


async def _reason_of(stage: Stage, name: str) -> str:
    group = await stage.read_group(name)
    return next(c.message for c in group.status.conditions if c.type == "Unschedulable")


def test_gang_without_its_pods_says_which_quota_is_used_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The API server refused the rest of its pods, which no condition of a pod could say."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        # The embedded server has no quotas, so the informer is given what it would have seen.
        quotas: dict[object, tuple[ResourceQuota, ...]] = {NAMESPACE: (FULL, SPARE)}
        informer = stage.start().informers.quotas
        monkeypatch.setattr(informer, "by_index", lambda index, value: quotas[value])
        await stage.group("a", 4)
        for number in range(2):
            await stage.pod(f"a-{number}", "a")
        await stage.gang("b", 2, cpu="50")
        await stage.sleep(10)
        text = await _reason_of(stage, "a")

        assert text.endswith("; quota team of the namespace is used up: pods 2 of 2")
        assert "quota" not in await _reason_of(stage, "b")

    on_stage(play)


def test_every_informer_has_a_reader() -> None:
    """An informer costs memory and a watch, so one that no part reads must not be there."""
    package = Path(module.__file__).parents[1]
    sources = [path.read_text() for path in package.rglob("*.py") if path != Path(module.__file__)]

    def is_read(name: str) -> bool:
        return any(f"{owner}.{name}" in text for text in sources for owner in ("informers", "seen"))

    assert [f.name for f in fields(SchedulerInformers) if not is_read(f.name)] == []


def test_quota_of_other_things_than_pods_is_left_out() -> None:
    """Of a quota only what limits pods can keep pods away."""
    refusal = Refusal(WaitReason.NOT_ENOUGH_TASKS, "lacks pods")
    status = GroupStatus(PodGroupPhase.PENDING, refusal)
    claims = _quota("claims", {"requests.storage": "1Gi"}, {"requests.storage": "1Gi"})
    cpu = _quota("cpu", {"requests.cpu": "1"}, {"requests.cpu": "1000m"})

    assert explained(status, lambda: (claims, SPARE)) is status
    found = explained(status, lambda: (claims, cpu)).refusal

    assert found is not None
    assert found.message == (
        "lacks pods; quota cpu of the namespace is used up: requests.cpu 1000m of 1"
    )
