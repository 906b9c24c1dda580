"""Builds the API server of an embedded cluster, with all its kinds and its initial objects.

The HTTPS server, the in-process cluster and the simulator are built here, so that all three are
the same server.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Final

from swell.api.crds import crd
from swell.api.meta import Body, Key
from swell.api.schemas.definitions import DEFINITIONS
from swell.cluster.embedded.access.defaultroles import (
    default_bindings,
    default_cluster_roles,
    updated_role,
)
from swell.cluster.embedded.access.index import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.builtin.kinds import builtin_registry
from swell.cluster.embedded.builtin.storage import CLASSES, DEFAULT_CLASS
from swell.cluster.embedded.controllers.assembly import BuiltinControllerSettings, add_controllers
from swell.cluster.embedded.controllers.volumes import PROVISIONER
from swell.cluster.embedded.customresources.registrar import Registrar
from swell.cluster.embedded.storage import Storage
from swell.cluster.embedded.verbs.requests import RequestContext
from swell.runtime.clock import Clock
from swell.runtime.manager import Manager

ACTOR = "bootstrap"
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
# Kubernetes' own classes and values.
_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}

# So many UIDs are drawn at once: a kilobyte.
_UIDS_DRAWN = 64


def new_api_server(
    storage: Storage, clock: Clock, rng: random.Random, gates: frozenset[str] = frozenset()
) -> ApiServer:
    """An API server on a new or an old store. Missing system objects are created.

    `gates` are the feature gates that are on; see `builtin.podgroups`.
    """
    api = ApiServer(
        storage,
        builtin_registry(gates),
        clock,
        new_uid=partial(next, random_uids(rng)),
        rng=rng,
    )
    api.background.append(Registrar(api).run)
    api.ensure_namespaces()
    for name, value in _SYSTEM_PRIORITIES.items():
        _ensure(api, _PRIORITY_CLASSES, _priority_class(name, value))
    for definition in DEFINITIONS:
        _ensure(api, _CRDS, crd(definition))
    for role in default_cluster_roles():
        _ensure_role(api, role)
    for binding in default_bindings():
        _ensure(api, CLUSTER_ROLE_BINDINGS, binding)
    return api


def add_services(
    manager: Manager,
    api: ApiServer,
    rng: random.Random,
    settings: BuiltinControllerSettings = BuiltinControllerSettings(),  # noqa: B008
) -> None:
    """Let a manager run the background tasks of an API server and the built-in controllers."""
    if settings.volume_folders is not None:
        _ensure(api, CLASSES, _FOLDER_CLASS)
    for n, run in enumerate(api.background):
        manager.add(f"api-server-{n}", run)
    add_controllers(manager, api, rng, settings)


# The class of claims that name none: a folder of the node where their pod goes.
_FOLDER_CLASS: Final[Body] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}},
    "provisioner": PROVISIONER,
    "volumeBindingMode": "WaitForFirstConsumer",
    "reclaimPolicy": "Delete",
}


def _ensure(api: ApiServer, collection: str, body: Body) -> None:
    """Create an object unless there is one of its name."""
    kind = api.registry.stored(collection)
    if kind is None:
        raise AssertionError(f"{collection} is a built-in kind")
    if api.storage.get(collection, Key("", body["metadata"]["name"])) is None:
        api.create(kind, "", body, RequestContext(ACTOR))


def _ensure_role(api: ApiServer, role: Body) -> None:
    """Create a default role, or give the rules of this release to one of an earlier release."""
    _ensure(api, CLUSTER_ROLES, role)
    key = Key("", role["metadata"]["name"])
    kind, stored = api.registry.stored(CLUSTER_ROLES), api.storage.get(CLUSTER_ROLES, key)
    if kind is None or stored is None:
        raise AssertionError("cluster roles are a built-in kind, and this one has been made")
    updated = updated_role(role, stored.copy())
    if updated is not None:
        api.update(kind, key, updated, RequestContext(ACTOR))


def _priority_class(name: str, value: int) -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": "Used for system pods that the cluster cannot do without.",
    }


def random_uids(rng: random.Random) -> Iterator[str]:
    """Yields UIDs without end, whose bits are drawn for many at once: a draw asks the kernel."""
    while True:
        drawn = rng.getrandbits(128 * _UIDS_DRAWN).to_bytes(16 * _UIDS_DRAWN)
        for at in range(0, len(drawn), 16):
            yield str(uuid.UUID(bytes=drawn[at : at + 16], version=4))
