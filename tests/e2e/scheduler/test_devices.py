"""Gangs with devices, on a real API server with the real controller of resource claims."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import pytest
import yaml

from swell.api.devices import ResourceClaim
from swell.api.kinds import (
    DEVICE_CLASSES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from swell.api.meta import Body, Key
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Deletion, Selection, merge_patch
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from tests.e2e.scheduler.native_world import KUBES, QUIET_S, World, native_world, until
from tests.resource_objects import a_device_class, a_resource_claim, a_slice, a_template
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.kubectl import Kubectl
from tests.testbed.native_gangs import (
    API_SERVER_FLAGS,
    MANAGER_FLAGS,
    NATIVE_CONTROLLERS,
    running_kube_scheduler,
)

ROOT = Path(__file__).parents[3]
CLAIMS = "resourceclaim-controller"
N_DEVICES = 4
CLASS = Key("", a_device_class()["metadata"]["name"])

Story = Callable[[World], Awaitable[None]]


@pytest.fixture(scope="module")
def device_plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    """A control plane that makes claims of templates, with kube-scheduler."""
    with (
        running_control_plane(
            controllers=(*NATIVE_CONTROLLERS, CLAIMS),
            api_server_flags=API_SERVER_FLAGS,
            controller_manager_flags=MANAGER_FLAGS,
        ) as plane,
        running_kube_scheduler(plane),
    ):
        yield plane


def played(plane: ControlPlane, namespace: str, story: Story) -> None:
    """Plays a story on two nodes with four devices each."""

    async def main() -> None:
        async with native_world(plane, namespace, {"a": {}, "b": {}}, cpu=16) as world:
            nodes = [f"{namespace}-{name}-0" for name in "ab"]
            await world.cluster.create(DEVICE_CLASSES.untyped(), a_device_class())
            for node in nodes:
                await world.cluster.create(RESOURCE_SLICES.untyped(), a_slice(node, N_DEVICES))
            template = a_template("one", 1, namespace)
            await world.cluster.create(RESOURCE_CLAIM_TEMPLATES.untyped(), template)
            try:
                await story(world)
            finally:
                for one in (await world.cluster.list(RESOURCE_SLICES)).items:
                    await world.cluster.delete(RESOURCE_SLICES, one.metadata.key)
                await world.cluster.delete(DEVICE_CLASSES, CLASS)

    asyncio.run(main())


async def have_gang(world: World, name: str, n: int, claim: str = "", **spec: str) -> None:
    """A gang with a device for each pod, or with one claim for all."""
    group = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"minMember": n, "queue": "default"},
    }
    await world.cluster.create(POD_GROUPS, group)
    for at in range(n):
        pod = world.pod(f"{name}-{at}", resourceClaims=[entry(claim)], **spec)
        pod["metadata"]["annotations"] = {GROUP_ANNOTATION: name}
        await world.cluster.create(PODS, pod)


def entry(claim: str = "") -> Body:
    source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": "one"}
    return {"name": "gpu", **source}


async def claims_of(world: World) -> tuple[ResourceClaim, ...]:
    return (await world.cluster.list(RESOURCE_CLAIMS, Selection(world.namespace))).items


def devices_of(claims: tuple[ResourceClaim, ...]) -> list[tuple[str, str]]:
    return [
        (one.pool, one.device)
        for claim in claims
        if claim.status.allocation is not None
        for one in claim.status.allocation.devices.results
    ]


async def remove_gang(world: World, name: str, n: int) -> None:
    for at in range(n):
        key = Key(world.namespace, f"{name}-{at}")
        await world.cluster.delete(PODS, key, Deletion(grace_s=0))
    await world.cluster.delete(POD_GROUPS, Key(world.namespace, name))


def test_gang_gets_devices_of_its_own_and_gives_them_back(device_plane: ControlPlane) -> None:
    """D1, D2: eight pods have eight devices; afterwards all are free, for a second gang."""

    async def story(world: World) -> None:
        for name in ("first", "second"):
            await have_gang(world, name, 2 * N_DEVICES)
            where = await world.until_placed(f"{name}-", 2 * N_DEVICES)
            claims = await claims_of(world)
            assert len(set(devices_of(claims))) == 2 * N_DEVICES
            for claim in claims:
                assert claim.status.allocation is not None
                assert claim.status.allocation.allocation_timestamp
                (user,) = claim.status.reserved_for
                assert [pool for pool, _ in devices_of((claim,))] == [where[user.name]]
            await remove_gang(world, name, 2 * N_DEVICES)

            async def are_gone() -> bool:
                return not await claims_of(world)

            await until(are_gone)

    played(device_plane, "devices", story)


def test_gang_that_is_too_large_touches_no_claim(device_plane: ControlPlane) -> None:
    """D1: of nine pods for eight devices none gets one, and the reason counts them."""

    async def story(world: World) -> None:
        await have_gang(world, "large", 2 * N_DEVICES + 1)

        async def is_refused() -> bool:
            found = await world.cluster.get(POD_GROUPS, Key(world.namespace, "large"))
            return any("in use" in one.message for one in found.status.conditions)

        await until(is_refused)
        claims = await claims_of(world)
        assert len(claims) == 2 * N_DEVICES + 1
        for claim in claims:
            assert claim.status.allocation is None
            assert not claim.metadata.finalizers
        assert not await world.placed("large-")

    played(device_plane, "too-large", story)


def test_claim_is_shared_by_a_gang(device_plane: ControlPlane) -> None:
    """D4: one allocation, three reservations, one node; free when the last pod has gone."""

    async def story(world: World) -> None:
        body = a_resource_claim("common", 1, world.namespace)
        await world.cluster.create(RESOURCE_CLAIMS.untyped(), body)
        await have_gang(world, "trio", 3, claim="common")
        where = await world.until_placed("trio-", 3)
        (claim,) = await claims_of(world)
        assert len(set(where.values())) == 1
        assert {one.name for one in claim.status.reserved_for} == set(where)
        assert len(devices_of((claim,))) == 1
        await remove_gang(world, "trio", 3)

        async def is_free() -> bool:
            (found,) = await claims_of(world)
            return found.status.allocation is None and not found.status.reserved_for

        await until(is_free)

    played(device_plane, "shared", story)


@pytest.mark.parametrize("kube_first", [True, False])
def test_claim_is_shared_with_kube_scheduler(
    device_plane: ControlPlane, *, kube_first: bool
) -> None:
    """D4: a claim that one scheduler has allocated is used by a pod of the other."""

    async def story(world: World) -> None:
        body = a_resource_claim("common", 1, world.namespace)
        await world.cluster.create(RESOURCE_CLAIMS.untyped(), body)
        kubes = world.pod("kubes", scheduler=KUBES, resourceClaims=[entry("common")])
        ours = world.pod("ours", resourceClaims=[entry("common")])
        for pod in (kubes, ours) if kube_first else (ours, kubes):
            await world.cluster.create(PODS, pod)
            await world.until_placed(pod["metadata"]["name"], 1)
        (claim,) = await claims_of(world)
        assert {one.name for one in claim.status.reserved_for} == {"kubes", "ours"}
        assert len(set((await world.placed()).values())) == 1

    played(device_plane, f"with-kube-{kube_first}".lower(), story)


def test_devices_are_freed_when_the_gang_cannot_run_there(device_plane: ControlPlane) -> None:
    """2.5: claims that an earlier process gave to pods it never bound are taken elsewhere."""

    async def story(world: World) -> None:
        node = f"{world.namespace}-a-0"
        await world.cluster.patch(
            NODES, Key("", node), merge_patch({"spec": {"unschedulable": True}})
        )
        await have_gang(world, "waits", N_DEVICES + 1)

        async def are_made() -> bool:
            return len(await claims_of(world)) == N_DEVICES + 1

        await until(are_made)
        await asyncio.sleep(QUIET_S)
        assert not await world.placed("waits-")
        # As a process that ended before its bindings would have left them.
        for at, claim in enumerate((await claims_of(world))[:N_DEVICES]):
            await world.cluster.patch(
                RESOURCE_CLAIMS.status, claim.metadata.key, merge_patch(allocated(claim, node, at))
            )
        await asyncio.sleep(QUIET_S)
        await world.cluster.patch(
            NODES, Key("", node), merge_patch({"spec": {"unschedulable": None}})
        )
        await world.until_placed("waits-", N_DEVICES + 1)
        assert len(set(devices_of(await claims_of(world)))) == N_DEVICES + 1

    played(device_plane, "crashed", story)


def allocated(claim: ResourceClaim, node: str, at: int) -> Body:
    """The status of a claim with a device, reserved for the pod that it was made for."""
    (owner,) = claim.metadata.owner_references
    result = {"request": "gpu", "driver": CLASS.name, "pool": node, "device": f"gpu-{at}"}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "status": {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            },
            "reservedFor": [{"resource": "pods", "name": owner.name, "uid": owner.uid}],
        }
    }


RESTRICTED = "swell-restricted"


def test_role_in_place_of_a_cluster_role_is_named(
    device_plane: ControlPlane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """D10: a right that Kubernetes asks for in the whole cluster is not enough in a namespace."""
    namespace = "rights"
    kubectl = Kubectl(device_plane.kubeconfig, tmp_path)

    async def story(world: World) -> None:
        path = await asyncio.to_thread(restricted, device_plane, kubectl, namespace, tmp_path)
        clock = SystemClock()
        async with connect(read_kubeconfig([path]), clock, Random(5)) as cluster:
            settings = SchedulerSettings(scheduler_names=(RESTRICTED,))
            scheduler = Scheduler(cluster, settings, clock=clock, random=Random(6))
            running = asyncio.create_task(scheduler.run())
            await have_gang(world, "pair", 2, schedulerName=RESTRICTED)

            async def is_named() -> bool:
                found = await world.cluster.get(POD_GROUPS, Key(namespace, "pair"))
                return any(
                    "resourceclaims/binding" in one.message for one in found.status.conditions
                )

            try:
                await until(is_named)
                assert "by a ClusterRole and a ClusterRoleBinding" in caplog.text
                assert not devices_of(await claims_of(world))
                assert not await world.placed("pair-")
                # With the right it goes on by itself.
                await asyncio.to_thread(
                    kubectl.ok, "create", "clusterrolebinding", RESTRICTED,
                    f"--clusterrole={RESTRICTED}-binding", account(namespace),
                )  # fmt: skip
                await world.until_placed("pair-", 2)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    played(device_plane, namespace, story)


def account(namespace: str) -> str:
    return f"--serviceaccount={namespace}:{RESTRICTED}"


def restricted(plane: ControlPlane, kubectl: Kubectl, namespace: str, folder: Path) -> Path:
    """Returns a kubeconfig with the rights of the scheduler, one of them in one namespace only."""
    documents = yaml.safe_load_all((ROOT / "deploy" / "scheduler" / "rbac.yaml").read_text())
    role = next(one for one in documents if one["kind"] == "ClusterRole")
    binding = {"apiGroups": [RESOURCE_CLAIMS.group], "verbs": ["patch"]}
    binding["resources"] = ["resourceclaims/binding"]
    for rule in role["rules"]:
        rule["resources"] = [one for one in rule["resources"] if one not in binding["resources"]]
    for name, rules in ((RESTRICTED, role["rules"]), (f"{RESTRICTED}-binding", [binding])):
        body = {**role, "metadata": {"name": name}, "rules": rules}
        kubectl.ok("apply", "-f", "-", stdin=json.dumps(body))
    kubectl.ok("create", "serviceaccount", RESTRICTED, "-n", namespace)
    scopes = (
        (RESTRICTED, "clusterrolebinding", f"{RESTRICTED}-all"),
        (f"{RESTRICTED}-binding", "rolebinding", f"{RESTRICTED}-here", "-n", namespace),
    )
    for granted, *scope in scopes:
        kubectl.ok("create", *scope, f"--clusterrole={granted}", account(namespace))
    config = yaml.safe_load(plane.kubeconfig.read_text())
    token = kubectl.ok("create", "token", RESTRICTED, "-n", namespace).strip()
    config["users"][0]["user"] = {"token": token}
    path = folder / "restricted.json"
    path.write_text(json.dumps(config))
    return path
