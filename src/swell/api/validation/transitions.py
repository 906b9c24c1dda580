"""Changes of an AITrainingJob that are refused once it has begun, with a hint for each.

The CRD has the same rule as CEL, made from the same lists of fields. Here two manifests are
compared before one is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from swell.api.aitrainingjob import AITrainingJobPhase, EdlPolicy
from swell.api.schemas.aitrainingjob import replica_spec, spec
from swell.api.schemas.model import Schema
from swell.api.schemas.training import MANAGER_STAYS
from swell.api.schemas.transitions import (
    FIELDS_FROZEN,
    FROZEN_JOB_FIELDS,
    FROZEN_ROLE_FIELDS,
    REPLICAS_FROZEN,
    ROLES_FROZEN,
    TEMPLATE,
)
from swell.api.validation.access import at, fields, same
from swell.api.validation.problems import FieldProblem, Steps, path_text, show

_ROLES = ("spec", "replicaSpecs")
_NEW_JOB = "start anew: swell replace -f FILE, or swell delete and swell apply"
_DIFFERENCES_MAX = 3  # of one field; a template written anew differs in everything


def change_problems(old: object, new: object) -> list[FieldProblem]:
    """Returns every change from old to new that a job in the old one's phase does not allow."""
    manager = [*_manager_change(old, new)]
    if at(old, "status", "phase") in (None, "") or _is_held(old):
        return manager
    return [*manager, *_job_changes(old, new), *_role_changes(old, new)]


def _manager_change(old: object, new: object) -> Iterator[FieldProblem]:
    before, after = (at(body, "spec", "managedBy") for body in (old, new))
    if not same(before, after):
        message = f"{MANAGER_STAYS.message}; it was {_values(before, after)}"
        yield FieldProblem(("spec", "managedBy"), message, f"undo the change, or {_NEW_JOB}")


def _is_held(job: object) -> bool:
    """Whether a job has been suspended from its beginning, or waits for others."""
    is_pending = at(job, "status", "phase") == AITrainingJobPhase.PENDING.value
    return is_pending and at(job, "status", "startTime") is None


def _job_changes(old: object, new: object) -> Iterator[FieldProblem]:
    schema = spec()
    for name in FROZEN_JOB_FIELDS:
        if not same(_effective(schema, old, "spec", name), _effective(schema, new, "spec", name)):
            yield from _frozen(("spec", name), at(old, "spec", name), at(new, "spec", name))


def _role_changes(old: object, new: object) -> Iterator[FieldProblem]:
    schema = replica_spec()
    is_suspended = at(old, "spec", "suspend") is True or at(new, "spec", "suspend") is True
    old_roles, new_roles = (dict(fields(at(body, *_ROLES))) for body in (old, new))
    for role in sorted(old_roles.keys() | new_roles.keys()):
        steps = (*_ROLES, role)
        if role not in old_roles or role not in new_roles:
            verb = "remove the role" if role in new_roles else "add the role again"
            yield FieldProblem(steps, ROLES_FROZEN, f"{verb}, or {_NEW_JOB}")
            continue
        before, after = old_roles[role], new_roles[role]
        frozen = FROZEN_ROLE_FIELDS if is_suspended else (*FROZEN_ROLE_FIELDS, TEMPLATE)
        for name in frozen:
            if not same(_effective(schema, before, name), _effective(schema, after, name)):
                yield from _frozen((*steps, name), at(before, name), at(after, name))
        if not is_suspended:
            yield from _size_change(before, after, steps)


def _size_change(before: object, after: object, steps: Steps) -> Iterator[FieldProblem]:
    if same(at(before, "replicas"), at(after, "replicas")):
        return
    if at(after, "edlPolicy") != EdlPolicy.MANUAL.value:
        hint = "set edlPolicy: Manual to choose the size yourself; or change minReplicas and"
        values = _values(at(before, "replicas"), at(after, "replicas"))
        message = f"{REPLICAS_FROZEN}; it was {values}"
        yield FieldProblem((*steps, "replicas"), message, f"{hint} maxReplicas")


def _frozen(steps: Steps, old: object, new: object) -> Iterator[FieldProblem]:
    """Yields the problem of a frozen field, with the innermost parts of it that differ."""
    parts = [
        f"{f'{path_text(inner)} was' if inner else 'it was'} {_values(before, after)}"
        for inner, before, after in islice(_differences((), old, new), _DIFFERENCES_MAX)
    ]
    message = f"{FIELDS_FROZEN}; {', '.join(parts)}"
    yield FieldProblem(steps, message, f"undo the change, or {_NEW_JOB}")


def _differences(steps: Steps, old: object, new: object) -> Iterator[tuple[Steps, object, object]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys([*old, *new]):
            yield from _differences((*steps, str(name)), old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _differences((*steps, index), before, after)
    elif not same(old, new):
        yield steps, old, new


def _values(old: object, new: object) -> str:
    before, after = ("not set" if value is None else show(value) for value in (old, new))
    return f"{before} and would be {after}"


def _effective(schema: Schema, value: object, *names: str) -> object:
    """Returns the field, or the default that the API server fills in for it."""
    found = at(value, *names)
    return schema.properties[names[-1]].default if found is None else found
