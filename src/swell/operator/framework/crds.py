"""Puts our CustomResourceDefinitions into a cluster, and waits until it serves them."""

from __future__ import annotations

from swell.api.crds import crd
from swell.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, SCHEDULING
from swell.api.meta import Body, Key
from swell.api.schemas.definitions import DEFINITIONS
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.errors import AlreadyExistsError

_LOOK_S = 0.2
_LOOKS_MAX = 150


class NotEstablishedError(Exception):
    """A definition was accepted, and its kind is still not served."""


async def install_crds(cluster: Cluster, clock: Clock) -> None:
    """Create the definitions, or bring those that are there up to date.

    Those that we share with Volcano are left as they are where it brought them.
    """
    for definition in DEFINITIONS:
        body = crd(definition)
        key = Key("", body["metadata"]["name"])
        try:
            await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, body)
        except AlreadyExistsError:
            if definition.group == SCHEDULING:
                continue
            change = merge_patch({"spec": body["spec"]})
            await cluster.patch(CUSTOM_RESOURCE_DEFINITIONS, key, change)
    for definition in DEFINITIONS:
        await _wait_established(cluster, clock, Key("", crd(definition)["metadata"]["name"]))


async def _wait_established(cluster: Cluster, clock: Clock, key: Key) -> None:
    for _ in range(_LOOKS_MAX):
        if _is_established(await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, key)):
            return
        await clock.sleep(_LOOK_S)
    raise NotEstablishedError(key.name)


def _is_established(definition: Body) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
