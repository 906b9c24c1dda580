"""Writes a manifest's defaults out, as `swell render` shows them. The input stays as it is."""

from __future__ import annotations

from swell.api.defaults import MAX_REPLICAS, MIN_REPLICAS, REPLICAS
from swell.api.meta import Body
from swell.api.schemas.definitions import DEFINITIONS
from swell.api.schemas.model import Schema


def body_with_defaults(body: Body) -> Body:
    """Returns a valid manifest of one of our kinds in full. Other kinds are returned as they are.

    The roles of an AITrainingJob come out in lower case, as the names of their pods have them.
    """
    for definition in DEFINITIONS:
        if definition.kind == body["kind"] and body["apiVersion"].startswith(definition.group):
            full = _filled_in(definition.schema(), body)
            return _with_sizes(full) if definition.kind == "AITrainingJob" else full
    return body


def _filled_in(schema: Schema, body: Body) -> Body:
    """A copy with the schema's defaults for the fields that are missing, and without nulls."""
    full: Body = {}
    for name, part in body.items():
        expected = schema.properties.get(name, schema.values)
        # The API server drops a null before it fills in defaults. Fields that the schema does not
        # know are kept as they came.
        if part is None and expected is not None:
            continue
        full[name] = _filled_in(expected, part) if expected and isinstance(part, dict) else part
    for name, expected in schema.properties.items():
        if expected.default is not None:
            full.setdefault(name, expected.default)
    return full


def _with_sizes(body: Body) -> Body:
    """The sizes have no default in the schema, because they depend on one another."""
    roles: Body = {
        name.lower(): {
            "replicas": REPLICAS.of_manifest(role.get),
            "minReplicas": MIN_REPLICAS.of_manifest(role.get),
            "maxReplicas": MAX_REPLICAS.of_manifest(role.get),
            **{key: value for key, value in role.items() if not key.lower().endswith("replicas")},
        }
        for name, role in body["spec"]["replicaSpecs"].items()
    }
    return {**body, "spec": {**body["spec"], "replicaSpecs": roles}}
