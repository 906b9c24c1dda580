"""How pods are ended from outside."""

from __future__ import annotations

import asyncio
import time

from swell.api.meta import Body
from tests.contract.node.bench import Bench, behaviour, container_of, end_of, main_of, shell

# A shell that hears signals at once: `sleep` in the foreground would be waited for.
FOREVER = "while :; do sleep 0.1; done"


@behaviour
async def asked_to_end_first(bench: Bench) -> None:
    """A container hears SIGTERM, and what it then ends with is reported."""
    await bench.pod(f"trap 'exit 5' TERM; echo up; {FOREVER}")
    await bench.log_has("up")

    assert end_of(main_of(await bench.deleted()))["exitCode"] == 5


@behaviour
async def killed_after_the_grace_period(bench: Bench) -> None:
    """A container that does not hear is killed, not before its time."""
    await bench.pod(f"trap '' TERM; echo up; {FOREVER}", terminationGracePeriodSeconds=3)
    await bench.log_has("up")
    began = time.monotonic()
    pod = await bench.deleted()

    assert end_of(main_of(pod))["exitCode"] == 137
    assert time.monotonic() - began >= 2.5


@behaviour
async def grace_may_be_shortened(bench: Bench) -> None:
    """The deletion's own grace period counts, not the pod's."""
    await bench.pod(f"trap '' TERM; echo up; {FOREVER}", terminationGracePeriodSeconds=3600)
    await bench.log_has("up")
    await bench.deleted(grace_s=1)

    assert await bench.is_gone()


@behaviour
async def runs_until_it_has_ended(bench: Bench) -> None:
    """A pod that is being deleted is still Running."""
    await bench.pod(
        f"trap 'sleep 2; exit 0' TERM; echo up; {FOREVER}", terminationGracePeriodSeconds=20
    )
    await bench.log_has("up")
    going = asyncio.create_task(bench.deleted())
    pod = await bench.until(lambda pod: "deletionTimestamp" in pod["metadata"])
    await going

    assert pod["status"]["phase"] == "Running"
    assert "running" in main_of(pod)["state"]


@behaviour
async def every_container_is_asked(bench: Bench) -> None:
    """All containers of the pod hear it."""
    script = f"trap 'exit 5' TERM; echo up; {FOREVER}"
    await bench.pod(script, beside=[shell("other", script.replace("5", "6"))])
    await bench.runs()
    await asyncio.sleep(2)
    pod = await bench.deleted()

    assert end_of(main_of(pod))["exitCode"] == 5
    assert end_of(container_of(pod, "other"))["exitCode"] == 6


@behaviour
async def pre_stop_comes_first(bench: Bench) -> None:
    """preStop runs to its end before SIGTERM is sent."""
    volumes = [{"name": "v", "emptyDir": {}}]
    pre_stop = {"exec": {"command": ["sh", "-c", "sleep 1; echo errand > /v/f"]}}
    main: Body = {
        "lifecycle": {"preStop": pre_stop},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    script = f"trap 'grep -q errand /v/f && exit 5; exit 6' TERM; echo up; {FOREVER}"
    await bench.pod(script, volumes=volumes, main=main, terminationGracePeriodSeconds=20)
    await bench.log_has("up")

    assert end_of(main_of(await bench.deleted()))["exitCode"] == 5


@behaviour
async def pre_stop_may_be_a_pause(bench: Bench) -> None:
    """preStop may just wait."""
    main = {"lifecycle": {"preStop": {"sleep": {"seconds": 2}}}}
    await bench.pod(
        f"trap 'exit 5' TERM; echo up; {FOREVER}", main=main, terminationGracePeriodSeconds=20
    )
    await bench.log_has("up")
    began = time.monotonic()
    pod = await bench.deleted()

    assert end_of(main_of(pod))["exitCode"] == 5
    assert time.monotonic() - began >= 1.5


@behaviour
async def force_waits_for_nothing(bench: Bench) -> None:
    """Without grace the object is gone at once."""
    await bench.pod(f"trap '' TERM; {FOREVER}", terminationGracePeriodSeconds=3600)
    await bench.runs()
    await bench.deleted(grace_s=0)

    assert await bench.is_gone()


@behaviour
async def while_it_prepares(bench: Bench) -> None:
    """A pod whose init container still runs goes away, too."""
    await bench.pod("exit 0", initContainers=[shell("first", "exec sleep 100")])
    kind = "initContainerStatuses"
    await bench.until(lambda pod: "running" in container_of(pod, "first", kind)["state"])
    await bench.deleted(grace_s=2)

    assert await bench.is_gone()


@behaviour
async def while_it_starts(bench: Bench) -> None:
    """A pod may be deleted in the moment that it is made."""
    await bench.pod(f"trap 'exit 0' TERM; {FOREVER}")
    await bench.deleted(grace_s=2)

    assert await bench.is_gone()


@behaviour
async def while_it_waits(bench: Bench) -> None:
    """A pod that cannot start goes away at once."""
    env = [{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]
    await bench.pod("exit 0", main={"env": env})
    await bench.until(lambda pod: bool(main_of(pod)["state"].get("waiting")))
    await bench.deleted()

    assert await bench.is_gone()


@behaviour
async def when_it_has_ended(bench: Bench) -> None:
    """The object of a finished pod just goes."""
    await bench.pod("exit 0", terminationGracePeriodSeconds=3600)
    await bench.ended()
    pod = await bench.deleted()

    assert pod["status"]["phase"] == "Succeeded"


@behaviour
async def children_end_with_it(bench: Bench) -> None:
    """What a container started does not outlive it."""
    folder = bench.shared / bench.ns
    folder.mkdir()
    volumes = [{"name": "v", "hostPath": {"path": str(folder)}}]
    main = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    child = "(trap '' TERM HUP; while :; do date +%s > /v/alive; sleep 0.2; done) & echo up; wait"
    await bench.pod(child, volumes=volumes, main=main, terminationGracePeriodSeconds=1)
    await bench.log_has("up")
    await bench.deleted()
    await asyncio.sleep(2)
    (folder / "alive").unlink(missing_ok=True)
    await asyncio.sleep(1)

    assert not (folder / "alive").exists()
