"""PodGroups and Workloads behind feature gates: rules and messages are those of kube-apiserver."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from swell.api.kinds import JOBS, NATIVE_GROUPS, PODS, PRIORITY_CLASSES
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cli.command_line import CommandError
from swell.cli.controllers.standalone import gates_in
from swell.cluster.embedded.assembly import add_services, new_api_server
from swell.cluster.embedded.builtin.podgroups import GATES, GENERIC
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.runtime.cluster import Deletion, merge_patch
from swell.runtime.errors import ClusterError, NotFoundError
from swell.runtime.manager import Manager
from swell.sim.loop import VirtualClock, run

ALL = frozenset(GATES)
GROUPS = NATIVE_GROUPS.untyped()
WORKLOADS: Resource[Body] = Resource("scheduling.k8s.io", "v1alpha2", "Workload", "workloads", dict)
GANG: Body = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def server(gates: frozenset[str] = ALL) -> InProcessCluster:
    clock = VirtualClock()
    return InProcessCluster(new_api_server(Storage(clock.now), clock, Random(1), gates), "user")


def body(resource: Resource[Any], name: str, spec: Body) -> Body:
    meta = {"name": name, "namespace": "default"}
    frame = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**frame, "metadata": meta, "spec": spec}


def pod(group: Body | None) -> Body:
    spec: Body = {"containers": [{"name": "c", "image": "i"}]}
    return body(PODS, "p", spec if group is None else {**spec, "schedulingGroup": group})


async def refusal(cluster: InProcessCluster, resource: Resource[Body], spec: Body) -> str:
    with pytest.raises(ClusterError) as caught:
        await cluster.create(resource, body(resource, "a", spec))
    return str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
        (
            {"schedulingPolicy": {"gang": {"minCount": 1}, "basic": {}}},
            'spec.schedulingPolicy: Invalid value: "{basic, gang}": '
            "must specify exactly one of: `basic`, `gang`",
        ),
        (
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            "spec.schedulingPolicy.gang.minCount: Required value",
        ),
        (
            {**GANG, "disruptionMode": "Bad"},
            'spec.disruptionMode: Unsupported value: "Bad": supported values: "Pod", "PodGroup"',
        ),
        (
            {**GANG, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
        ),
        (
            {**GANG, "schedulingConstraints": {"topology": [{"key": ""}]}},
            "spec.schedulingConstraints.topology[0].key: Required value",
        ),
        (
            {**GANG, "priority": 5},
            "priority set in the pod group (5) must match the priority computed (0) "
            "based on the priority class set in the spec",
        ),
        ({**GANG, "priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {
                **GANG,
                "podGroupTemplateRef": {
                    "workload": {"workloadName": "w", "podGroupTemplateName": "t"}
                },
            },
            'PodGroup rejected: Workload "w" not found',
        ),
    ],
)
def test_bad_group_is_refused_in_the_words_of_kubernetes(spec: Body, message: str) -> None:
    async def main() -> None:
        assert message in await refusal(server(), GROUPS, spec)

    run(main())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec.podGroupTemplates: Required value"),
        (
            {"podGroupTemplates": [{**GANG, "name": f"t{n}"} for n in range(9)]},
            "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
        ),
        (
            {"podGroupTemplates": [{**GANG, "name": "t"}, {**GANG, "name": "t"}]},
            "spec.podGroupTemplates[1]: Duplicate value",
        ),
        (
            {
                "controllerRef": {"kind": "", "name": "j"},
                "podGroupTemplates": [{**GANG, "name": "t"}],
            },
            "spec.controllerRef.kind: Required value",
        ),
    ],
)
def test_bad_workload_is_refused(spec: Body, message: str) -> None:
    async def main() -> None:
        assert message in await refusal(server(), WORKLOADS, spec)

    run(main())


def test_group_gets_its_defaults_and_cannot_be_changed() -> None:
    async def main() -> None:
        cluster = server()
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await cluster.create(
            PRIORITY_CLASSES.untyped(), {**high, "metadata": {"name": "high"}, "value": 7}
        )
        spec = {**GANG, "priorityClassName": "high"}
        made = await cluster.create(GROUPS, body(GROUPS, "g", spec))
        assert made["spec"] == {
            **GANG, "disruptionMode": "Pod", "priorityClassName": "high", "priority": 7,
        }  # fmt: skip
        assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
        assert "generation" not in made["metadata"]
        change = merge_patch({"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
        with pytest.raises(ClusterError, match=r"spec\.schedulingPolicy: .* field is immutable"):
            await cluster.patch(GROUPS, Key("default", "g"), change)

    run(main())


def test_fields_of_gates_that_are_off_are_dropped() -> None:
    async def main() -> None:
        cluster = server(frozenset({GENERIC}))
        more = {"schedulingConstraints": {"topology": [{"key": "rack"}]}, "priority": 5}
        made = await cluster.create(GROUPS, body(GROUPS, "g", {**GANG, **more}))
        assert made["spec"] == GANG

    run(main())


def test_without_the_gate_the_kinds_are_absent_and_pods_lose_their_group() -> None:
    async def main() -> None:
        cluster = server(frozenset())
        with pytest.raises(NotFoundError):
            await cluster.list(GROUPS)
        group = {"podGroupName": "g"}
        made = await cluster.create(PODS.untyped(), pod(group))
        assert "schedulingGroup" not in made["spec"]
        template = {"spec": {**pod(group)["spec"], "restartPolicy": "Never"}}
        job = await cluster.create(JOBS.untyped(), body(JOBS, "j", {"template": template}))
        assert "schedulingGroup" not in job["spec"]["template"]["spec"]

    run(main())


def test_group_of_a_pod_is_checked_and_fixed() -> None:
    async def main() -> None:
        cluster = server()
        with pytest.raises(ClusterError, match="must specify one of: `podGroupName`"):
            await cluster.create(PODS.untyped(), pod({}))
        with pytest.raises(ClusterError, match="a lowercase RFC 1123 subdomain"):
            await cluster.create(PODS.untyped(), pod({"podGroupName": "A_b"}))
        await cluster.create(PODS.untyped(), pod({"podGroupName": "g"}))
        change = merge_patch({"spec": {"schedulingGroup": {"podGroupName": "h"}}})
        with pytest.raises(ClusterError, match="pod updates may not change fields"):
            await cluster.patch(PODS.untyped(), Key("default", "p"), change)

    run(main())


def test_deleted_group_stays_until_its_pods_have_ended() -> None:
    async def main() -> None:
        clock = VirtualClock()
        api = new_api_server(Storage(clock.now), clock, Random(1), ALL)
        cluster = InProcessCluster(api, "user")
        manager = Manager(clock=clock)
        add_services(manager, api, Random(2))
        running = asyncio.create_task(manager.run())
        await cluster.create(GROUPS, body(GROUPS, "g", GANG))
        await cluster.create(PODS.untyped(), pod({"podGroupName": "g"}))
        await clock.sleep(1)
        key = Key("default", "g")
        await cluster.delete(GROUPS, key, Deletion())
        await clock.sleep(5)
        assert (await cluster.get(GROUPS, key))["metadata"]["deletionTimestamp"]
        await cluster.delete(PODS, Key("default", "p"), Deletion(grace_s=0))
        await clock.sleep(5)
        with pytest.raises(NotFoundError):
            await cluster.get(GROUPS, key)
        manager.stop()
        await running

    run(main())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Nope=true", "there is no feature gate 'Nope'"),
        ("GenericWorkload", "--feature-gates: 'GenericWorkload'"),
        ("GangScheduling=true", "GangScheduling needs GenericWorkload=true"),
    ],
)
def test_wrong_feature_gates_are_refused_with_a_hint(text: str, problem: str) -> None:
    with pytest.raises(CommandError) as caught:
        gates_in(text)
    assert problem in str(caught.value)


def test_feature_gates_are_read_as_kubernetes_writes_them() -> None:
    assert gates_in("GenericWorkload=true,GangScheduling=false") == {GENERIC}
    assert gates_in("") == frozenset()
