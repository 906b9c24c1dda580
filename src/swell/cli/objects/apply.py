"""`swell apply`: make the cluster's objects what manifests say."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.arguments import resource_of
from swell.cli.choice import Flags
from swell.cli.connection import ClusterConnection, connected
from swell.cli.failure import CommandError
from swell.cli.objects.printing import slashed
from swell.cli.objects.threeway import patch_to, with_last_applied
from swell.cli.sources import read_valid
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import AlreadyExistsError, NotFoundError


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object of a manifest, and where it belongs."""

    resource: Resource[Body]
    key: Key
    body: Body


def apply(
    *,
    files: options.Files,
    namespace: options.Namespace = "",
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    embedded: options.Embedded = False,
) -> None:
    """Create or update objects. If anything is invalid, nothing is sent."""
    readings = read_valid(files)
    bodies = [document.body for reading in readings for document in reading.documents]
    if not bodies:
        raise CommandError("there is no object in these manifests", "are they saved?")
    with connected(Flags(kubeconfig, context, embedded)) as connection:
        wanted = [placed(body, connection, namespace) for body in bodies]
        connection.announce_change()
        for one in wanted:
            done = apply_one(one, connection)
            sys.stdout.write(f"{slashed(one.body)} {done}\n")


def placed(body: Body, connection: ClusterConnection, namespace: str) -> Wanted:
    """Find the object's resource and namespace before anything is sent."""
    api_version, kind = body["apiVersion"], body["kind"]
    resource = resource_of(api_version, kind, connection.client)
    if resource is None:
        hint = "install its CustomResourceDefinition first"
        raise CommandError(f"the cluster has no kind {kind} in {api_version}", hint)
    meta = dict(body["metadata"])
    if not meta.get("name"):
        raise CommandError(f"a {kind} without a name cannot be applied", "give metadata.name")
    meta.pop("namespace", None)
    scope = ""
    if resource.namespaced:
        scope = connection.namespace(namespace, body["metadata"].get("namespace", ""))
        meta["namespace"] = scope
    return Wanted(resource, Key(scope, meta["name"]), {**body, "metadata": meta})


def apply_one(wanted: Wanted, connection: ClusterConnection) -> str:
    """Create the object or patch it; says which."""
    client = connection.client
    try:
        live = client.send(calls.get(wanted.resource, wanted.key))
    except NotFoundError:
        try:
            client.send(calls.create(wanted.resource, with_last_applied(wanted.body)))
        except AlreadyExistsError:  # somebody was faster
            live = client.send(calls.get(wanted.resource, wanted.key))
        else:
            return "created"
    change = patch_to(wanted.body, live)
    if not change:
        return "unchanged"
    client.send(calls.patch(wanted.resource, wanted.key, merge_patch(change)))
    return "configured"
