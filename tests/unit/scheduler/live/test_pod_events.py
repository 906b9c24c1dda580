"""Events on pods about their binding, and the pace at which they are written."""

from __future__ import annotations

from swell.runtime.errors import OutcomeUnknownError
from tests.unit.runtime.world import failure
from tests.unit.scheduler.live.stage import Stage, on_stage


def test_bound_pod_has_a_scheduled_event() -> None:
    """It names the pod and its node, as kube-scheduler's does."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.gang("a", 2)
        await stage.sleep(5)
        events = await stage.events()

        text = "Successfully assigned ns/a-{} to node-0"
        for number in range(2):
            assert (f"a-{number}", "Scheduled", text.format(number)) in events

    on_stage(play)


def test_failed_binding_has_an_event_with_the_reason() -> None:
    """The pod was read and has no node: the event says why, and the next attempt has its own."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.sleep(2)
        stage.lines[-1].fail_before["create"] = [failure(500)]
        await stage.pod("a")
        await stage.sleep(20)
        reasons = {reason: text for name, reason, text in await stage.events() if name == "a"}

        assert set(reasons) == {"FailedScheduling", "Scheduled"}
        assert (
            "binding to node node-0 failed, it will be tried again: "
            in (reasons["FailedScheduling"])
        )

    on_stage(play)


def test_binding_that_was_done_has_no_event_of_a_failure() -> None:
    """Its answer was lost; the pod is read before anything is said about it."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.sleep(2)
        stage.lines[-1].fail_after["create"] = [OutcomeUnknownError("lost")]
        await stage.pod("a")
        await stage.sleep(20)

        assert [reason for name, reason, _ in await stage.events() if name == "a"] == ["Scheduled"]

    on_stage(play)


def test_events_of_a_burst_delay_neither_bindings_nor_other_events() -> None:
    """While events are written at their pace, all pods are bound and a waiting gang says why."""

    async def play(stage: Stage) -> None:
        await stage.nodes(10, cpu="40")
        stage.start()
        await stage.sleep(2)
        for number in range(20):
            await stage.gang(f"g{number}", 20)
        await stage.gang("large", 2, cpu="50")
        await stage.sleep(5)
        events = await stage.events()
        n_scheduled = sum(reason == "Scheduled" for _, reason, _ in events)

        assert len(await stage.where()) == 400
        assert 0 < n_scheduled <= 7 * 20 + 1
        assert "large" in {name for name, reason, _ in events if reason == "Unschedulable"}

    on_stage(play)
