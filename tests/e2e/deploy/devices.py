"""Pods that need devices: one by a claim, one by an extended resource that devices stand for."""

from __future__ import annotations

from swell.api.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from swell.api.meta import Body, Key
from swell.runtime.cluster import Cluster, Deletion
from tests.e2e.deploy.rights import Right
from tests.resource_objects import DRIVER, a_device_class, a_resource_claim, a_slice

# What the scheduler asks for on the way.
RIGHTS = (
    Right("create", RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.plural),
    Right("patch", RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.plural),
    Right("patch", RESOURCE_CLAIMS.group, f"{RESOURCE_CLAIMS.plural}/status"),
)
# No request names it: without it the second one above is refused.
BINDING = Right("patch", RESOURCE_CLAIMS.group, f"{RESOURCE_CLAIMS.plural}/binding")
_NAME = "device"
_EXTENDED = "extended"
_CARD = "example.com/card"


async def need_device(user: Cluster, namespace: str, node: str) -> None:
    of_class = a_device_class()
    of_class["spec"]["extendedResourceName"] = _CARD
    await user.create(DEVICE_CLASSES.untyped(), of_class)
    await user.create(RESOURCE_SLICES.untyped(), a_slice(node, 2))
    await user.create(RESOURCE_CLAIMS.untyped(), a_resource_claim(_NAME, 1, namespace))
    container: Body = {"name": "main", "image": "local"}
    for name, spec in (
        (
            _NAME,
            {
                "containers": [container],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": _NAME}],
            },
        ),
        (_EXTENDED, {"containers": [{**container, "resources": {"limits": {_CARD: "1"}}}]}),
    ):
        body: Body = {
            "apiVersion": "v1",
            "kind": PODS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"schedulerName": "swell", **spec},
        }
        await user.create(PODS, body)


async def need_it_no_more(user: Cluster, namespace: str, node: str) -> None:
    for name in (_NAME, _EXTENDED):
        await user.delete(PODS, Key(namespace, name), Deletion(grace_s=0))
    await user.delete(RESOURCE_CLAIMS, Key(namespace, _NAME))
    await user.delete(RESOURCE_SLICES, Key("", f"{node}-{DRIVER}"))
    await user.delete(DEVICE_CLASSES, Key("", DRIVER))
