"""Fetches what the built-in kinds look like from a real API server, and writes it as data.

Run from the top of the tree: `python -m tools.fetch_builtin_schemas [--kubeconfig FILE] [--check]`.
Without a kubeconfig it starts the testbed's control plane. Decides which kinds are taken and which
words of their schemas are kept; the prose is dropped. Equal servers give equal bytes.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import json
import ssl
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import msgspec
import yaml

DATA_DIR = Path(__file__).resolve().parents[1] / "src/swell/cluster/embedded/data"
SCHEMAS_FILE = "builtin-schemas.json"
KINDS_FILE = "builtin-kinds.json"
GATED_SCHEMAS_FILE = "gated-schemas.json"
GATED_KINDS_FILE = "gated-kinds.json"

Kinds: TypeAlias = tuple[tuple[str, str, str], ...]
# Served kinds: group, version, kind. Each brings its list kind.
SERVED: tuple[tuple[str, str, str], ...] = (
    ("", "v1", "ConfigMap"),
    ("", "v1", "Endpoints"),
    ("", "v1", "Event"),
    ("", "v1", "Namespace"),
    ("", "v1", "Node"),
    ("", "v1", "PersistentVolume"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "Pod"),
    ("", "v1", "Secret"),
    ("", "v1", "Service"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("apps", "v1", "ReplicaSet"),
    ("batch", "v1", "Job"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("events.k8s.io", "v1", "Event"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("scheduling.k8s.io", "v1", "PriorityClass"),
    ("storage.k8s.io", "v1", "StorageClass"),
)

# Kinds behind feature gates, which a server serves only if it is told to. Kubernetes serves those
# of resource.k8s.io always; the embedded server has nothing to prepare devices with.
GATED: tuple[tuple[str, str, str], ...] = (
    ("resource.k8s.io", "v1", "DeviceClass"),
    ("resource.k8s.io", "v1", "ResourceClaim"),
    ("resource.k8s.io", "v1", "ResourceClaimTemplate"),
    ("resource.k8s.io", "v1", "ResourceSlice"),
    ("scheduling.k8s.io", "v1alpha2", "PodGroup"),
    ("scheduling.k8s.io", "v1alpha2", "Workload"),
)

# Kinds that are answered and never stored: they can be created only, and have no list kind.
REVIEWS: tuple[tuple[str, str, str], ...] = (
    ("authentication.k8s.io", "v1", "SelfSubjectReview"),
    ("authentication.k8s.io", "v1", "TokenReview"),
    ("authorization.k8s.io", "v1", "LocalSubjectAccessReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "v1", "SubjectAccessReview"),
)

# Kinds that only travel: bodies of subresources and of answers.
TRAVELLING: tuple[tuple[str, str, str], ...] = (
    ("", "v1", "Binding"),
    ("", "v1", "DeleteOptions"),
    ("", "v1", "Status"),
    ("autoscaling", "v1", "Scale"),
    ("policy", "v1", "Eviction"),
)

PROSE = frozenset({"description", "example", "externalDocs", "title"})
SUBSCHEMA_MAPS = frozenset({"properties", "patternProperties"})
SUBSCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf"})
SUBSCHEMAS = frozenset({"additionalProperties", "items", "not"})
OWNERS = "x-kubernetes-group-version-kind"
REF_PREFIX = "#/components/schemas/"

AS_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# A watch of no object: its only event is the bookmark that ends the initial ones.
ONE_BOOKMARK = (
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    "&timeoutSeconds=1&fieldSelector=metadata.name%3Dno-such-object"
)
ABOUT_IT = ("apiVersion", "kind", "metadata")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]


class FetchError(Exception):
    """The server's documents are not what this program understands; the text says where."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    group: str
    version: str
    kind: str


class Subresource(msgspec.Struct, frozen=True):
    subresource: str
    responseKind: GroupVersionKind  # noqa: N815 - the name on the wire
    verbs: list[str]


class ServedResource(msgspec.Struct, frozen=True):
    resource: str
    responseKind: GroupVersionKind  # noqa: N815 - the name on the wire
    scope: str
    verbs: list[str]
    singularResource: str = ""  # noqa: N815 - the name on the wire
    shortNames: list[str] = []  # noqa: N815 - the name on the wire
    categories: list[str] = []
    subresources: list[Subresource] = []


class ServedVersion(msgspec.Struct, frozen=True):
    version: str
    resources: list[ServedResource] = []


class NameOnly(msgspec.Struct, frozen=True):
    name: str = ""


class ServedGroup(msgspec.Struct, frozen=True):
    metadata: NameOnly
    versions: list[ServedVersion]


class Discovery(msgspec.Struct, frozen=True):
    items: list[ServedGroup]


class Column(msgspec.Struct, frozen=True):
    name: str
    type: str
    format: str
    priority: int


class Table(msgspec.Struct, frozen=True):
    columnDefinitions: list[Column]  # noqa: N815 - the name on the wire


class Version(msgspec.Struct, frozen=True):
    gitVersion: str  # noqa: N815 - the name on the wire


@dataclass(frozen=True, slots=True)
class Server:
    """One API server and the right to read from it."""

    host: str
    trust: ssl.SSLContext
    token: str

    def get(self, path: str, accept: str = "application/json") -> bytes:
        connection = http.client.HTTPSConnection(self.host, timeout=30, context=self.trust)
        with contextlib.closing(connection):
            headers = {"Accept": accept, "Authorization": f"Bearer {self.token}"}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            body = response.read()
        if response.status != http.HTTPStatus.OK:
            raise FetchError(f"GET {path} answered {response.status}")
        return body


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fetch the schemas of the built-in kinds.")
    parser.add_argument("--kubeconfig", type=Path, help="read from this cluster (token users only)")
    parser.add_argument("--output-dir", type=Path, default=DATA_DIR)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 if files differ"
    )
    parser.add_argument(
        "--gated", action="store_true", help="fetch the kinds behind feature gates instead"
    )
    flags = parser.parse_args(arguments)
    with _kubeconfig(flags.kubeconfig, is_gated=flags.gated) as kubeconfig:
        server = server_from_kubeconfig(kubeconfig)
        files = gated_data(server) if flags.gated else builtin_data(server)
    differing = [
        name for name, data in files.items() if _read_if_there(flags.output_dir / name) != data
    ]
    for name, data in files.items():
        state = "unchanged" if name not in differing else "differs" if flags.check else "written"
        print(f"{flags.output_dir / name}: {len(data)} bytes, {state}", file=sys.stderr)
        if name in differing and not flags.check:
            flags.output_dir.mkdir(parents=True, exist_ok=True)
            (flags.output_dir / name).write_bytes(data)
    return 1 if flags.check and differing else 0


def builtin_data(server: Server) -> dict[str, bytes]:
    """The data files by name, from one server."""
    version = msgspec.json.decode(server.get("/version"), type=Version).gitVersion
    return {
        SCHEMAS_FILE: _dump({"serverVersion": version, **schemas(server)}),
        KINDS_FILE: _dump({"serverVersion": version, **kinds(server)}),
    }


def gated_data(server: Server) -> dict[str, bytes]:
    """The same for the kinds behind feature gates: what the other files do not have."""
    version = msgspec.json.decode(server.get("/version"), type=Version).gitVersion
    known = json.loads((DATA_DIR / SCHEMAS_FILE).read_bytes())["definitions"]
    found = schemas(server, GATED, GATED)
    definitions = found["definitions"]
    assert isinstance(definitions, dict)
    own = {name: schema for name, schema in definitions.items() if name not in known}
    return {
        GATED_SCHEMAS_FILE: _dump({"serverVersion": version, **found, "definitions": own}),
        GATED_KINDS_FILE: _dump({"serverVersion": version, **kinds(server, GATED)}),
    }


def server_from_kubeconfig(file: Path) -> Server:
    """The current context's server; its user must have a token."""
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    by_name = {
        part: {entry["name"]: entry[part] for entry in config[f"{part}s"]}
        for part in ("cluster", "context", "user")
    }
    context = by_name["context"][config["current-context"]]
    cluster, user = by_name["cluster"][context["cluster"]], by_name["user"][context["user"]]
    if "token" not in user:
        raise FetchError(f"{file}: the user of the current context has no token")
    authority = cluster.get("certificate-authority-data")
    if authority:
        trust = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    else:
        ca_file = cluster.get("certificate-authority")
        trust = ssl.create_default_context(cafile=file.parent / ca_file if ca_file else None)
    return Server(cluster["server"].removeprefix("https://").rstrip("/"), trust, user["token"])


def schemas(server: Server, taken: Kinds = SERVED + REVIEWS, listed: Kinds = SERVED) -> JsonObject:
    """Definitions of every kind taken and of all they refer to, and which definition is whose."""
    definitions: dict[str, JsonObject] = {}
    for path in sorted({_version_path(group, version) for group, version, _ in taken}):
        for name, schema in _documented(server.get(f"/openapi/v3{path}")).items():
            definition = _compact(schema)
            # Every document repeats what it refers to.
            if definitions.setdefault(name, definition) != definition:
                raise FetchError(f"{name} differs between documents")
    roots = _roots(definitions, taken, listed)
    reached = _reachable(definitions, roots.values())
    return {
        "definitions": {name: definitions[name] for name in reached},
        "kinds": dict(roots.items()),
    }


def kinds(server: Server, taken: Kinds = SERVED + REVIEWS) -> JsonObject:
    """How each served kind is named, addressed and shown."""
    found: dict[tuple[str, str, str], ServedResource] = {}
    group_order: list[str] = []
    for path in ("/api", "/apis"):
        discovery = msgspec.json.decode(server.get(path, AS_DISCOVERY), type=Discovery)
        for group in discovery.items:
            group_order.append(group.metadata.name)
            for version in group.versions:
                for resource in version.resources:
                    kind = resource.responseKind.kind
                    found[group.metadata.name, version.version, kind] = resource
    served_groups = {group for group, _, _ in taken}
    return {
        "groups": [name for name in group_order if name in served_groups],
        "kinds": [_kind_entry(server, gvk, found[gvk]) for gvk in taken],
    }


def _documented(raw: bytes) -> dict[str, JsonObject]:
    """The schemas of one OpenAPI document, by name."""
    document = json.loads(raw)
    found: dict[str, JsonObject] = document["components"]["schemas"]
    return found


def _roots(definitions: Mapping[str, JsonObject], taken: Kinds, listed: Kinds) -> dict[str, str]:
    """The definition of every kind taken, by `group/version/kind` (`version/kind` in core)."""
    names: dict[str, str] = {}
    for name, definition in definitions.items():
        owners = definition.get(OWNERS)
        if isinstance(owners, list) and isinstance(owners[0], dict):
            names[_key(*(str(owners[0][part]) for part in ("group", "version", "kind")))] = name
    lists = tuple((group, version, f"{kind}List") for group, version, kind in listed)
    travelling = TRAVELLING if taken != listed else ()
    return {
        key: names[key]
        for key in (_key(*gvk) for gvk in listed + lists + taken[len(listed) :] + travelling)
    }


def _kind_entry(server: Server, gvk: tuple[str, str, str], resource: ServedResource) -> JsonObject:
    group, version, kind = gvk
    table = Table([])
    empty: JsonObject = {}
    if "list" in resource.verbs:
        path = f"{_version_path(group, version)}/{resource.resource}"
        table = msgspec.json.decode(server.get(path, AS_TABLE), type=Table)
        empty = _empty_object(server.get(f"{path}?{ONE_BOOKMARK}"))
    return {
        "group": group,
        "version": version,
        "kind": kind,
        "plural": resource.resource,
        "singular": resource.singularResource,
        "namespaced": resource.scope == "Namespaced",
        "shortNames": list(resource.shortNames),
        "categories": list(resource.categories),
        "verbs": list(resource.verbs),
        "subresources": [_subresource_entry(gvk, one) for one in resource.subresources],
        "columns": [msgspec.to_builtins(column) for column in table.columnDefinitions],
        "empty": empty,
    }


def _empty_object(watched: bytes) -> JsonObject:
    """The fields that a server prints of an object without any, as its bookmarks are."""
    (event,) = (json.loads(line) for line in watched.splitlines())
    if event["type"] != "BOOKMARK":
        raise FetchError(f"expected a bookmark alone, found {event!r}")
    return {name: value for name, value in event["object"].items() if name not in ABOUT_IT}


def _subresource_entry(gvk: tuple[str, str, str], sub: Subresource) -> JsonObject:
    """A response kind without group and version is of the same group and version as its parent."""
    response = sub.responseKind
    foreign = bool(response.group or response.version)
    return {
        "name": sub.subresource,
        "group": response.group if foreign else gvk[0],
        "version": response.version if foreign else gvk[1],
        "kind": response.kind,
        "verbs": list(sub.verbs),
    }


def _compact(schema: Json) -> JsonObject:
    """A schema without prose, and with a wrapped reference as a plain one."""
    if not isinstance(schema, dict):
        raise FetchError(f"expected a schema, found {schema!r}")
    kept: JsonObject = {}
    for word, value in schema.items():
        if word in PROSE:
            continue
        if word == "$ref":
            kept[word] = str(value).removeprefix(REF_PREFIX)
        elif word in SUBSCHEMA_MAPS and isinstance(value, dict):
            kept[word] = {name: _compact(sub) for name, sub in value.items()}
        elif word in SUBSCHEMA_LISTS and isinstance(value, list):
            kept[word] = [_compact(sub) for sub in value]
        elif word in SUBSCHEMAS and isinstance(value, dict):
            kept[word] = _compact(value)
        elif word == OWNERS and isinstance(value, list):
            kept[word] = value[:1]  # its own name; the others are groups that take it too
        else:
            kept[word] = value
    return _unwrapped(kept)


def _unwrapped(schema: JsonObject) -> JsonObject:
    """`allOf` of one reference exists because `$ref` may have no neighbours; ours may."""
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1:
        only = parts[0]
        if isinstance(only, dict) and only.keys() == {"$ref"}:
            rest = {word: value for word, value in schema.items() if word != "allOf"}
            return rest | only
    return schema


def _reachable(definitions: Mapping[str, JsonObject], roots: Iterable[str]) -> list[str]:
    reached: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(_references(definitions[name]))
    return sorted(reached)


def _references(schema: Json) -> Iterator[str]:
    if isinstance(schema, dict):
        for word, value in schema.items():
            if word == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


@contextlib.contextmanager
def _kubeconfig(given: Path | None, *, is_gated: bool) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    from tests.testbed.control_plane import running_control_plane
    from tests.testbed.native_gangs import API_SERVER_FLAGS

    flags = API_SERVER_FLAGS if is_gated else ()
    with running_control_plane(controllers=(), api_server_flags=flags) as plane:
        yield plane.kubeconfig


def _key(group: str, version: str, kind: str) -> str:
    return f"{group}/{version}/{kind}".lstrip("/")


def _version_path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _read_if_there(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _dump(data: JsonObject) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode() + b"\n"


if __name__ == "__main__":
    raise SystemExit(main())
