"""Rules between the fields of an AITrainingJob. `structure` checks the shape of each field."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.aitrainingjob import EdlPolicy
from swell.api.defaults import MAX_REPLICAS, MIN_REPLICAS
from swell.api.schemas.aitrainingjob import (
    MIN_WITHIN_MAX,
    MIN_WITHIN_REPLICAS,
    POD_NAMES_FIT,
    REPLICAS_WITHIN_MAX,
    RESERVED_ROLE,
    ROLE_NAME,
    ROLE_NOT_RESERVED,
    ROLES_DISTINCT,
    SCALE_WITHIN_BOUNDS,
    SCALED_ROLE,
)
from swell.api.schemas.shared import NAME_SIZE_MAX
from swell.api.validation.access import at, fields, whole
from swell.api.validation.amounts import template_problems
from swell.api.validation.life import after_problems
from swell.api.validation.problems import FieldProblem, Steps, show
from swell.api.validation.scheduling import topology_problems
from swell.api.validation.structure import matches

_ROLES = ("spec", "replicaSpecs")
# The beginning of Kueue's annotations about topology.
_TOPOLOGY_ANNOTATIONS = "kueue.x-k8s.io/podset-"
_ROLES_LOOKED_AT_MAX = 64  # bounds the work; the schema refuses more than 16


def job_problems(body: object) -> Iterator[FieldProblem]:
    """Yields the broken rules between fields, with the messages that the CRD has for them."""
    roles = list(fields(at(body, *_ROLES)))[:_ROLES_LOOKED_AT_MAX]
    yield from _role_name_problems([name for name, _ in roles])
    yield from topology_problems(at(body, "spec", "networkTopology"), ("spec", "networkTopology"))
    yield from after_problems(body)
    yield from _scale_problems(at(body, "spec", "scale"), dict(roles))
    is_given = at(body, "spec", "networkTopology") is not None
    is_given = is_given or any(at(role, "networkTopology") is not None for _, role in roles)
    for name, role in roles:
        yield from _size_problems(role, (*_ROLES, name))
        yield from template_problems(at(role, "template"), (*_ROLES, name, "template"))
        yield from _pod_name_problems(at(body, "metadata", "name"), name, role)
        steps = (*_ROLES, name, "networkTopology")
        yield from topology_problems(at(role, "networkTopology"), steps)
        if is_given:
            yield from _annotation_problems(role, (*_ROLES, name))


def _scale_problems(scale: object, roles: dict[str, object]) -> Iterator[FieldProblem]:
    if scale is None:
        return
    bounds = {name: _bounds(role) for name, role in roles.items() if _is_resizable(role)}
    role = at(scale, "role")
    scaled = [name for name in bounds if role is None or name == role]
    if len(scaled) != 1:
        hint = f"choose one of {', '.join(bounds)}" if bounds else "set edlPolicy: Manual in a role"
        yield FieldProblem(("spec", "scale"), SCALED_ROLE.message, hint)
        return
    least, most = bounds[scaled[0]]
    size = whole(at(scale, "replicas"))
    if size is not None and not least <= size <= most:
        message = f"{SCALE_WITHIN_BOUNDS.message}: {scaled[0]} may have {least} to {most}"
        hint = f"choose {min(max(size, least), most)}, or change the bounds"
        yield FieldProblem(("spec", "scale", "replicas"), message, hint)


def _is_resizable(role: object) -> bool:
    least, most = _bounds(role)
    return at(role, "edlPolicy") == EdlPolicy.MANUAL.value and least < most


def _bounds(role: object) -> tuple[int, int]:
    def size_of(name: str) -> int | None:
        return whole(at(role, name))

    return MIN_REPLICAS.of_manifest(size_of), MAX_REPLICAS.of_manifest(size_of)


def _role_name_problems(names: list[str]) -> Iterator[FieldProblem]:
    spelt: dict[str, str] = {}
    for name in names:
        steps = (*_ROLES, name)
        lower = name.lower()
        if len(name) > NAME_SIZE_MAX or not matches(ROLE_NAME, name):
            message = f"a role's name {ROLE_NAME.requirement}, is {show(name)}"
            yield FieldProblem(steps, message, f"for example {ROLE_NAME.example}")
        elif lower == RESERVED_ROLE:
            yield FieldProblem(steps, ROLE_NOT_RESERVED.message, "for example trainer or worker")
        elif lower in spelt:
            message = f"{ROLES_DISTINCT.message}, {name} is {spelt[lower]} again"
            yield FieldProblem(steps, message, "give one of them another name")
        spelt.setdefault(lower, name)


def _annotation_problems(role: object, steps: Steps) -> Iterator[FieldProblem]:
    """Yields annotations that ask for a topology in another way than networkTopology does."""
    where = ("template", "metadata", "annotations")
    for name, _ in fields(at(role, *where)):
        if name.startswith(_TOPOLOGY_ANNOTATIONS):
            message = "must not stand beside networkTopology: both say where the pods may be"
            yield FieldProblem((*steps, *where, name), message, "keep one of the two")


def _size_problems(role: object, steps: Steps) -> Iterator[FieldProblem]:
    least, size, most = (
        whole(at(role, name)) for name in ("minReplicas", "replicas", "maxReplicas")
    )
    if least is not None and size is not None and least > size:
        message = f"{MIN_WITHIN_REPLICAS.message} ({show(size)}), is {show(least)}"
        yield FieldProblem((*steps, "minReplicas"), message, "lower minReplicas or raise replicas")
    if size is not None and most is not None and size > most:
        message = f"{REPLICAS_WITHIN_MAX.message} ({show(most)}), is {show(size)}"
        yield FieldProblem((*steps, "replicas"), message, "lower replicas or raise maxReplicas")
    if size is None and least is not None and most is not None and least > most:
        message = f"{MIN_WITHIN_MAX.message} ({show(most)}), is {show(least)}"
        yield FieldProblem(
            (*steps, "minReplicas"), message, "lower minReplicas or raise maxReplicas"
        )


def _pod_name_problems(job: object, name: str, role: object) -> Iterator[FieldProblem]:
    most = MAX_REPLICAS.of_manifest(lambda field: whole(at(role, field)))
    if not isinstance(job, str) or most.bit_length() > NAME_SIZE_MAX:
        return
    excess = len(f"{job}-{name}-{most - 1}") - NAME_SIZE_MAX
    if excess > 0:
        hint = f"shorten the name of the job or of the role by {excess}"
        yield FieldProblem((*_ROLES, name), POD_NAMES_FIT.message, hint)
