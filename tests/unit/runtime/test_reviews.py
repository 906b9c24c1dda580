"""Who may read metrics is the API server's decision, and it is asked no more than needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from swell.api.meta import Body, Status
from swell.api.resource import Resource
from swell.runtime.cluster import Cluster
from swell.runtime.errors import ServerError
from swell.runtime.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS, PathAccess

PATH = "/metrics"


@dataclass
class Reviewer:
    """An API server that knows two tokens, and one user with the right to get the path."""

    asked: list[str] = field(default_factory=list)
    is_away: bool = False

    async def create(self, resource: Resource[Body], body: Body) -> Body:
        self.asked.append(resource.kind)
        if self.is_away:
            raise ServerError(Status(code=503))
        spec = body["spec"]
        if resource == TOKEN_REVIEWS:
            users = {"reads": "prometheus", "other": "somebody"}
            name = users.get(spec["token"])
            return {"status": {"authenticated": name is not None, "user": {"username": name}}}
        assert resource == ACCESS_REVIEWS
        assert spec["nonResourceAttributes"] == {"path": PATH, "verb": "get"}
        return {"status": {"allowed": spec["user"] == "prometheus"}}


class HandClock:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, delay_s: float) -> None:
        self.time += delay_s


def play(story: Callable[[PathAccess, Reviewer, HandClock], object]) -> None:
    async def main() -> None:
        reviewer, clock = Reviewer(), HandClock()
        await story(PathAccess(cast(Cluster, reviewer), clock, PATH), reviewer, clock)  # type: ignore[misc]

    asyncio.run(main())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_only_a_user_with_the_right_is_let_in() -> None:
    async def story(access: PathAccess, reviewer: Reviewer, _: HandClock) -> None:
        assert await access.status(bearer("reads")) == 200
        assert await access.status(bearer("other")) == 403
        assert await access.status(bearer("guess")) == 401
        n_asked = len(reviewer.asked)
        for headers in ({}, bearer(" "), {"Authorization": "Basic reads"}):
            assert await access.status(headers) == 401
        assert len(reviewer.asked) == n_asked

    play(story)


def test_answers_are_kept_for_a_minute() -> None:
    """A scrape costs no review; a token that was revoked is refused a minute later."""

    async def story(access: PathAccess, reviewer: Reviewer, clock: HandClock) -> None:
        for _ in range(3):
            assert await access.status(bearer("reads")) == 200
        assert reviewer.asked == ["TokenReview", "SubjectAccessReview"]
        clock.time += 61
        assert await access.status(bearer("reads")) == 200
        assert len(reviewer.asked) == 4

    play(story)


def test_guessed_tokens_fill_no_memory() -> None:
    async def story(access: PathAccess, _: Reviewer, __: HandClock) -> None:
        for number in range(1000):
            assert await access.status(bearer(f"guess-{number}")) == 401
        assert len(access._answers) <= 256

    play(story)


def test_server_that_cannot_be_asked_lets_nobody_in() -> None:
    """The failure is not remembered: the next request asks again."""

    async def story(access: PathAccess, reviewer: Reviewer, _: HandClock) -> None:
        reviewer.is_away = True
        assert await access.status(bearer("reads")) == 503
        reviewer.is_away = False
        assert await access.status(bearer("reads")) == 200

    play(story)
