"""Containers that come first, and those that stay beside the others."""

from __future__ import annotations

from swell.api.meta import Body
from tests.contract.node.bench import (
    Bench,
    behaviour,
    conditions,
    container_of,
    end_of,
    main_of,
    shell,
    waits_for,
)

INIT = "initContainerStatuses"
VOLUMES: list[Body] = [{"name": "scratch", "emptyDir": {}}]
MOUNTED: Body = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}


def _first(script: str, name: str = "first", **more: object) -> Body:
    return shell(name, script, **MOUNTED, **more)


@behaviour
async def one_after_the_other(bench: Bench) -> None:
    """Init containers run in order, and the others after the last of them."""
    inits = [_first("echo 1 > /scratch/f"), _first("echo 2 >> /scratch/f", "second")]
    spec: Body = {"initContainers": inits, "volumes": VOLUMES, "main": MOUNTED}

    assert await bench.output("cat /scratch/f", **spec) == ["1", "2"]


@behaviour
async def others_wait_for_them(bench: Bench) -> None:
    """While one runs, the pod is Pending and the others are PodInitializing."""
    await bench.pod("exit 0", initContainers=[shell("first", "sleep 100")])
    pod = await bench.until(lambda pod: "running" in container_of(pod, "first", INIT)["state"])

    assert pod["status"]["phase"] == "Pending"
    assert waits_for(main_of(pod)) == "PodInitializing"
    assert conditions(pod)["Initialized"] == ("False", "ContainersNotInitialized")
    assert conditions(pod)["Ready"] == ("False", "ContainersNotReady")


@behaviour
async def what_they_did_is_shown(bench: Bench) -> None:
    """A finished one is Completed and ready."""
    await bench.pod("sleep 100", initContainers=[shell("first", "exit 0")])
    pod = await bench.runs()
    first = container_of(pod, "first", INIT)

    assert (end_of(first)["reason"], first["ready"]) == ("Completed", True)
    assert conditions(pod)["Initialized"][0] == "True"


@behaviour
async def failure_fails_the_pod(bench: Bench) -> None:
    """With Never a failed one fails the pod, and the others never start."""
    await bench.pod("exit 0", initContainers=[shell("first", "exit 5")])
    pod = await bench.ended()

    assert pod["status"]["phase"] == "Failed"
    assert end_of(container_of(pod, "first", INIT))["exitCode"] == 5
    assert waits_for(main_of(pod)) == "PodInitializing"


@behaviour
async def failure_is_tried_again(bench: Bench) -> None:
    """With OnFailure a failed one is started again before anything else."""
    script = "echo x >> /scratch/n; [ $(grep -c x /scratch/n) = 2 ]"
    spec: Body = {"initContainers": [_first(script)], "volumes": VOLUMES, "main": MOUNTED}
    await bench.pod("cat /scratch/n", restartPolicy="OnFailure", **spec)
    pod = await bench.ended()

    assert container_of(pod, "first", INIT)["restartCount"] == 1
    assert (await bench.log()).splitlines() == ["x", "x"]


@behaviour
async def sidecar_stays_beside(bench: Bench) -> None:
    """An init container that is always restarted runs on while the others do."""
    side = shell("side", "sleep 100", restartPolicy="Always")
    await bench.pod("sleep 100", initContainers=[side])
    pod = await bench.runs()

    assert "running" in container_of(pod, "side", INIT)["state"]
    assert container_of(pod, "side", INIT)["started"] is True


@behaviour
async def sidecar_does_not_keep_the_pod(bench: Bench) -> None:
    """When the others have ended, so does it, and the pod with it."""
    side = shell("side", "trap 'exit 0' TERM; while :; do sleep 0.1; done", restartPolicy="Always")
    await bench.pod("sleep 1", initContainers=[side])
    pod = await bench.ended()

    assert pod["status"]["phase"] == "Succeeded"
    assert end_of(container_of(pod, "side", INIT))


@behaviour
async def sidecar_is_restarted(bench: Bench) -> None:
    """Also where the pod's policy is Never."""
    side = shell("side", "sleep 1; exit 1", restartPolicy="Always")
    await bench.pod("sleep 100", initContainers=[side])
    pod = await bench.until(lambda pod: container_of(pod, "side", INIT)["restartCount"] >= 1)

    assert pod["status"]["phase"] == "Running"


@behaviour
async def sidecar_starts_first(bench: Bench) -> None:
    """The others start when it has started."""
    side = _first("echo side > /scratch/f; sleep 100", "side", restartPolicy="Always")
    waits = {
        "startupProbe": {"exec": {"command": ["test", "-f", "/scratch/f"]}, "periodSeconds": 1}
    }
    spec: Body = {"initContainers": [{**side, **waits}], "volumes": VOLUMES, "main": MOUNTED}

    assert await bench.output("cat /scratch/f", **spec) == ["side"]
