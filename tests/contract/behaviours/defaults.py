"""What the API server fills into built-in kinds, and what it checks in them."""

from __future__ import annotations

from swell.runtime.errors import BadRequestError, ForbiddenError, InvalidError
from tests.contract.world import (
    JOB,
    POD,
    PRIORITY_CLASS,
    SERVICE,
    World,
    a_pod,
    behaviour,
    causes,
    refused,
)

IMAGE = "images.example/app:1"


@behaviour
async def pod_defaults(world: World) -> None:
    """A pod's policies have values."""
    spec = (await world.make_pod("a"))["spec"]

    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["enableServiceLinks"] is True
    assert spec["securityContext"] == {}


@behaviour
async def container_defaults(world: World) -> None:
    """So have its containers'."""
    container = (await world.make_pod("a"))["spec"]["containers"][0]

    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePolicy"] == "File"
    assert container["resources"] == {}


@behaviour
async def latest_is_always_pulled(world: World) -> None:
    """An image without a tag, or tagged latest, is pulled every time."""
    for name, image in (("a", "images.example/app"), ("b", "images.example/app:latest")):
        containers = [{"name": "main", "image": image}]
        made = await world.make_pod(name, **a_pod(containers=containers))
        assert made["spec"]["containers"][0]["imagePullPolicy"] == "Always"


@behaviour
async def requests_from_limits(world: World) -> None:
    """What is limited is requested, unless said otherwise."""
    limits = {"cpu": "2", "memory": "1Gi"}
    resources = {"limits": limits, "requests": {"cpu": "1"}}
    containers = [{"name": "main", "image": IMAGE, "resources": resources}]
    made = await world.make_pod("a", **a_pod(containers=containers))

    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


@behaviour
async def host_ports_with_host_network(world: World) -> None:
    """On the host's network a container's port is the host's."""
    containers = [{"name": "main", "image": IMAGE, "ports": [{"containerPort": 8080}]}]
    made = await world.make_pod("a", **a_pod(hostNetwork=True, containers=containers))
    port = made["spec"]["containers"][0]["ports"][0]

    assert (port["hostPort"], port["protocol"]) == (8080, "TCP")


@behaviour
async def priority_from_the_class(world: World) -> None:
    """A pod's priority is its class's value at its creation."""
    name = f"pc-{world.ns}"
    await world.make(PRIORITY_CLASS, name, value=1234, preemptionPolicy="Never")
    made = await world.make_pod("a", **a_pod(priorityClassName=name))

    assert made["spec"]["priority"] == 1234
    assert made["spec"]["preemptionPolicy"] == "Never"


@behaviour
async def missing_priority_class(world: World) -> None:
    """A class must be there."""
    await refused(ForbiddenError, world.make_pod("a", **a_pod(priorityClassName="none")))


@behaviour
async def system_priority_classes(world: World) -> None:
    """Two classes are there from the beginning."""
    for name, value in (
        ("system-cluster-critical", 2_000_000_000),
        ("system-node-critical", 2_000_001_000),
    ):
        assert (await world.get(PRIORITY_CLASS, name))["value"] == value


@behaviour
async def no_priority_is_zero(world: World) -> None:
    """Without a class the priority is 0, and lower ones may be preempted."""
    spec = (await world.make_pod("a"))["spec"]

    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")


@behaviour
async def tolerations_for_failing_nodes(world: World) -> None:
    """Every pod stays five minutes on a node that fails."""
    tolerations = (await world.make_pod("a"))["spec"]["tolerations"]
    seconds = {t["key"]: t["tolerationSeconds"] for t in tolerations}

    assert seconds == {
        "node.kubernetes.io/not-ready": 300,
        "node.kubernetes.io/unreachable": 300,
    }


@behaviour
async def pod_without_containers(world: World) -> None:
    """A pod has at least one container."""
    status = await refused(InvalidError, world.make_pod("a", **a_pod(containers=[])))

    assert causes(status) == [("spec.containers", "FieldValueRequired")]


@behaviour
async def container_names_differ(world: World) -> None:
    """Containers of a pod have different names."""
    container = {"name": "main", "image": IMAGE}
    doing = world.make_pod("a", **a_pod(containers=[container, container]))
    status = await refused(InvalidError, doing)

    assert causes(status) == [("spec.containers[1].name", "FieldValueDuplicate")]


@behaviour
async def request_above_limit(world: World) -> None:
    """Nobody requests more than the limit."""
    resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
    containers = [{"name": "main", "image": IMAGE, "resources": resources}]
    status = await refused(InvalidError, world.make_pod("a", **a_pod(containers=containers)))

    assert causes(status) == [("spec.containers[0].resources.requests", "FieldValueInvalid")]


@behaviour
async def unknown_restart_policy(world: World) -> None:
    """There are three restart policies."""
    status = await refused(InvalidError, world.make_pod("a", **a_pod(restartPolicy="Sometimes")))

    assert causes(status) == [("spec.restartPolicy", "FieldValueNotSupported")]


@behaviour
async def quality_of_service(world: World) -> None:
    """The quality of service is computed from requests and limits."""
    both = {"limits": {"cpu": "1", "memory": "1Gi"}}
    some = {"requests": {"cpu": "1"}}
    for name, resources, wanted in (
        ("a", {}, "BestEffort"),
        ("b", some, "Burstable"),
        ("c", both, "Guaranteed"),
    ):
        containers = [{"name": "main", "image": IMAGE, "resources": resources}]
        made = await world.make_pod(name, **a_pod(containers=containers))
        assert made["status"]["qosClass"] == wanted


@behaviour
async def service_defaults(world: World) -> None:
    """A service gets an address, a type, and its ports' protocol and target."""
    spec = (await world.make(SERVICE, "a", spec={"ports": [{"port": 80}]}))["spec"]

    assert spec["type"] == "ClusterIP"
    assert spec["sessionAffinity"] == "None"
    assert spec["clusterIP"] == spec["clusterIPs"][0]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


@behaviour
async def headless_service(world: World) -> None:
    """None is an address too, and needs no ports."""
    spec = (await world.make(SERVICE, "a", spec={"clusterIP": "None"}))["spec"]

    assert (spec["clusterIP"], spec["clusterIPs"]) == ("None", ["None"])


@behaviour
async def service_needs_ports(world: World) -> None:
    """A service with an address has ports."""
    status = await refused(InvalidError, world.make(SERVICE, "a", spec={}))

    assert causes(status) == [("spec.ports", "FieldValueRequired")]


@behaviour
async def job_defaults(world: World) -> None:
    """A job runs one pod once, and its pods are found by its UID."""
    template = a_pod(restartPolicy="Never")
    made = await world.make(JOB, "a", spec={"template": template, "suspend": True})
    spec = made["spec"]

    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert spec["completionMode"] == "NonIndexed"
    label = "batch.kubernetes.io/controller-uid"
    assert spec["selector"]["matchLabels"][label] == made["metadata"]["uid"]


@behaviour
async def bad_quantity(world: World) -> None:
    """A quantity has a grammar."""
    resources = {"limits": {"cpu": "lots"}}
    containers = [{"name": "main", "image": IMAGE, "resources": resources}]
    await refused(BadRequestError, world.make_pod("a", **a_pod(containers=containers)))
    assert await world.names(POD) == []
