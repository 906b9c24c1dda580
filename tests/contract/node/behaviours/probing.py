"""What nodes ask containers, and what follows from the answers."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from swell.api.meta import Body
from tests.contract.node.bench import Bench, behaviour, conditions, main_of

OFTEN = {"periodSeconds": 1, "failureThreshold": 1}


def _asks(*command: str, **more: object) -> Body:
    return {"exec": {"command": list(command)}, **OFTEN, **more}


def _mark() -> str:
    """A file that nobody has made before, not even an earlier run: processes share a folder."""
    return f"/tmp/swell-{uuid4().hex}"


@behaviour
async def readiness_is_waited_for(bench: Bench) -> None:
    """A running container is ready only when its probe says so."""
    mark = _mark()
    probe = {"readinessProbe": _asks("test", "-f", mark)}
    await bench.pod(f"sleep 3; touch {mark}; sleep 100", main=probe)
    before = await bench.runs()
    after = await bench.until(lambda pod: main_of(pod)["ready"])

    assert (main_of(before)["started"], main_of(before)["ready"]) == (True, False)
    assert conditions(before)["Ready"] == ("False", "ContainersNotReady")
    assert conditions(after)["Ready"][0] == "True"


@behaviour
async def readiness_may_be_lost(bench: Bench) -> None:
    """A container that is not ready any more is left running."""
    mark = _mark()
    probe = {"readinessProbe": _asks("test", "-f", mark)}
    await bench.pod(f"touch {mark}; sleep 4; rm {mark}; sleep 100", main=probe)
    await bench.until(lambda pod: main_of(pod)["ready"])
    after = await bench.until(lambda pod: not main_of(pod)["ready"])

    assert (after["status"]["phase"], main_of(after)["restartCount"]) == ("Running", 0)
    assert conditions(after)["ContainersReady"] == ("False", "ContainersNotReady")


@behaviour
async def dead_containers_are_restarted(bench: Bench) -> None:
    """A failed liveness probe ends a container, and the policy starts it again."""
    probe = {"livenessProbe": _asks("false", initialDelaySeconds=1)}
    await bench.pod(
        "exec sleep 100", restartPolicy="Always", main=probe, terminationGracePeriodSeconds=1
    )
    pod = await bench.until(lambda pod: main_of(pod)["restartCount"] >= 1)

    assert pod["status"]["phase"] == "Running"
    assert main_of(pod)["lastState"]["terminated"]["exitCode"] in {137, 143}


@behaviour
async def dead_containers_may_fail_the_pod(bench: Bench) -> None:
    """With Never the pod has failed."""
    probe = {"livenessProbe": _asks("false")}
    await bench.pod("exec sleep 100", main=probe, terminationGracePeriodSeconds=1)

    assert (await bench.ended())["status"]["phase"] == "Failed"


@behaviour
async def start_is_waited_for(bench: Bench) -> None:
    """Until the startup probe succeeds nothing else is asked, and nothing is ready."""
    mark = _mark()
    startup = _asks("test", "-f", mark, failureThreshold=60)
    probes = {"startupProbe": startup, "livenessProbe": _asks("test", "-f", mark)}
    await bench.pod(f"sleep 3; touch {mark}; sleep 100", main=probes, restartPolicy="Always")
    before = await bench.runs()
    after = await bench.until(lambda pod: main_of(pod)["started"])

    assert (main_of(before)["started"], main_of(before)["ready"]) == (False, False)
    assert main_of(after)["restartCount"] == 0


@behaviour
async def start_that_never_comes(bench: Bench) -> None:
    """A startup probe that fails too often ends the container."""
    probe = {"startupProbe": _asks("false", failureThreshold=2)}
    await bench.pod("exec sleep 100", main=probe, terminationGracePeriodSeconds=1)

    assert (await bench.ended())["status"]["phase"] == "Failed"


@behaviour
async def several_failures_may_be_forgiven(bench: Bench) -> None:
    """failureThreshold failures in a row are needed."""
    ask = "echo x >> /scratch/n; [ $(($(grep -c x /scratch/n) % 2)) = 1 ]"
    probe = {"livenessProbe": _asks("sh", "-c", ask, failureThreshold=2)}
    volumes = [{"name": "scratch", "emptyDir": {}}]
    mounts = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    await bench.pod("sleep 100", volumes=volumes, main={**probe, **mounts})
    await bench.runs()
    await asyncio.sleep(6)
    pod = await bench.get()

    assert (pod["status"]["phase"], main_of(pod)["restartCount"]) == ("Running", 0)


@behaviour
async def probes_that_take_too_long_fail(bench: Bench) -> None:
    """A probe that does not answer in time has failed."""
    probe = {"livenessProbe": _asks("sleep", "30", timeoutSeconds=1)}
    await bench.pod("exec sleep 100", main=probe, terminationGracePeriodSeconds=1)

    assert (await bench.ended())["status"]["phase"] == "Failed"
