"""Fills in what users leave out: pure functions that return new values.

Reading structs needs little of this, since their fields have defaults and `size`, `minimum` and
`maximum` follow the rules; it is for showing and writing jobs in full, and for role names.
"""

from __future__ import annotations

import msgspec

from swell.api.aitrainingjob import AITrainingJob, ReplicaSpec
from swell.api.meta import Body
from swell.api.schemas.definitions import DEFINITIONS
from swell.api.schemas.model import Schema
from swell.api.trainingjob import RoleSpec, TrainingJob


def with_defaults(job: AITrainingJob) -> AITrainingJob:
    """The job with every size filled in, and its roles in lower case as its pods have them."""
    roles = {name.lower(): _sized(role) for name, role in job.spec.replica_specs.items()}
    spec = msgspec.structs.replace(job.spec, replica_specs=roles)
    return msgspec.structs.replace(job, spec=spec)


def training_job_with_defaults(job: TrainingJob) -> TrainingJob:
    """The job with its instances filled in; a local one has a single trainer."""
    spec = job.spec
    trainer = msgspec.structs.replace(
        spec.trainer, min_instance=spec.trainer_minimum, max_instance=spec.trainer_maximum
    )
    spec = msgspec.structs.replace(spec, trainer=trainer, pserver=_filled(spec.pserver))
    return msgspec.structs.replace(job, spec=spec)


def body_with_defaults(body: Body) -> Body:
    """A valid manifest of a kind of ours with all defaults written out; others as they are."""
    for definition in DEFINITIONS:
        if definition.kind == body["kind"] and body["apiVersion"].startswith(definition.group):
            full = _filled_in(definition.schema(), body)
            return _with_sizes(full) if definition.kind == "AITrainingJob" else full
    return body


def _sized(role: ReplicaSpec) -> ReplicaSpec:
    return msgspec.structs.replace(
        role, replicas=role.size, min_replicas=role.minimum, max_replicas=role.maximum
    )


def _filled(role: RoleSpec) -> RoleSpec:
    return msgspec.structs.replace(role, min_instance=role.minimum, max_instance=role.maximum)


def _filled_in(schema: Schema, body: Body) -> Body:
    """A copy with the schema's defaults for the fields that are missing, and without nulls."""
    full: Body = {}
    for name, part in body.items():
        expected = schema.properties.get(name, schema.values)
        if part is None and expected is not None:
            continue
        full[name] = _filled_in(expected, part) if expected and isinstance(part, dict) else part
    for name, expected in schema.properties.items():
        if expected.default is not None:
            full.setdefault(name, expected.default)
    return full


def _with_sizes(body: Body) -> Body:
    roles: Body = {}
    for name, role in body["spec"]["replicaSpecs"].items():
        sized = _sized(
            ReplicaSpec(
                replicas=role.get("replicas"),
                min_replicas=role.get("minReplicas"),
                max_replicas=role.get("maxReplicas"),
            )
        )
        roles[name.lower()] = {
            "replicas": sized.replicas,
            "minReplicas": sized.min_replicas,
            "maxReplicas": sized.max_replicas,
            **{key: value for key, value in role.items() if not key.lower().endswith("replicas")},
        }
    return {**body, "spec": {**body["spec"], "replicaSpecs": roles}}
