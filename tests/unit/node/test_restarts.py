"""Which containers are started, restarted and stopped, and when."""

from __future__ import annotations

import pytest

from swell.node.restarts import StartContainer, StopContainer, backoff_until, next_step
from swell.node.runs import Exited, Run
from tests.unit.node.builders import NOW, exited, pod, running, waiting


def started(names: tuple[str, ...]) -> tuple[StartContainer, ...]:
    return tuple(StartContainer(name, 0) for name in names)


def test_containers_start_together() -> None:
    """Without init containers everything starts at once."""
    assert next_step(pod("a", "b"), {}, NOW).actions == started(("a", "b"))


def test_init_containers_start_one_by_one() -> None:
    """The next begins when the one before has succeeded, the others after the last."""
    spec = pod("m", inits=("i", "j"))

    assert next_step(spec, {}, NOW).actions == started(("i",))
    assert next_step(spec, {"i": running()}, NOW).actions == ()
    assert next_step(spec, {"i": exited()}, NOW).actions == started(("j",))
    assert next_step(spec, {"i": exited(), "j": exited()}, NOW).actions == started(("m",))


def test_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    """Nothing else is started."""
    step = next_step(pod("m", inits=("i",)), {"i": exited(1)}, NOW)

    assert (step.is_finished, step.has_failed, step.is_initialized) == (True, True, False)
    assert step.actions == ()


def test_failed_init_container_comes_again_otherwise() -> None:
    """Also under Always, where containers that succeed come again but init containers do not."""
    spec = pod("m", inits=("i",), restartPolicy="Always")

    assert next_step(spec, {"i": exited(1)}, NOW).actions == (StartContainer("i", 1),)
    assert next_step(spec, {"i": exited(0)}, NOW).actions == started(("m",))


def test_sidecar_has_only_to_start() -> None:
    """The next begins beside it; it is stopped when the containers have ended."""
    spec = pod("m", inits=("s+",))

    assert next_step(spec, {"s": running(is_started=False)}, NOW).actions == ()
    assert next_step(spec, {"s": running()}, NOW).actions == started(("m",))
    ending = next_step(spec, {"s": running(), "m": exited()}, NOW)
    assert [type(action) for action in ending.actions] == [StopContainer]
    assert not ending.is_finished
    ended = next_step(spec, {"s": exited(143), "m": exited()}, NOW)
    assert (ended.is_finished, ended.has_failed) == (True, False)


def test_sidecar_that_ends_comes_again() -> None:
    """Whatever the pod's policy and its code."""
    step = next_step(pod("m", inits=("s+",)), {"s": exited(0), "m": running()}, NOW)

    assert step.actions == (StartContainer("s", 1),)


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Never", 0, False),
        ("Never", 1, False),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Always", 0, True),
        ("Always", 1, True),
    ],
)
def test_restart_policy_says_what_comes_again(policy: str, code: int, again: bool) -> None:
    """And a pod is over when nothing does."""
    step = next_step(pod(restartPolicy=policy), {"main": exited(code)}, NOW)

    assert bool(step.actions) is again
    assert step.is_finished is not again
    assert step.has_failed is (not again and code != 0)


def test_one_container_left_keeps_the_pod_going() -> None:
    """The pod is over when the last one has ended."""
    step = next_step(pod("a", "b"), {"a": exited(1), "b": running()}, NOW)

    assert (step.is_finished, step.actions) == (False, ())


@pytest.mark.parametrize(
    ("attempt", "delay_s"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 300), (50, 300)]
)
def test_restarts_wait_longer_and_longer(attempt: int, delay_s: float) -> None:
    """The first is immediate, then 10 s, 20 s and so on, five minutes at most."""
    assert backoff_until(exited(1, attempt)) == NOW + delay_s


def test_long_run_is_restarted_at_once() -> None:
    """Ten minutes of running make a container healthy again."""
    assert backoff_until(exited(1, 5, ran_s=600)) == NOW


def test_restart_is_waited_for() -> None:
    """The plan says when to look again."""
    step = next_step(pod(restartPolicy="Always"), {"main": exited(1, 1, ago_s=4)}, NOW)

    assert (step.actions, step.wake_at) == ((), NOW + 6)


def test_container_that_could_not_be_made_is_tried_again() -> None:
    """At the time the runtime named, as the same attempt."""
    early = next_step(pod(), {"main": waiting("Bad", NOW + 3)}, NOW)
    due = next_step(pod(), {"main": waiting("Bad", NOW)}, NOW)

    assert (early.actions, early.wake_at) == ((), NOW + 3)
    assert due.actions == (StartContainer("main", 0),)


def test_unhealthy_container_is_stopped() -> None:
    """With the grace period of its probe, else the pod's."""
    own = {"main": running(unhealthy="liveness probe failed", unhealthy_grace_s=3.0)}
    pods = {"main": running(unhealthy="liveness probe failed")}
    spec = pod(terminationGracePeriodSeconds=7)

    assert next_step(spec, own, NOW).actions == (
        StopContainer("main", 3.0, "liveness probe failed"),
    )
    assert next_step(spec, pods, NOW).actions == (
        StopContainer("main", 7.0, "liveness probe failed"),
    )


def test_former_end_does_not_count_as_the_present_one() -> None:
    """Only how the latest run stands decides."""
    again = Run(1, running(1).state, Exited(1, NOW, NOW))

    assert next_step(pod(restartPolicy="OnFailure"), {"main": again}, NOW).actions == ()


def test_ten_thousand_restarts_work_through_the_decision() -> None:
    """After each of them the container waits, five minutes at most, and is started again."""
    spec = pod("m", restartPolicy="Always")
    for attempt in range(10_001):
        soon = next_step(spec, {"m": exited(1, attempt, ago_s=9)}, NOW)
        assert soon.actions == ((StartContainer("m", 1),) if attempt == 0 else ())
        late = next_step(spec, {"m": exited(1, attempt, ago_s=301)}, NOW)
        assert late.actions == (StartContainer("m", attempt + 1),)
