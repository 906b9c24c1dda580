"""Pods that need volumes: of one made by hand, and of one that is to be provisioned."""

from __future__ import annotations

from swell.api.kinds import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from swell.api.meta import Body, Key
from swell.runtime.cluster import Cluster, Deletion, merge_patch
from tests.e2e.deploy.rights import Right
from tests.storage_objects import LOCAL, MADE, a_claim, a_class, a_volume, mounts

# What the scheduler asks for on the way.
RIGHTS = (
    Right("patch", "", PERSISTENT_VOLUMES.plural),
    Right("patch", "", PERSISTENT_VOLUME_CLAIMS.plural),
)
_VOLUME = "by-hand"


async def need_volumes(user: Cluster, namespace: str) -> None:
    """Two pods wait, one for either kind of volume. No provisioner answers for the second."""
    for name in (LOCAL, MADE):
        await user.create(STORAGE_CLASSES.untyped(), a_class(name))
        claim = a_claim(name, name, namespace=namespace)
        del claim["metadata"]["uid"], claim["status"]
        await user.create(PERSISTENT_VOLUME_CLAIMS.untyped(), claim)
    volume = a_volume(_VOLUME, hostPath={"path": "/nowhere"})
    del volume["status"]
    await user.create(PERSISTENT_VOLUMES.untyped(), volume)
    # Where a controller manager runs it does the same.
    phase = merge_patch({"status": {"phase": "Available"}})
    await user.patch(PERSISTENT_VOLUMES.untyped().status, Key("", _VOLUME), phase)
    for name in (LOCAL, MADE):
        container = {"name": "main", "image": "local"}
        body: Body = {
            "apiVersion": "v1",
            "kind": PODS.kind,
            "metadata": {"name": f"volume-{name}", "namespace": namespace},
            "spec": {
                "schedulerName": "swell",
                "containers": [container],
                "volumes": mounts(name),
            },
        }
        await user.create(PODS, body)


async def need_them_no_more(user: Cluster, namespace: str) -> None:
    for name in (LOCAL, MADE):
        await user.delete(PODS, Key(namespace, f"volume-{name}"), Deletion(grace_s=0))
        await user.delete(PERSISTENT_VOLUME_CLAIMS, Key(namespace, name))
        await user.delete(STORAGE_CLASSES, Key("", name))
    await user.delete(PERSISTENT_VOLUMES, Key("", _VOLUME))
