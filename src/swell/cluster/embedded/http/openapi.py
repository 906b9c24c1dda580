"""OpenAPI documents: as much as kubectl needs to explain, validate and patch. Pure.

They are of version 3, one document per group and version; `openapi2` has version 2. Each has the
schemas of the kinds and their paths. From the paths kubectl learns which kind is served where, and
that the server validates fields and accepts dry runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources

from swell.api.codec import decode
from swell.api.meta import Body
from swell.cluster.embedded.registry import ServedKind

INFO = {"title": "Swell", "version": "v1"}
GVK = "x-kubernetes-group-version-kind"
REF = "#/components/schemas/"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_JSON = "application/json"

# Returns the schema in the definition of a custom kind; None when it has none.
CustomSchema = Callable[[ServedKind], Body | None]


def index(kinds: Iterable[ServedKind], revision: int) -> Body:
    """The document at `/openapi/v3`: the URLs of the others, with a hash to cache them by."""
    paths = {_root(kind): None for kind in kinds}
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={revision}"} for path in paths
        }
    }


def document(kinds: Sequence[ServedKind], path: str, custom_schema: CustomSchema) -> Body | None:
    """The document at `/openapi/v3/PATH`; None when nothing is served there."""
    served = [kind for kind in kinds if _root(kind) == path]
    if not served:
        return None
    schemas: Body = {}
    served_paths: Body = {}
    for kind in served:
        name = add_schema(kind, schemas, custom_schema)
        served_paths |= paths(kind, name)
    return {
        "openapi": "3.0.0",
        "info": INFO,
        "paths": served_paths,
        "components": {"schemas": schemas},
    }


def _root(kind: ServedKind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def add_schema(kind: ServedKind, schemas: Body, custom_schema: CustomSchema) -> str:
    """Add the schema of a kind and all schemas it refers to; returns its name."""
    if not kind.custom:
        name = str(_builtin()["kinds"].get(f"{kind.api_version}/{kind.kind}", ""))
        if name:
            _add_builtin(name, schemas)
        return name
    reverse = ".".join(reversed(kind.group.split(".")))
    name = f"{reverse}.{kind.version}.{kind.kind}"
    schema = dict(custom_schema(kind) or {"type": "object"})
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    meta = {"metadata": {"allOf": [{"$ref": REF + _OBJECT_META}]}}
    schema["properties"] = {**own, **(schema.get("properties") or {}), **meta}
    schema[GVK] = [gvk(kind)]
    schemas[name] = schema
    _add_builtin(_OBJECT_META, schemas)
    return name


def _add_builtin(name: str, schemas: Body) -> None:
    """Add a built-in schema and all schemas it refers to."""
    pending = [name]
    while pending:
        here = pending.pop()
        definition = _builtin()["definitions"].get(here)
        if here not in schemas and definition is not None:
            schemas[here] = _with_full_references(definition)
            pending.extend(_references(definition))


def _with_full_references(value: object) -> object:
    """The same schema with references as in a document; the data has bare names."""
    if isinstance(value, dict):
        return {
            name: REF + inner
            if name == "$ref" and isinstance(inner, str)
            else _with_full_references(inner)
            for name, inner in value.items()
        }
    return [_with_full_references(inner) for inner in value] if isinstance(value, list) else value


def _references(value: object) -> Iterable[str]:
    pending = [value]
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            reference = here.get("$ref")
            if isinstance(reference, str):
                yield reference
            pending.extend(here.values())
        elif isinstance(here, list):
            pending.extend(here)


def paths(kind: ServedKind, schema: str) -> Body:
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"/{_root(kind)}{scope}/{kind.plural}"
    content = {_JSON: {"schema": {"$ref": REF + schema} if schema else {}}}
    answers = {"200": {"description": "OK", "content": content}}
    marks = {GVK: gvk(kind), "responses": answers}
    written = {**marks, "parameters": _WRITE_PARAMETERS, "requestBody": {"content": content}}
    return {
        collection: {
            "get": {**marks, "x-kubernetes-action": "list"},
            "post": {**written, "x-kubernetes-action": "post"},
        },
        f"{collection}/{{name}}": {
            "get": {**marks, "x-kubernetes-action": "get"},
            "put": {**written, "x-kubernetes-action": "put"},
            "patch": {**written, "x-kubernetes-action": "patch"},
            "delete": {**marks, "x-kubernetes-action": "delete"},
        },
    }


def gvk(kind: ServedKind) -> Body:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


_WRITE_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


@cache
def _builtin() -> Mapping[str, Mapping[str, object]]:
    file = resources.files("swell.cluster.embedded") / "data" / "builtin-schemas.json"
    return decode(file.read_bytes(), dict)
