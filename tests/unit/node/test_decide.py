"""What is reported of a pod, and when it may go."""

from __future__ import annotations

import msgspec

from swell.api.meta import Condition
from swell.api.times import format_time
from swell.node.decide import decide, decide_leaving, remaining_grace_s
from swell.node.pods import BoundPod, ReportedStatus
from swell.node.restarts import StopContainer
from swell.node.runs import Runs, lost, reported_runs
from swell.node.status import Addresses, status_patch
from tests.unit.node.builders import NOW, exited, pod, running, waiting

PLACE = Addresses("127.1.2.3", "127.0.0.1")


def reported(spec: BoundPod, runs: Runs, now: float = NOW) -> BoundPod:
    """The pod as it is after a report."""
    return msgspec.structs.replace(spec, status=decide(spec, runs, PLACE, now).status)


def deleted(spec: BoundPod, in_s: float = 30.0, grace_s: int = 30) -> BoundPod:
    metadata = msgspec.structs.replace(
        spec.metadata,
        deletion_timestamp=format_time(NOW + in_s),
        deletion_grace_period_seconds=grace_s,
    )
    return msgspec.structs.replace(spec, metadata=metadata)


def conditions(status: ReportedStatus) -> dict[str, str]:
    return {condition.type: condition.status for condition in status.conditions}


def test_phase_follows_the_containers() -> None:
    """Pending until every container has run, then running, then what came of it."""
    spec = pod("a", "b")
    phases = [
        decide(spec, runs, PLACE, NOW).status.phase.value
        for runs in (
            {},
            {"a": running(), "b": waiting()},
            {"a": running(), "b": running()},
            {"a": exited(0), "b": running()},
            {"a": exited(0), "b": exited(0)},
            {"a": exited(0), "b": exited(1)},
        )
    ]

    assert phases == ["Pending", "Pending", "Running", "Running", "Succeeded", "Failed"]


def test_pod_starts_before_its_containers() -> None:
    """Also if they were started, and ended, before anything was reported."""
    ended = exited(0, ran_s=1.0)
    late = reported(pod(), {"main": ended}, NOW + 50)

    assert late.status.start_time == format_time(NOW - 1)
    assert reported(late, {"main": ended}, NOW + 90).status.start_time == late.status.start_time
    assert reported(pod(), {"main": waiting()}).status.start_time == format_time(NOW)


def test_unchanged_pod_gives_an_equal_status() -> None:
    """So that nothing is written for it, however often it is looked at."""
    spec = pod("a", inits=("i",))
    runs = {"i": exited(), "a": running()}
    once = reported(spec, runs)

    assert decide(once, runs, PLACE, NOW + 60).status == once.status


def test_conditions_of_others_are_kept() -> None:
    """Also their place; ours change their time only with their status."""
    foreign = Condition(type="DisruptionTarget", status="True")
    held = ReportedStatus(conditions=(foreign,))
    first = reported(msgspec.structs.replace(pod(), status=held), {"main": waiting()})
    later = reported(first, {"main": running()}, NOW + 50)

    assert later.status.conditions[0] == foreign
    times = {c.type: c.last_transition_time for c in later.status.conditions}
    assert times["Ready"] == format_time(NOW + 50)
    assert times["Initialized"] == format_time(NOW)


def test_reason_that_is_no_more_is_taken_back() -> None:
    """A merge would keep what the patch does not mention."""
    waits = reported(pod(), {"main": waiting()})
    status = decide(waits, {"main": running()}, PLACE, NOW).status
    patch = status_patch(waits, status)
    ready = next(c for c in patch["status"]["conditions"] if c["type"] == "Ready")

    assert ready["reason"] is None
    assert ready["message"] is None
    assert patch["metadata"] == {"uid": "u"}


def test_unready_container_makes_the_pod_unready() -> None:
    """The pod runs all the same."""
    status = decide(pod(), {"main": running(is_ready=False)}, PLACE, NOW).status

    assert status.phase.value == "Running"
    assert conditions(status)["Ready"] == "False"


def test_crash_loop_is_shown() -> None:
    """Waiting with the reason people know, the end beside it."""
    spec = pod(restartPolicy="Always")
    main = decide(spec, {"main": exited(3, 2)}, PLACE, NOW).status.container_statuses[0]

    assert main.state.waiting is not None
    assert main.state.waiting.reason == "CrashLoopBackOff"
    assert main.last_state.terminated is not None
    assert main.last_state.terminated.exit_code == 3
    assert main.restart_count == 2


def test_final_status_never_changes() -> None:
    """Whatever is found out later."""
    over = reported(pod(), {"main": exited(1)})
    decision = decide(over, {"main": running()}, PLACE, NOW + 9)

    assert decision.status == over.status
    assert [type(action) for action in decision.actions] == [StopContainer]


def test_deleted_pod_goes_when_nothing_runs() -> None:
    """First it is stopped within its grace, then its end is reported, then it may go."""
    spec = deleted(reported(pod(), {"main": running()}))
    stops = decide(spec, {"main": running()}, PLACE, NOW)
    over = decide(spec, {"main": exited(143)}, PLACE, NOW)

    assert stops.actions == (StopContainer("main", 30.0, "the pod is being deleted"),)
    assert (stops.is_over, stops.is_deletable) == (False, False)
    assert (over.is_over, over.is_deletable) == (True, True)
    assert over.status.phase.value == "Failed"


def test_grace_is_counted_from_the_deletion() -> None:
    """An agent that comes late does not begin anew; whole seconds are not cut short."""
    assert remaining_grace_s(deleted(pod(), in_s=30), NOW) == 30
    assert remaining_grace_s(deleted(pod(), in_s=10), NOW) == 11
    assert remaining_grace_s(deleted(pod(), in_s=-60), NOW) == 0


def test_pod_deleted_without_grace_is_not_deleted_again() -> None:
    """It is only there because of a finalizer."""
    spec = deleted(pod(), in_s=0, grace_s=0)

    assert not decide(spec, {}, PLACE, NOW).is_deletable


def test_deadline_ends_the_pod() -> None:
    """Stopped when its time is over, then failed with the reason."""
    spec = reported(pod(activeDeadlineSeconds=60), {"main": running(since=NOW)})
    in_time = decide(spec, {"main": running(since=NOW)}, PLACE, NOW + 10)
    late = decide(spec, {"main": running(since=NOW)}, PLACE, NOW + 61)
    over = decide(spec, {"main": exited(143)}, PLACE, NOW + 62)

    assert (in_time.actions, in_time.wake_at) == ((), NOW + 60)
    assert len(late.actions) == 1
    assert (over.status.phase.value, over.status.reason) == ("Failed", "DeadlineExceeded")


def test_runs_are_known_again_from_the_status() -> None:
    """What was reported is enough to go on; what ran and is not found is lost."""
    runs = {"a": running(2, since=NOW), "b": exited(5, 1, ago_s=3)}
    spec = reported(pod("a", "b", restartPolicy="OnFailure"), runs)
    again = reported_runs(spec)

    assert again["a"] == runs["a"]
    assert again["b"].attempt == 1
    gone = lost(again["a"], NOW + 9)
    assert gone.state.exit_code == 137  # type: ignore[union-attr]
    assert lost(again["b"], NOW + 9) == again["b"]


def test_leaving_agent_keeps_bare_pods_and_gives_up_the_others() -> None:
    """A controller will make another one; nobody makes a bare pod again."""
    bare = reported(pod(restartPolicy="Always"), {"main": running()})
    owner = [{"kind": "Job", "name": "j", "uid": "o", "controller": True}]
    owned = pod(metadata={"ownerReferences": owner})

    assert decide_leaving(owned, {"main": running()}, PLACE, NOW).is_unwanted
    assert len(decide_leaving(bare, {"main": running()}, PLACE, NOW).actions) == 1
    ended = decide_leaving(bare, {"main": exited(9)}, PLACE, NOW)
    assert (ended.status.phase.value, ended.is_unwanted) == ("Failed", False)


def test_leaving_agent_says_nothing_of_pods_that_never_ran() -> None:
    """They may still begin when it is back."""
    spec = reported(pod(), {"main": waiting("CreateContainerConfigError", NOW + 3)})
    decision = decide_leaving(spec, {"main": waiting("X", NOW + 3)}, PLACE, NOW)

    assert decision.status == spec.status
    assert decision.actions == ()
