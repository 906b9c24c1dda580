"""Which containers are started again, and what is said of those before."""

from __future__ import annotations

from swell.api.meta import Body
from tests.contract.node.bench import Bench, behaviour, end_of, main_of, waits_for

# Fails until it was started three times; the folder outlives the container.
THIRD_TIME = "echo x >> /scratch/n; [ $(grep -c x /scratch/n) = 3 ]"
SCRATCH: Body = {
    "volumes": [{"name": "scratch", "emptyDir": {}}],
    "main": {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
}


def _last_end(pod: Body) -> Body:
    return main_of(pod)["lastState"].get("terminated", {})  # type: ignore[no-any-return]


@behaviour
async def failures_are_tried_again(bench: Bench) -> None:
    """OnFailure starts a container until it succeeds, and counts."""
    await bench.pod(THIRD_TIME, restartPolicy="OnFailure", **SCRATCH)
    pod = await bench.ended()

    assert pod["status"]["phase"] == "Succeeded"
    assert main_of(pod)["restartCount"] == 2
    assert end_of(main_of(pod))["exitCode"] == 0


@behaviour
async def the_end_before_is_remembered(bench: Bench) -> None:
    """lastState has the code of the run before."""
    await bench.pod("exit 7", restartPolicy="Always")
    pod = await bench.until(lambda pod: main_of(pod)["restartCount"] >= 1)

    assert _last_end(pod)["exitCode"] == 7
    assert _last_end(pod)["reason"] == "Error"


@behaviour
async def success_is_not_tried_again(bench: Bench) -> None:
    """OnFailure leaves a success alone."""
    await bench.pod("exit 0", restartPolicy="OnFailure")
    pod = await bench.ended()

    assert (pod["status"]["phase"], main_of(pod)["restartCount"]) == ("Succeeded", 0)


@behaviour
async def success_may_be_started_again(bench: Bench) -> None:
    """Always starts a container again whatever its code."""
    await bench.pod("exit 0", restartPolicy="Always")
    pod = await bench.until(lambda pod: main_of(pod)["restartCount"] >= 1)

    assert _last_end(pod)["reason"] == "Completed"


@behaviour
async def never_is_never(bench: Bench) -> None:
    """Never starts nothing again."""
    await bench.pod("exit 1", restartPolicy="Never")
    pod = await bench.ended()

    assert (pod["status"]["phase"], main_of(pod)["restartCount"]) == ("Failed", 0)
    assert not main_of(pod)["lastState"]


@behaviour
async def repeated_failures_have_to_wait(bench: Bench) -> None:
    """After its second failure a container waits in CrashLoopBackOff, and its pod runs on."""
    await bench.pod("exit 1", restartPolicy="Always")
    pod = await bench.until(lambda pod: waits_for(main_of(pod)) == "CrashLoopBackOff")

    assert pod["status"]["phase"] == "Running"
    assert main_of(pod)["restartCount"] >= 1
    assert main_of(pod)["ready"] is False
    assert _last_end(pod)["exitCode"] == 1


@behaviour
async def a_restarted_container_begins_anew(bench: Bench) -> None:
    """Variables are as before, and an emptyDir keeps what was put into it."""
    script = 'echo "$WORD" >> /scratch/n; [ $(grep -c again /scratch/n) = 2 ]'
    main = {**SCRATCH["main"], "env": [{"name": "WORD", "value": "again"}]}
    await bench.pod(script, restartPolicy="OnFailure", volumes=SCRATCH["volumes"], main=main)
    pod = await bench.ended()

    assert (pod["status"]["phase"], main_of(pod)["restartCount"]) == ("Succeeded", 1)
