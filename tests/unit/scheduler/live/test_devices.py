"""Gangs with devices: all claims are reserved before the first pod is bound, or none keeps any."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from swell.api.devices import DELETE_PROTECTION, ResourceClaim
from swell.api.kinds import (
    DEVICE_CLASSES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
)
from swell.api.meta import Body, Key, Status, StatusCause, StatusDetails
from swell.api.resource import Resource
from swell.cluster.embedded.builtin.devices import DEVICES
from swell.cluster.embedded.controllers.volumes import PROVISIONER
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ConflictError, InvalidError, OutcomeUnknownError
from swell.scheduler.live.device_releases import DEVICE_USED_TWICE
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.model.devices.extended import IS_EXTENDED
from swell.scheduler.model.tasks import TaskStatus
from tests.device_actor import ClaimActor
from tests.resource_objects import DRIVER, a_device_class, a_resource_claim, a_slice, a_template
from tests.storage_objects import HOST, a_claim, a_class, a_volume, mounts
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage
from tests.unit.scheduler.live.test_preparer import with_timeout
from tests.volume_actor import VolumeActor

CLAIMS = "resourceclaims.resource.k8s.io"
T = TypeVar("T")
OWN: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
COMMON: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "common"}]}


def played(
    play: Callable[[Stage], Awaitable[None]], settings: SchedulerSettings | None = None
) -> None:
    """Have a play played on two nodes with two devices each, with the controllers of claims."""

    async def whole(stage: Stage) -> None:
        for name in "ab":
            await stage.node(name)
            await stage.label_node(name, **{HOST: name})
            await stage.user.create(RESOURCE_SLICES.untyped(), a_slice(name, 2))
        await stage.user.create(DEVICE_CLASSES.untyped(), a_device_class())
        template = a_template("one", 1, NAMESPACE)
        await stage.user.create(RESOURCE_CLAIM_TEMPLATES.untyped(), template)
        actors = (
            ClaimActor(stage.server.connect("claims"), stage.clock),
            VolumeActor(stage.server.connect("volumes"), stage.clock),
        )
        running = [asyncio.create_task(actor.run()) for actor in actors]
        running += [asyncio.create_task(one) for one in stage.server.controllers()]
        try:
            await play(stage)
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    on_stage(whole, settings or SchedulerSettings(), frozenset({DEVICES}))


async def gang(stage: Stage, size: int, **spec: object) -> None:
    await stage.group("gang", size)
    for at in range(size):
        await stage.pod(f"gang-{at}", "gang", **(spec or OWN))


async def until_bound(stage: Stage, n: int) -> dict[str, str]:
    async with asyncio.timeout(120):
        while len(await stage.where()) != n:
            await stage.sleep(0.05)
    return await stage.where()


async def claims_of(stage: Stage) -> tuple[ResourceClaim, ...]:
    return (await stage.user.list(RESOURCE_CLAIMS)).items


def devices_of(*claims: ResourceClaim) -> list[tuple[str, str]]:
    return [
        (one.pool, one.device)
        for claim in claims
        if claim.status.allocation is not None
        for one in claim.status.allocation.devices.results
    ]


def test_gang_is_bound_after_all_of_its_devices() -> None:
    """First all claims are protected, then all get devices and users at once, then pods nodes."""

    async def play(stage: Stage) -> None:
        scheduler = stage.start()
        await gang(stage, 4)
        where = await until_bound(stage, 4)

        writes = [one for one in stage.lines[0].writes() if CLAIMS in one or "create pods" in one]
        # Each claim is patched twice: it is protected, then it gets its device.
        kinds = [" ".join(one.split()[:2]) for one in writes]
        assert kinds == [f"patch {CLAIMS}"] * 8 + ["create pods"] * 4
        assert sorted(writes[:4]) == sorted(writes[4:8])
        claims = await claims_of(stage)
        assert len(set(devices_of(*claims))) == 4
        for claim in claims:
            (user,) = claim.status.reserved_for
            assert [pool for pool, _ in devices_of(claim)] == [where[user.name]]
            assert DELETE_PROTECTION in claim.metadata.finalizers
            assert claim.status.allocation is not None
            assert claim.status.allocation.allocation_timestamp
        assert not scheduler.cache.snapshot.preparing

    played(play)


def test_devices_are_given_back_when_a_gang_falls_apart() -> None:
    """A pod goes while claims are written: those that have devices already give them back."""

    async def play(stage: Stage) -> None:
        stage.start()
        line = stage.lines[0]
        line.delay_s = 0.1  # a call is recorded, and done so much later
        await gang(stage, 4)
        async with asyncio.timeout(60):
            while not devices_of(*await claims_of(stage)):
                await stage.sleep(0.01)
        await stage.remove("gang-3")
        await stage.sleep(20)

        assert not await stage.where()
        assert devices_of(*await claims_of(stage)) == []

    played(play)


def test_claim_of_others_is_shared_and_left_to_them() -> None:
    """A claim that has devices gets another user; afterwards only that one is taken off."""

    async def play(stage: Stage) -> None:
        body = a_resource_claim("common", 1, NAMESPACE)
        await stage.user.create(RESOURCE_CLAIMS.untyped(), body)
        scheduler = stage.start()
        await stage.pod("other", **COMMON)
        node = (await until_bound(stage, 1))["other"]
        # The second one is refused by the server only after it was added.
        line = stage.lines[0]
        line.delay_s = 0.1
        await gang(stage, 2, **COMMON)
        async with asyncio.timeout(60):
            while len((await claims_of(stage))[0].status.reserved_for) < 3:
                await stage.sleep(0.01)
        await stage.change_node(node, unschedulable=True)
        await stage.sleep(30)

        (claim,) = await claims_of(stage)
        names = {one.name for one in claim.status.reserved_for}
        assert "other" in names
        assert names - {"other"} == set(await stage.where()) - {"other"}
        assert len(devices_of(claim)) == 1
        assert not scheduler.preparer.n_batches

    played(play)


@pytest.mark.parametrize("was_done", [True, False])
def test_answer_that_is_lost_costs_no_device(*, was_done: bool) -> None:
    """Whether a write was done is read, and the gang gets devices once."""

    async def play(stage: Stage) -> None:
        stage.start()
        line = stage.lines[0]
        kind = line.fail_after if was_done else line.fail_before
        kind["patch"] = [OutcomeUnknownError("the answer was lost") for _ in range(8)]
        await gang(stage, 4)
        await until_bound(stage, 4)

        assert len(set(devices_of(*await claims_of(stage)))) == 4

    played(play)


def test_missing_right_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10: Kubernetes refuses the content, and our log says what it takes."""
    text = 'changing status.allocation requires resource="resourceclaims/binding", verb="patch"'
    cause = StatusCause(field="status.allocation", message=f"Forbidden: {text}")
    details = StatusDetails(causes=(cause,))
    refusal = InvalidError(Status(code=422, reason="Invalid", message=text, details=details))

    async def play(stage: Stage) -> None:
        stage.start()
        line = stage.lines[0]
        patch = line.patch

        async def refused(resource: Resource[T], *more: Any, **options: Any) -> T:
            if resource.plural == RESOURCE_CLAIMS.plural and resource.subresource:
                raise refusal
            return await patch(resource, *more, **options)

        monkeypatch.setattr(line, "patch", refused)
        await gang(stage, 1)
        await stage.sleep(20)

        assert not await stage.where()
        (condition,) = (await stage.read_group("gang")).status.conditions
        assert "resourceclaims/binding" in condition.message

    played(play)
    assert "by a ClusterRole and a ClusterRoleBinding" in caplog.text


def test_claims_of_a_process_that_ended_are_freed_in_time() -> None:
    """Claims given to pods that are not bound within the deadline are free for others."""

    async def play(stage: Stage) -> None:
        await stage.group("waits", 3)  # its third pod never comes
        for at in range(2):
            await stage.pod(f"waits-{at}", "waits", **OWN)
        await stage.sleep(1)
        for at, claim in enumerate(await claims_of(stage)):
            await stage.user.patch(
                RESOURCE_CLAIMS.status, claim.metadata.key, merge_patch(allocated(claim, at))
            )
        stage.start()
        await stage.sleep(10)
        assert len(devices_of(*await claims_of(stage))) == 2
        await stage.sleep(60)

        assert devices_of(*await claims_of(stage)) == []
        await gang(stage, 4)
        await until_bound(stage, 4)

    played(play, with_timeout(20))


def test_late_write_of_a_process_that_ended_fails() -> None:
    """It was about to give a device to a claim. By now that device may have another user."""

    async def play(stage: Stage) -> None:
        await stage.group("waits", 2)  # its second pod never comes
        await stage.pod("waits-0", "waits", **OWN)
        await stage.sleep(1)
        (claim,) = await claims_of(stage)
        key, protect = claim.metadata.key, {"metadata": {"finalizers": [DELETE_PROTECTION]}}
        sent = await stage.user.patch(RESOURCE_CLAIMS, key, merge_patch(protect))
        stage.start()
        await gang(stage, 4)
        await until_bound(stage, 4)

        version = {"metadata": {"resourceVersion": sent.metadata.resource_version}}
        with pytest.raises(ConflictError):
            await stage.user.patch(
                RESOURCE_CLAIMS.status, key, merge_patch({**version, **allocated(claim, 0)})
            )
        assert len(set(devices_of(*await claims_of(stage)))) == 4

    played(play)


def test_device_that_went_to_another_claim_meanwhile_is_not_given_again() -> None:
    """Between decision and write another scheduler gives all but one device away."""

    async def play(stage: Stage) -> None:
        body = a_resource_claim("theirs", 3, NAMESPACE)
        theirs = await stage.user.create(RESOURCE_CLAIMS, body)
        named = [{"name": "gpu", "resourceClaimName": "theirs"}]
        await stage.pod("of-theirs", schedulerName="another", resourceClaims=named)
        pod = await stage.read_pod("of-theirs")
        assert pod is not None
        user = {"resource": "pods", "name": "of-theirs", "uid": pod.metadata.uid}
        stage.start()
        line = stage.lines[0]
        line.delay_s = 0.1  # a call is recorded, and done so much later
        await gang(stage, 1)
        async with asyncio.timeout(60):
            while not any(call.startswith(f"patch {CLAIMS}") for call in line.calls):
                await stage.sleep(0.01)
        status = allocated(theirs, 0, user)["status"]
        (first,) = status["allocation"]["devices"]["results"]
        others = [{**first, "device": "gpu-1"}, {**first, "pool": "b"}]
        status["allocation"]["devices"]["results"] = [first, *others]
        del status["allocation"]["nodeSelector"]
        await stage.user.patch(
            RESOURCE_CLAIMS.status, theirs.metadata.key, merge_patch({"status": status})
        )
        await until_bound(stage, 1)

        own = next(c for c in await claims_of(stage) if c.metadata.name != "theirs")
        assert devices_of(own) == [("b", "gpu-1")]

    played(play)


def test_device_in_two_claims_is_reported_on_both() -> None:
    async def play(stage: Stage) -> None:
        for name in ("first", "second"):
            body = a_resource_claim(name, 1, NAMESPACE)
            claim = await stage.user.create(RESOURCE_CLAIMS, body)
            named = [{"name": "gpu", "resourceClaimName": name}]
            await stage.pod(f"of-{name}", schedulerName="another", resourceClaims=named)
            pod = await stage.read_pod(f"of-{name}")
            assert pod is not None
            user = {"resource": "pods", "name": f"of-{name}", "uid": pod.metadata.uid}
            given = merge_patch(allocated(claim, 0, user))
            await stage.user.patch(RESOURCE_CLAIMS.status, claim.metadata.key, given)
        stage.start()
        await stage.pod("pod", **OWN)
        await until_bound(stage, 1)
        await stage.sleep(15)

        events = [name for name, reason, _ in await stage.events() if reason == DEVICE_USED_TWICE]
        assert sorted(events) == ["first", "second"]
        own = next(c for c in await claims_of(stage) if c.metadata.name.startswith("pod-"))
        assert devices_of(own) != [("a", "gpu-0")]

    played(play)


def test_pods_of_a_gang_need_not_all_have_claims() -> None:
    """One pod has a device, one a volume, one nothing: all three are bound."""

    async def play(stage: Stage) -> None:
        storage = {**a_class("folders"), "provisioner": PROVISIONER}
        claim = a_claim("data", "folders", namespace=NAMESPACE)
        del claim["metadata"]["uid"], claim["status"]
        await stage.user.create(STORAGE_CLASSES.untyped(), storage)
        await stage.user.create(PERSISTENT_VOLUME_CLAIMS.untyped(), claim)
        stage.start()
        await stage.group("gang", 3)
        await stage.pod("gang-0", "gang", **OWN)
        await stage.pod("gang-1", "gang", volumes=mounts("data"))
        await stage.pod("gang-2", "gang")

        await until_bound(stage, 3)

    played(play)


def test_gang_that_requests_nothing_else_is_a_gang() -> None:
    """Pods without requests are usually best effort. With claims they wait for each other."""

    async def play(stage: Stage) -> None:
        bare = [{"name": "c", "image": "i"}]
        await stage.user.create(STORAGE_CLASSES.untyped(), a_class())
        for at in range(2):
            claim = a_claim(f"data-{at}", namespace=NAMESPACE)
            del claim["metadata"]["uid"], claim["status"]
            await stage.user.create(PERSISTENT_VOLUME_CLAIMS.untyped(), claim)
        volume = a_volume("pv", "a", hostPath={"path": "/x"})
        del volume["status"]
        await stage.user.create(PERSISTENT_VOLUMES.untyped(), volume)
        stage.start()
        await stage.sleep(1)
        await gang(stage, 5, containers=bare, **OWN)
        await stage.group("disks", 2)
        for at in range(2):
            await stage.pod(f"disks-{at}", "disks", containers=bare, volumes=mounts(f"data-{at}"))
        await stage.sleep(15)

        assert not await stage.where()
        assert devices_of(*await claims_of(stage)) == []
        for name, text in (("gang", "of 4 devices there 4 in use"), ("disks", "has no volume")):
            (condition,) = (await stage.read_group(name)).status.conditions
            assert text in condition.message

    played(play)


def allocated(claim: ResourceClaim, at: int, user: Body | None = None) -> Body:
    """The status of a claim with a device of the first node, for the pod it was made for."""
    for owner in claim.metadata.owner_references:
        user = {"resource": "pods", "name": owner.name, "uid": owner.uid}
    result = {"request": "gpu", "driver": DRIVER, "pool": "a", "device": f"gpu-{at}"}
    field = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    return {
        "status": {
            "allocation": {
                "allocationTimestamp": "2026-01-01T00:00:00Z",
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            },
            "reservedFor": [user],
        }
    }


def test_devices_stand_for_extended_resources() -> None:
    """Each pod gets a claim of its own, which it names before it is bound, and gives all back."""

    async def play(stage: Stage) -> None:
        stage.start()
        of_class = a_device_class("cards")
        of_class["spec"]["extendedResourceName"] = "example.com/card"
        await stage.user.create(DEVICE_CLASSES.untyped(), of_class)
        amounts = {"cpu": "1", "example.com/card": "1"}
        container: Body = {"name": "main", "image": "local"}
        container["resources"] = {"requests": amounts, "limits": {"example.com/card": "1"}}
        await gang(stage, 4, containers=[container])
        await until_bound(stage, 4)
        claims = await claims_of(stage)
        assert len(set(devices_of(*claims))) == 4
        for pod in (await stage.user.list(PODS)).items:
            named = pod.status.extended_resource_claim_status
            assert named is not None
            claim = next(one for one in claims if one.metadata.name == named.resource_claim_name)
            assert claim.metadata.name.startswith(f"{pod.metadata.name}-extended-resources-")
            assert claim.metadata.annotations[IS_EXTENDED] == "true"
            assert [one.uid for one in claim.status.reserved_for] == [pod.metadata.uid]
            assert [one.uid for one in claim.metadata.owner_references] == [pod.metadata.uid]
            assert named.request_mappings == (
                {
                    "containerName": "main",
                    "resourceName": "example.com/card",
                    "requestName": "container-0-request-0",
                },
            )

    played(play)


def test_gang_that_lacks_devices_for_extended_resources_takes_none() -> None:
    async def play(stage: Stage) -> None:
        stage.start()
        of_class = a_device_class("cards")
        of_class["spec"]["extendedResourceName"] = "example.com/card"
        await stage.user.create(DEVICE_CLASSES.untyped(), of_class)
        # No node has as many, and the gang is admitted because the cluster has.
        limits = {"example.com/card": "3"}
        container: Body = {"name": "main", "image": "local", "resources": {"limits": limits}}
        await gang(stage, 1, containers=[container])
        await stage.sleep(5)
        assert not await stage.where()
        assert devices_of(*await claims_of(stage)) == []

    played(play)


def test_handler_of_a_claim_that_fails_forgets_no_binding() -> None:
    """What is assumed of the claim's pod outlives the rebuild, or it would be bound twice."""

    async def play(stage: Stage) -> None:
        cache: Any = stage.start().cache
        take_claim, take_pod = cache._take_claim, cache._take_pod
        breaks, found = [False], list[TaskStatus | None]()

        def status() -> TaskStatus | None:
            task = cache.snapshot.task(f"{NAMESPACE}/gang-0")
            current: TaskStatus | None = task and task.status
            return current

        def take_claim_or_fail(key: Key) -> None:
            breaks[0] = len(breaks) == 1 and status() is TaskStatus.BINDING
            take_claim(key)

        def take_pod_or_fail(key: Key) -> None:
            if breaks[0]:
                breaks[:] = [False, True]
                cache.snapshot.remove_pod(str(key))
                raise RuntimeError(str(key))
            take_pod(key)

        cache._take_claim, cache._take_pod = take_claim_or_fail, take_pod_or_fail
        cache.on_rebuilt(lambda: found.append(status()) if len(breaks) == 2 else None)
        of_class = a_device_class("cards")
        of_class["spec"]["extendedResourceName"] = "example.com/card"
        await stage.user.create(DEVICE_CLASSES.untyped(), of_class)
        limits = {"example.com/card": "1"}
        container: Body = {"name": "main", "image": "local", "resources": {"limits": limits}}
        await gang(stage, 1, containers=[container])
        await until_bound(stage, 1)

        assert found == [TaskStatus.BINDING]

    played(play)
