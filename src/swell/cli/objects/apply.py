"""The command `swell apply`: makes the cluster's objects what manifests say, by a three-way patch.

Three views of an object decide what is sent: the manifest now, the manifest applied last, and the
live object. A field of the manifest is set; a field of the last manifest that the new one lacks is
removed; fields that others wrote stay. A list is replaced as a whole.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from swell.api import codec
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.arguments import resource_of
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.manifests import read_valid
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import kind_and_name
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import AlreadyExistsError, NotFoundError

# kubectl's own annotation: an object applied by either program can be applied by the other.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class ManifestObject:
    """One object of a manifest, with the resource and key it is written to."""

    resource: Resource[Body]
    key: Key
    body: Body


@option_groups
def apply(
    *, files: options.Files, namespace: options.Namespace = "", cluster: ClusterOptions
) -> None:
    """Create or update objects. If anything is invalid, nothing is sent."""
    readings = read_valid(files)
    bodies = [document.body for reading in readings for document in reading.documents]
    if not bodies:
        raise CommandError("there is no object in these manifests", "are they saved?")
    with connected(cluster, writes=True) as connection:
        # All of them are resolved before the first is sent: an unknown kind changes nothing.
        resolved = [resolve(body, connection, namespace) for body in bodies]
        for one in resolved:
            done = apply_one(one, connection)
            sys.stdout.write(f"{kind_and_name(one.body)} {done}\n")


def resolve(body: Body, connection: ClusterConnection, namespace: str) -> ManifestObject:
    """Find the resource and the namespace of an object; CommandError when it has none."""
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
    return ManifestObject(resource, Key(scope, meta["name"]), {**body, "metadata": meta})


def apply_one(one: ManifestObject, connection: ClusterConnection) -> str:
    """Create the object or patch it. Returns the word for what was done."""
    client = connection.client
    try:
        live = client.send(calls.get(one.resource, one.key))
    except NotFoundError:
        try:
            client.send(calls.create(one.resource, with_last_applied(one.body)))
        except AlreadyExistsError:  # another client was faster: patch its object
            live = client.send(calls.get(one.resource, one.key))
        else:
            return "created"
    change = patch_to(one.body, live)
    if not change:
        return "unchanged"
    client.send(calls.patch(one.resource, one.key, merge_patch(change)))
    return "configured"


def with_last_applied(manifest: Body) -> Body:
    """Return the manifest with itself in an annotation, for the next three-way patch."""
    meta = dict(manifest["metadata"])
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k != LAST_APPLIED}
    bare = {**manifest, "metadata": {**meta, "annotations": annotations}}
    if not annotations:
        del bare["metadata"]["annotations"]
    record = codec.encode_stable(bare).decode() + "\n"
    return {
        **bare,
        "metadata": {**bare["metadata"], "annotations": {**annotations, LAST_APPLIED: record}},
    }


def patch_to(manifest: Body, live: Body) -> Body:
    """Return the JSON merge patch from the live object to its manifest; empty if none is needed."""
    annotations = live["metadata"].get("annotations") or {}
    record = annotations.get(LAST_APPLIED, "")
    last = codec.decode(record.encode(), dict) if record else {}
    change = _difference(manifest, last, live)
    return _with_record(change, with_last_applied(manifest), annotations.get(LAST_APPLIED))


def _with_record(change: Body, recorded: Body, old: str | None) -> Body:
    record = recorded["metadata"]["annotations"][LAST_APPLIED]
    if not change and record == old:
        return {}
    meta = change.setdefault("metadata", {})
    annotations = dict(meta.get("annotations") or {})
    return {
        **change,
        "metadata": {**meta, "annotations": {**annotations, LAST_APPLIED: record}},
    }


def _difference(new: Body, last: Body, live: Body) -> Body:
    change: Body = {}
    for name, value in new.items():
        before = live.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            old = last.get(name)
            inner = _difference(value, old if isinstance(old, dict) else {}, before)
            if inner:
                change[name] = inner
        elif not _is_contained(value, before) or _is_list_changed(value, last.get(name)):
            change[name] = value
    for name in last:
        if name not in new and name in live and name != LAST_APPLIED:
            change[name] = None
    return change


def _is_contained(manifest: object, live: object) -> bool:
    """Whether the live value has everything that the manifest's has.

    It may have more: defaults that the server filled in, also inside the elements of a list, are
    no difference.
    """
    if isinstance(manifest, dict) and isinstance(live, dict):
        return all(_is_contained(value, live.get(name)) for name, value in manifest.items())
    if isinstance(manifest, list) and isinstance(live, list):
        return len(manifest) == len(live) and all(map(_is_contained, manifest, live))
    return manifest == live


def _is_list_changed(manifest: object, last: object) -> bool:
    """Whether the last manifest had another list here.

    A field taken out of an element is then removed, which `_is_contained` does not notice.
    """
    return isinstance(last, list) and manifest != last
