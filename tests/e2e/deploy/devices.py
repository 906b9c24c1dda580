"""A pod that needs a device."""

from __future__ import annotations

from swell.api.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from swell.api.meta import Body, Key
from swell.runtime.cluster import Cluster, Deletion
from tests.e2e.deploy.rights import Right
from tests.resource_objects import DRIVER, a_device_class, a_resource_claim, a_slice

# What the scheduler asks for on the way.
RIGHTS = (
    Right("patch", RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.plural),
    Right("patch", RESOURCE_CLAIMS.group, f"{RESOURCE_CLAIMS.plural}/status"),
)
# No request names it: without it the second one above is refused.
BINDING = Right("patch", RESOURCE_CLAIMS.group, f"{RESOURCE_CLAIMS.plural}/binding")
_NAME = "device"


async def need_device(user: Cluster, namespace: str, node: str) -> None:
    await user.create(DEVICE_CLASSES.untyped(), a_device_class())
    await user.create(RESOURCE_SLICES.untyped(), a_slice(node, 1))
    await user.create(RESOURCE_CLAIMS.untyped(), a_resource_claim(_NAME, 1, namespace))
    body: Body = {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "metadata": {"name": _NAME, "namespace": namespace},
        "spec": {
            "schedulerName": "swell",
            "containers": [{"name": "main", "image": "local"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": _NAME}],
        },
    }
    await user.create(PODS, body)


async def need_it_no_more(user: Cluster, namespace: str, node: str) -> None:
    await user.delete(PODS, Key(namespace, _NAME), Deletion(grace_s=0))
    await user.delete(RESOURCE_CLAIMS, Key(namespace, _NAME))
    await user.delete(RESOURCE_SLICES, Key("", f"{node}-{DRIVER}"))
    await user.delete(DEVICE_CLASSES, Key("", DRIVER))
