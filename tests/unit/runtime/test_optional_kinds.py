"""Informers of kinds that a cluster may lack, or that a process may not read."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from swell.runtime.reflector import GATED_RECHECK_S, UNSERVED_S_MAX
from tests.unit.runtime.test_informer import play
from tests.unit.runtime.world import World, failure, started, until


def test_optional_kind_that_is_not_served_is_empty_and_not_in_the_way() -> None:
    """A cluster without the kind counts as one without objects of it, until it has the kind."""

    async def story(world: World) -> None:
        line = world.line()
        line.fail_before["list"] = [failure(404, "NotFound")] * 3
        toys = world.toys(line, is_optional=True)
        await world.add_toy("a")
        await started(toys)
        assert not toys.is_served
        assert len(toys) == 0
        assert toys.problem() == ""
        await until(lambda: len(toys) == 1)

        assert toys.is_served

    play(story)


def test_kind_that_may_not_be_read_is_empty_and_not_in_the_way() -> None:
    """It is said once, looked for rarely, and read as soon as it may be."""

    async def story(world: World) -> None:
        line = world.line()
        line.fail_before["list"] = [failure(403, "Forbidden")] * 10_000
        toys = world.toys(line, is_optional=True, may_be_forbidden=True, recheck_s=GATED_RECHECK_S)
        await world.add_toy("a")
        with capture_logs() as logs:
            await started(toys)
            await asyncio.sleep(3600)
        assert len(toys) == 0
        assert toys.problem() == ""
        assert len(line.calls) < 11 + 3600 / (GATED_RECHECK_S / 2)
        said = [one for one in logs if one["event"] == "watch interrupted"]
        assert [one["log_level"] for one in said] == ["warning"]
        assert "counts as empty until it may be read" in said[0]["error"]
        line.fail_before["list"] = []
        await until(lambda: len(toys) == 1, within_s=2 * GATED_RECHECK_S)

        assert toys.is_served

    play(story)


def test_kind_that_may_not_be_read_is_told_from_one_that_is_not_served() -> None:
    """Other errors in between change nothing; whoever depends on the kind hears of each change."""

    async def story(world: World) -> None:
        line = world.line()
        forbidden, broken = failure(403, "Forbidden"), failure(500, "InternalError")
        line.fail_before["list"] = [forbidden, broken, forbidden, failure(404, "NotFound"), broken]
        toys = world.toys(line, is_optional=True, may_be_forbidden=True)
        heard: list[bool] = []
        toys.on_access_changed.append(lambda: heard.append(toys.is_forbidden))
        with capture_logs() as logs:
            await started(toys)
            await until(lambda: toys.is_served)

        assert heard == [True, False]
        errors = [one["error"] for one in logs if one["event"] == "watch interrupted"]
        assert ["does not have this kind" in error for error in errors] == [
            *[False, False, False, True]
        ]

    play(story)


def test_kind_that_is_needed_is_not_empty_where_it_may_not_be_read() -> None:
    """An optional kind is one that the cluster may lack, not one that may be overlooked."""

    async def story(world: World) -> None:
        line = world.line()
        line.fail_before["list"] = [failure(403, "Forbidden")] * 10_000
        toys = world.toys(line, is_optional=True)
        run = asyncio.get_running_loop().create_task(toys.run())
        await asyncio.sleep(600)
        assert not toys.synced
        assert "not listed yet: ForbiddenError" in toys.problem()
        run.cancel()

    play(story)


def test_kind_behind_a_gate_is_looked_for_rarely() -> None:
    """An hour without it takes a look every few minutes, not every few seconds."""

    async def story(world: World) -> None:
        calls: dict[float, int] = {}
        for recheck_s in (UNSERVED_S_MAX, GATED_RECHECK_S):
            line = world.line()
            line.fail_before["list"] = [failure(404, "NotFound")] * 10_000
            await started(world.toys(line, is_optional=True, recheck_s=recheck_s))
            await asyncio.sleep(3600)
            calls[recheck_s] = len(line.calls)

        assert calls[UNSERVED_S_MAX] > 3600 / UNSERVED_S_MAX
        # While the pauses double there are about eleven, then one in two and a half minutes.
        assert calls[GATED_RECHECK_S] < 11 + 3600 / (GATED_RECHECK_S / 2)

    play(story)
