"""What a started pod shows, and what keeps others from starting."""

from __future__ import annotations

import asyncio

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

UP = ("True", "")


@behaviour
async def running_pod_is_ready(bench: Bench) -> None:
    """Without probes a running container is started and ready, and so is its pod."""
    await bench.pod("sleep 100")
    pod = await bench.runs()
    found = conditions(pod)

    assert (main_of(pod)["started"], main_of(pod)["ready"]) == (True, True)
    assert main_of(pod)["restartCount"] == 0
    assert found["Initialized"] == found["Ready"] == found["ContainersReady"] == UP
    assert found["PodReadyToStartContainers"] == UP


@behaviour
async def running_pod_has_addresses(bench: Bench) -> None:
    """Its own and the node's."""
    await bench.pod("sleep 100")
    status = (await bench.runs())["status"]

    assert status["hostIP"]
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["hostIPs"] == [{"ip": status["hostIP"]}]


@behaviour
async def running_container_is_named(bench: Bench) -> None:
    """It has an id with the scheme of its runtime, its image, and a start time."""
    await bench.pod("sleep 100")
    main = main_of(await bench.runs())

    assert "://" in main["containerID"]
    assert main["image"]
    assert main["state"]["running"]["startedAt"]


@behaviour
async def command_that_does_not_exist(bench: Bench) -> None:
    """Ends with 128, StartError, and names the command."""
    await bench.pod(main={"command": ["/no/such/program"]})
    ended = end_of(main_of(await bench.ended()))

    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "/no/such/program" in ended["message"]


@behaviour
async def command_that_may_not_be_run(bench: Bench) -> None:
    """A file that is no program cannot be started either."""
    await bench.pod(main={"command": ["/etc/passwd"]})
    ended = end_of(main_of(await bench.ended()))

    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")


@behaviour
async def unstartable_container_leaves_others_alone(bench: Bench) -> None:
    """Those beside it run to their end."""
    broken = shell("other", "", command=["/no/such/program"])
    await bench.pod("exit 0", beside=[broken])
    pod = await bench.ended()

    assert pod["status"]["phase"] == "Failed"
    assert end_of(main_of(pod))["exitCode"] == 0
    assert end_of(container_of(pod, "other"))["reason"] == "StartError"


@behaviour
async def missing_map_is_waited_for(bench: Bench) -> None:
    """CreateContainerConfigError while a referred map is missing; soon after, it runs."""
    source = {"configMapKeyRef": {"name": "late", "key": "k"}}
    env = [{"name": "K", "valueFrom": source}]
    await bench.pod("echo $K", main={"env": env})
    pod = await bench.until(lambda pod: waits_for(main_of(pod)) == "CreateContainerConfigError")
    message = main_of(pod)["state"]["waiting"]["message"]
    await bench.map("late", k="here")
    await bench.ended()

    assert pod["status"]["phase"] == "Pending"
    assert message == 'configmap "late" not found'
    assert await bench.log() == "here\n"


@behaviour
async def missing_secret_is_waited_for(bench: Bench) -> None:
    """The same for a secret."""
    env = [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "late", "key": "k"}}}]
    await bench.pod("exit 0", main={"env": env})
    pod = await bench.until(lambda pod: waits_for(main_of(pod)) == "CreateContainerConfigError")

    assert main_of(pod)["state"]["waiting"]["message"] == 'secret "late" not found'


@behaviour
async def missing_key_is_waited_for(bench: Bench) -> None:
    """A map without the key is as good as none. A kubelet may first say that it has no map yet."""

    def says_why(pod: Body) -> bool:
        state = main_of(pod).get("state", {}).get("waiting", {})
        return "couldn't find key k in ConfigMap" in state.get("message", "")

    await bench.map("there", other="x")
    env = [{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "there", "key": "k"}}}]
    await bench.pod("exit 0", main={"env": env})
    pod = await bench.until(says_why)

    assert waits_for(main_of(pod)) == "CreateContainerConfigError"


@behaviour
async def missing_volume_is_waited_for(bench: Bench) -> None:
    """A pod whose map to mount is missing stays in ContainerCreating until the map is there."""
    volumes = [{"name": "v", "configMap": {"name": "late"}}]
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/late"}]}
    await bench.pod("cat /late/k", volumes=volumes, main=mounts)
    pod = await bench.until(lambda pod: waits_for(main_of(pod)) == "ContainerCreating")
    await asyncio.sleep(1)
    still = await bench.get()
    await bench.map("late", k="here")
    await bench.ended()

    assert (pod["status"]["phase"], still["status"]["phase"]) == ("Pending", "Pending")
    assert waits_for(main_of(still)) == "ContainerCreating"
    assert await bench.log() == "here"


@behaviour
async def optional_references_may_be_missing(bench: Bench) -> None:
    """Optional maps and secrets leave no trace where there are none."""
    env = [
        {
            "name": "K",
            "valueFrom": {"configMapKeyRef": {"name": "n", "key": "k", "optional": True}},
        },
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "n", "key": "k", "optional": True}}},
    ]
    sources = [{"configMapRef": {"name": "n", "optional": True}}]
    volumes = [{"name": "v", "configMap": {"name": "n", "optional": True}}]
    mounts = [{"name": "v", "mountPath": "/nothing"}]
    main = {"env": env, "envFrom": sources, "volumeMounts": mounts}
    script = 'echo "[${K-none}] [${S-none}] [$(ls /nothing)]"'

    assert await bench.output(script, volumes=volumes, main=main) == ["[none] [none] []"]


@behaviour
async def working_folder_is_the_one_asked_for(bench: Bench) -> None:
    """workingDir is where the command starts."""
    assert await bench.output("pwd", main={"workingDir": "/etc"}) == ["/etc"]


@behaviour
async def command_comes_with_its_arguments(bench: Bench) -> None:
    """args follow the command, spaces and all."""
    main = {"command": ["sh", "-c", 'echo "$0|$1|$#"'], "args": ["a b", "c"]}

    assert await bench.output("", main=main) == ["a b|c|1"]
