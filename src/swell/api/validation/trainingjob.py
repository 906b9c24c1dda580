"""Rules between the fields of a TrainingJob. `structure` checks the shape of each field."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.defaults import MAX_INSTANCE, MIN_INSTANCE
from swell.api.schemas.trainingjob import (
    ELASTIC_IS_FAULT_TOLERANT,
    MIN_WITHIN_MAX,
    SCALE_WITHIN_BOUNDS,
)
from swell.api.trainingjob import FrameworkType, TrainingJobSpec
from swell.api.validation.access import at, whole
from swell.api.validation.amounts import requests_problems
from swell.api.validation.life import after_problems
from swell.api.validation.problems import FieldProblem, Steps, show

PORT_MAX = 65535
_UNSET = TrainingJobSpec()  # holds the defaults


def training_job_problems(body: object) -> Iterator[FieldProblem]:
    """Yields the broken rules between fields, with the messages that the CRD has for them."""
    spec = at(body, "spec")
    for role in ("pserver", "trainer"):
        yield from _instance_problems(at(spec, role), ("spec", role))
    for role in ("master", "pserver", "trainer"):
        steps = ("spec", role, "resources")
        yield from requests_problems(at(spec, role, "resources"), steps)
    if _is_elastic(spec) and at(spec, "fault_tolerant") is not True:
        hint = "set fault_tolerant: true, or max-instance equal to min-instance"
        yield FieldProblem(("spec", "fault_tolerant"), ELASTIC_IS_FAULT_TOLERANT.message, hint)
    yield from _port_problems(spec)
    yield from after_problems(body)
    yield from _scale_problems(spec)


def _instance_problems(role: object, steps: Steps) -> Iterator[FieldProblem]:
    least, most = _least(role), whole(at(role, "max-instance"))
    if most is not None and least > most:
        message = f"{MIN_WITHIN_MAX.message} ({show(most)}), is {show(least)}"
        hint = "lower min-instance or raise max-instance"
        yield FieldProblem((*steps, "min-instance"), message, hint)


def _scale_problems(spec: object) -> Iterator[FieldProblem]:
    trainer, size = at(spec, "trainer"), whole(at(spec, "scale", "replicas"))
    least = _least(trainer)
    most = MAX_INSTANCE.of_manifest(lambda field: whole(at(trainer, field)))
    if trainer is not None and size is not None and not least <= size <= most:
        message = f"{SCALE_WITHIN_BOUNDS.message}, which may have {least} to {most}"
        hint = f"choose {min(max(size, least), most)}, or change the bounds"
        yield FieldProblem(("spec", "scale", "replicas"), message, hint)


def _port_problems(spec: object) -> Iterator[FieldProblem]:
    first = whole(at(spec, "port")) or _UNSET.port
    dense, sparse = whole(at(spec, "ports_num")), whole(at(spec, "ports_num_for_sparse"))
    n_dense = _UNSET.ports_num if dense is None else dense
    n_sparse = _UNSET.ports_num_for_sparse if sparse is None else sparse
    last = first + n_dense + n_sparse - 1
    if first <= PORT_MAX < last:
        message = f"the last port would be {show(last)}, beyond {PORT_MAX}"
        yield FieldProblem(("spec", "port"), message, "lower port or ports_num")


def _is_elastic(spec: object) -> bool:
    trainer = at(spec, "trainer")
    most = whole(at(trainer, "max-instance"))
    framework = at(spec, "frame_work", "type")
    is_local = at(spec, "local_job") is True or framework == FrameworkType.LOCAL.value
    return not is_local and most is not None and _least(trainer) < most


def _least(role: object) -> int:
    return MIN_INSTANCE.of_manifest(lambda field: whole(at(role, field)))
