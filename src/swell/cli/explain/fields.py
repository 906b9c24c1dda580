"""This file tells what the fields of a kind mean, by the server's schemas."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from swell.api import codec
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cli.arguments import find_kind
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection
from swell.cluster.kube import calls

_WIDTH = 96
_KIND_MARK = "x-kubernetes-group-version-kind"
# Schemas refer to each other in circles: those of definitions describe themselves.
_DEPTH_MAX = 12


def kind_of_path(path: str, connection: ClusterConnection) -> Resource[Body] | None:
    """Return the kind that a path of fields begins with; None if it begins with none."""
    name = path.split(".", 1)[0]
    if name.lower() in {"job", "jobs"}:
        name = "aitrainingjobs"
    return find_kind(name, connection.client)


def field_page(
    kind: Resource[Body], path: str, connection: ClusterConnection, *, is_recursive: bool
) -> str:
    """Return kind, type, description and fields of what a path leads to; CommandError if nowhere.

    The path begins with the kind, as in `aitj.spec.replicaSpecs`.
    """
    schemas = _Schemas(_document(kind, connection))
    found = schemas.of_kind(kind)
    if found is None:
        raise CommandError(f"the cluster describes no fields of {kind.plural}")
    names, said = path.split(".")[1:], [kind.kind]
    for name in names:
        fields = schemas.fields(found)
        if name not in fields:
            raise CommandError(f"{'.'.join(said)} has no field {name}", _near(name, fields))
        found, said = fields[name], [*said, name]
    lines = [f"KIND:     {kind.kind} ({kind.api_version})"]
    lines += [f"FIELD:    {'.'.join(names)} <{schemas.type_of(found)}>"] if names else []
    if described := schemas.description(found):
        lines += ["", *_wrapped(described, "  ")]
    shown = list(schemas.tree(found, "  ", _DEPTH_MAX if is_recursive else 1))
    return "\n".join([*lines, *(["", "FIELDS", *shown] if shown else [])]) + "\n"


class _Schemas:
    """The schemas of one group and version, which refer to each other by name."""

    def __init__(self, document: Body) -> None:
        self._schemas: Body = (document.get("components") or {}).get("schemas") or {}

    def of_kind(self, kind: Resource[Body]) -> Body | None:
        wanted = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        for schema in self._schemas.values():
            if wanted in (schema.get(_KIND_MARK) or ()):
                found: Body = schema
                return found
        return None

    def fields(self, schema: Body) -> Mapping[str, Body]:
        """Return the fields of an object; those of its items or values, if it is a collection."""
        return self._inner(schema).get("properties") or {}

    def type_of(self, schema: Body) -> str:
        whole = self._resolved(schema)
        if "items" in whole:
            return f"[]{self.type_of(whole['items'])}"
        if isinstance(whole.get("additionalProperties"), dict):
            return f"map[string]{self.type_of(whole['additionalProperties'])}"
        if whole.get("x-kubernetes-int-or-string") or whole.get("oneOf"):
            return "integer or string"
        return str(whole.get("type") or "object")

    def description(self, schema: Body) -> str:
        """Return the description of a field, or that of its type."""
        own = str(schema.get("description") or self._resolved(schema).get("description") or "")
        inner = str(self._inner(schema).get("description") or "")
        return own or inner

    def tree(self, schema: Body, indent: str, depth: int) -> Iterator[str]:
        """Yield lines for the fields: with their descriptions, or for a whole tree without."""
        required = set(self._inner(schema).get("required") or ())
        for name, field in sorted(self.fields(schema).items()):
            mark = " (required)" if name in required else ""
            allowed = self._inner(field).get("enum") or ()
            values = f" one of: {', '.join(map(str, allowed))}" if allowed else ""
            yield f"{indent}{name} <{self.type_of(field)}>{mark}{values}"
            if depth > 1:
                yield from self.tree(field, f"{indent}  ", depth - 1)
            elif indent == "  ":
                yield from _wrapped(self.description(field), f"{indent}  ")

    def _inner(self, schema: Body) -> Body:
        whole = self._resolved(schema)
        inside = whole.get("items") or whole.get("additionalProperties")
        return self._inner(inside) if isinstance(inside, dict) else whole

    def _resolved(self, schema: Body) -> Body:
        """Return the schema that a reference means; one may be wrapped to give it a default."""
        wrapped: Sequence[Body] = schema.get("allOf") or [{}]
        reference = schema.get("$ref") or wrapped[0].get("$ref")
        if not reference:
            return schema
        found: Body = self._schemas.get(str(reference).rpartition("/")[2]) or {}
        return found


def _document(kind: Resource[Body], connection: ClusterConnection) -> Body:
    paths = codec.decode(connection.client.send(calls.raw("/openapi/v3")), dict).get("paths") or {}
    group = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
    if group not in paths:
        raise CommandError(f"the cluster describes no fields of {kind.plural}")
    return codec.decode(connection.client.send(calls.raw(paths[group]["serverRelativeURL"])), dict)


def _near(name: str, fields: Mapping[str, Body]) -> str:
    import difflib

    near = difflib.get_close_matches(name, fields, 1)
    listed = ", ".join(sorted(fields))
    return f"did you mean {near[0]}?" if near else f"its fields: {listed}" if listed else ""


def _wrapped(text: str, indent: str) -> Sequence[str]:
    paragraphs = [one for one in text.splitlines() if one.strip()]
    return [
        line
        for one in paragraphs
        for line in textwrap.wrap(one, _WIDTH, initial_indent=indent, subsequent_indent=indent)
    ]
