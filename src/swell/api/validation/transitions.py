"""Changes of an AITrainingJob that are refused once it has begun, with a hint for each.

The CRD has the same rule as CEL, made from the same lists of fields. Here two manifests are
compared before one is sent.
"""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.aitrainingjob import EdlPolicy
from swell.api.schemas.aitrainingjob import replica_spec, spec
from swell.api.schemas.model import Schema
from swell.api.schemas.transitions import (
    FIELDS_FROZEN,
    FROZEN_JOB_FIELDS,
    FROZEN_ROLE_FIELDS,
    REPLICAS_FROZEN,
    ROLES_FROZEN,
)
from swell.api.validation.access import at, fields, same
from swell.api.validation.problems import FieldProblem, Steps

_ROLES = ("spec", "replicaSpecs")
_NEW_JOB = "create another job instead"


def change_problems(old: object, new: object) -> list[FieldProblem]:
    """Returns every change from old to new that a job in the old one's phase does not allow."""
    if at(old, "status", "phase") in (None, ""):
        return []
    return [*_job_changes(old, new), *_role_changes(old, new)]


def _job_changes(old: object, new: object) -> Iterator[FieldProblem]:
    schema = spec()
    for name in FROZEN_JOB_FIELDS:
        if not same(_effective(schema, old, "spec", name), _effective(schema, new, "spec", name)):
            yield FieldProblem(("spec", name), FIELDS_FROZEN, f"undo the change, or {_NEW_JOB}")


def _role_changes(old: object, new: object) -> Iterator[FieldProblem]:
    schema = replica_spec()
    old_roles, new_roles = (dict(fields(at(body, *_ROLES))) for body in (old, new))
    for role in sorted(old_roles.keys() | new_roles.keys()):
        steps = (*_ROLES, role)
        if role not in old_roles or role not in new_roles:
            verb = "remove the role" if role in new_roles else "add the role again"
            yield FieldProblem(steps, ROLES_FROZEN, f"{verb}, or {_NEW_JOB}")
            continue
        before, after = old_roles[role], new_roles[role]
        for name in FROZEN_ROLE_FIELDS:
            if not same(_effective(schema, before, name), _effective(schema, after, name)):
                yield FieldProblem((*steps, name), FIELDS_FROZEN, f"undo the change, or {_NEW_JOB}")
        yield from _size_change(before, after, steps)


def _size_change(before: object, after: object, steps: Steps) -> Iterator[FieldProblem]:
    if same(at(before, "replicas"), at(after, "replicas")):
        return
    if at(after, "edlPolicy") != EdlPolicy.MANUAL.value:
        hint = "set edlPolicy: Manual to choose the size yourself; or change minReplicas and"
        yield FieldProblem((*steps, "replicas"), REPLICAS_FROZEN, f"{hint} maxReplicas")


def _effective(schema: Schema, value: object, *names: str) -> object:
    """Returns the field, or the default that the API server fills in for it."""
    found = at(value, *names)
    return schema.properties[names[-1]].default if found is None else found
