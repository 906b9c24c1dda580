"""Reports that pods send by themselves: whose they are, how many are kept, and how they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import cast

import pytest

from swell.api import injection
from swell.api.codec import encode
from swell.api.meta import Body, Key, Status, Uid
from swell.api.resource import Resource
from swell.operator.framework.report_inbox import PACE_S, ReportInbox
from swell.operator.framework.report_puller import ReportPuller
from swell.operator.framework.reports import NoReportError, ReportAnswer, ReportSource, ReportTarget
from swell.operator.framework.training import TrainingParts, add_training_parts
from swell.runtime.cluster import Cluster
from swell.runtime.errors import ServerError
from swell.runtime.queue import WorkQueue
from swell.runtime.reviews import ReviewedPod
from swell.sim.loop import VirtualClock, run
from swell.train.bus.shell.sending import ReportSender
from tests.unit.runtime.test_reviews import HandClock, bearer

POD = ReviewedPod("team", "fit-trainer-0", "u0")
REPORT = encode({"generation": 1, "epoch": 1, "size": 2, "step": 7})


@dataclass
class PodReviewer:
    """An API server that knows the token of a pod, that of an account, and one for others."""

    n_asked: int = 0
    is_away: bool = False

    async def create(self, _: Resource[Body], body: Body) -> Body:
        self.n_asked += 1
        if self.is_away:
            raise ServerError(Status(code=503))
        token, audiences = body["spec"]["token"], body["spec"]["audiences"]
        user: Body = {"username": "system:serviceaccount:team:default"}
        if token == "pod":
            prefix = "authentication.kubernetes.io/pod-"
            user["extra"] = {f"{prefix}name": [POD.name], f"{prefix}uid": [POD.uid]}
        is_known = token in {"pod", "account"} and audiences == ["swell"]
        found = {"authenticated": is_known, "user": user}
        return {"status": {**found, "audiences": audiences if is_known else []}}


@dataclass
class Kept:
    """An operator that keeps the reports of one pod."""

    reports: list[bytes] = field(default_factory=list)

    def take(self, pod: ReviewedPod, raw: bytes) -> bool:
        self.reports += [raw] if pod == POD and raw == REPORT else []
        return pod == POD and raw == REPORT


def play(story: Callable[[ReportInbox, PodReviewer, HandClock], Awaitable[None]]) -> None:
    async def main() -> None:
        reviewer, clock = PodReviewer(), HandClock()
        await story(ReportInbox(cast(Cluster, reviewer), clock), reviewer, clock)

    asyncio.run(main())


def test_report_of_a_pod_is_kept_by_the_operator_that_leads() -> None:
    async def story(inbox: ReportInbox, reviewer: PodReviewer, clock: HandClock) -> None:
        kept = Kept()
        assert await inbox.take(bearer("pod"), REPORT) == 503
        with inbox.open_to(lambda *_: False), inbox.open_to(kept.take):
            assert await inbox.take(bearer("pod"), REPORT) == 200
            assert await inbox.take(bearer("pod"), REPORT) == 429
            clock.time += PACE_S
            assert await inbox.take(bearer("pod"), b"other") == 404
        assert await inbox.take(bearer("pod"), REPORT) == 503
        assert kept.reports == [REPORT]
        assert reviewer.n_asked == 1

    play(story)


@pytest.mark.parametrize("headers", [{}, bearer(""), bearer("account"), bearer("guessed")])
def test_nobody_but_a_pod_is_heard(headers: dict[str, str]) -> None:
    async def story(inbox: ReportInbox, _: PodReviewer, __: HandClock) -> None:
        kept = Kept()
        with inbox.open_to(kept.take):
            assert await inbox.take(headers, REPORT) == 401
        assert kept.reports == []

    play(story)


def test_server_that_cannot_be_asked_is_asked_again() -> None:
    async def story(inbox: ReportInbox, reviewer: PodReviewer, _: HandClock) -> None:
        reviewer.is_away = True
        with inbox.open_to(Kept().take):
            assert await inbox.take(bearer("pod"), REPORT) == 503
            reviewer.is_away = False
            assert await inbox.take(bearer("pod"), REPORT) == 200

    play(story)


def test_token_is_reviewed_again_after_a_minute() -> None:
    async def story(inbox: ReportInbox, reviewer: PodReviewer, clock: HandClock) -> None:
        with inbox.open_to(Kept().take):
            await inbox.take(bearer("pod"), REPORT)
            clock.time += 61
            await inbox.take(bearer("pod"), REPORT)
        assert reviewer.n_asked == 2

    play(story)


def test_library_sends_to_the_endpoint(tmp_path: Path) -> None:
    """Over HTTP, with the token that is in the file at that time."""
    token = tmp_path / "token"
    token.write_text("guessed\n")

    async def story(inbox: ReportInbox, _: PodReviewer, clock: HandClock) -> None:
        kept = Kept()
        serving = asyncio.create_task(inbox.run())
        await inbox.serving.wait()
        sender = ReportSender(f"http://127.0.0.1:{inbox.port}", token, pace_s=0.01)
        with inbox.open_to(kept.take):
            sender.offer(b"old")
            token.write_text("pod\n")
            async with asyncio.timeout(60):
                while not kept.reports:
                    sender.offer(REPORT)
                    clock.time += PACE_S
                    await asyncio.sleep(0.02)
        sender.close()
        await asyncio.to_thread(sender.join, 30.0)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    play(story)


def test_sent_report_is_kept_if_its_pod_is_the_jobs() -> None:
    key, uid = Key("team", "fit"), Uid("job")

    async def unreachable(*_: object) -> ReportAnswer:
        raise NoReportError("a policy forbids it")

    async def main() -> None:
        clock = VirtualClock()
        woken: list[Key] = []
        source = ReportSource("trainer", 1, "10.0.0.1", uid="u1")
        target = ReportTarget(uid, "t", 1, (source,))
        puller = ReportPuller(
            lambda one: target if one == key else None,
            unreachable,
            WorkQueue(clock=clock, random=Random(1)),
            clock,
            woken.append,
        )
        assert not puller.take(key, Uid("u0"), REPORT)
        assert not puller.take(Key("team", "other"), Uid("u1"), REPORT)
        assert not puller.take(key, Uid("u1"), b"no report")
        assert puller.take(key, Uid("u1"), REPORT)
        assert puller.take(key, Uid("u1"), REPORT)
        assert woken == [key]
        held = puller.received(key, uid)
        assert held is not None
        assert (held.report.step, held.index) == (7, 1)
        puller.stop()

    run(main())


def test_pods_get_a_token_only_where_reports_are_sent() -> None:
    asked: Body = {"containers": [{"name": "aitj-main"}]}
    told: Body = {"containers": [{"name": "aitj-main"}]}
    add_training_parts(asked, TrainingParts("m", "s", 1), ())
    add_training_parts(told, TrainingParts("m", "s", 1, "http://operator"), ())
    names = {one["name"] for one in told["containers"][0]["env"]}

    assert "swell-token" not in [one["name"] for one in asked["volumes"]]
    projected = next(one for one in told["volumes"] if one["name"] == "swell-token")["projected"]
    assert projected["sources"][0]["serviceAccountToken"]["audience"] == injection.REPORT_AUDIENCE
    assert {injection.REPORT_URL_VARIABLE, injection.REPORT_TOKEN_FILE_VARIABLE} <= names
