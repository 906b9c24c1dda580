"""How containers end, and what is reported of it."""

from __future__ import annotations

from swell.api.times import parse_time
from tests.contract.node.bench import (
    Bench,
    behaviour,
    conditions,
    container_of,
    end_of,
    main_of,
    shell,
)

DOWN = "False"


@behaviour
async def exit_code_zero_is_success(bench: Bench) -> None:
    """A container that ends with 0 is Completed, and its pod Succeeded."""
    await bench.pod("exit 0")
    pod = await bench.ended()

    assert pod["status"]["phase"] == "Succeeded"
    assert end_of(main_of(pod))["reason"] == "Completed"
    assert end_of(main_of(pod))["exitCode"] == 0


@behaviour
async def other_exit_codes_are_failures(bench: Bench) -> None:
    """Any other code is an Error, and its pod Failed."""
    await bench.pod("exit 3")
    pod = await bench.ended()

    assert pod["status"]["phase"] == "Failed"
    assert end_of(main_of(pod))["reason"] == "Error"
    assert end_of(main_of(pod))["exitCode"] == 3


@behaviour
async def codes_of_signals_are_plain_codes(bench: Bench) -> None:
    """A code above 128 is handed on as it is, whatever it means."""
    await bench.pod("exit 143")
    ended = end_of(main_of(await bench.ended()))

    assert (ended["exitCode"], ended["reason"], ended.get("signal")) == (143, "Error", None)


@behaviour
async def one_failure_fails_the_pod(bench: Bench) -> None:
    """A pod with a failed container is Failed once all have ended."""
    await bench.pod("exit 0", beside=[shell("other", "exit 4")])
    pod = await bench.ended()

    assert pod["status"]["phase"] == "Failed"
    assert end_of(main_of(pod))["exitCode"] == 0
    assert end_of(container_of(pod, "other"))["exitCode"] == 4


@behaviour
async def pod_runs_while_one_container_does(bench: Bench) -> None:
    """The end of one container is not the end of the pod."""
    await bench.pod("exit 3", beside=[shell("other", "sleep 100")])
    pod = await bench.until(lambda pod: bool(end_of(main_of(pod))))

    assert pod["status"]["phase"] == "Running"
    assert "running" in container_of(pod, "other")["state"]


@behaviour
async def times_are_in_order(bench: Bench) -> None:
    """Pod started, container started, container finished.

    Times are told in whole seconds, and a start is noted a moment after it: one second is lost.
    """
    await bench.pod("sleep 2")
    pod = await bench.ended()
    ended = end_of(main_of(pod))
    times = [pod["status"]["startTime"], ended["startedAt"], ended["finishedAt"]]
    seconds = [parse_time(time) for time in times]

    assert seconds == sorted(seconds)
    assert seconds[2] - seconds[1] >= 1


@behaviour
async def message_is_what_was_left_in_the_file(bench: Bench) -> None:
    """What a container writes to /dev/termination-log is its message."""
    await bench.pod("printf bye > /dev/termination-log; exit 1")

    assert end_of(main_of(await bench.ended()))["message"] == "bye"


@behaviour
async def message_of_success_is_kept_too(bench: Bench) -> None:
    """The message does not depend on the code."""
    await bench.pod("printf done > /dev/termination-log")

    assert end_of(main_of(await bench.ended()))["message"] == "done"


@behaviour
async def message_file_may_be_elsewhere(bench: Bench) -> None:
    """terminationMessagePath names the file."""
    more = {"terminationMessagePath": "/tmp/swell-last-words"}
    await bench.pod("printf here > /tmp/swell-last-words", main=more)

    assert end_of(main_of(await bench.ended()))["message"] == "here"


@behaviour
async def message_may_be_the_end_of_the_log(bench: Bench) -> None:
    """With FallbackToLogsOnError a failure that left no message shows its output."""
    more = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    await bench.pod("echo one; echo two; exit 1", main=more)

    assert end_of(main_of(await bench.ended()))["message"] == "one\ntwo\n"


@behaviour
async def success_without_message_has_none(bench: Bench) -> None:
    """Nothing is taken from the log of a success."""
    more = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    await bench.pod("echo one", main=more)

    assert not end_of(main_of(await bench.ended())).get("message")


@behaviour
async def conditions_of_success(bench: Bench) -> None:
    """A succeeded pod was initialised and is not ready any more, because it completed."""
    await bench.pod("exit 0")
    found = conditions(await bench.ended())

    assert found["Initialized"] == ("True", "PodCompleted")
    assert found["Ready"] == (DOWN, "PodCompleted")
    assert found["ContainersReady"] == (DOWN, "PodCompleted")


@behaviour
async def conditions_of_failure(bench: Bench) -> None:
    """A failed pod is not ready because it failed."""
    await bench.pod("exit 1")
    found = conditions(await bench.ended())

    assert found["Ready"] == (DOWN, "PodFailed")
    assert found["ContainersReady"] == (DOWN, "PodFailed")


@behaviour
async def too_much_memory_is_killed(bench: Bench) -> None:
    """A container beyond its memory limit ends with 137, OOMKilled."""
    limits = {"limits": {"memory": "32Mi"}}
    await bench.pod("exec tail /dev/zero", main={"resources": limits})
    pod = await bench.ended()

    assert pod["status"]["phase"] == "Failed"
    assert end_of(main_of(pod))["exitCode"] == 137
    assert end_of(main_of(pod))["reason"] == "OOMKilled"


@behaviour
async def time_limit_of_a_pod(bench: Bench) -> None:
    """activeDeadlineSeconds fails the pod, and its containers end."""
    await bench.pod("sleep 100", activeDeadlineSeconds=2)
    pod = await bench.ended()

    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["reason"] == "DeadlineExceeded"
