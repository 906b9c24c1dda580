"""Finds the rules for a manifest by its kind, and applies them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from swell.api.kinds import SCHEDULING
from swell.api.schemas.definitions import DEFINITIONS, Definition
from swell.api.schemas.model import Schema, open_object
from swell.api.validation.access import at
from swell.api.validation.aitrainingjob import job_problems
from swell.api.validation.problems import FieldProblem, ValidationError, show
from swell.api.validation.scheduling import pod_group_problems, queue_problems
from swell.api.validation.structure import structure_problems
from swell.api.validation.suggestions import choices_hint, nearest
from swell.api.validation.trainingjob import training_job_problems

_RULES: dict[str, Callable[[object], Iterator[FieldProblem]]] = {
    "AITrainingJob": job_problems,
    "TrainingJob": training_job_problems,
    "PodGroup": pod_group_problems,
    "Queue": queue_problems,
}
_OURS = {definition.kind: definition for definition in DEFINITIONS}


def validate(body: object) -> list[FieldProblem]:
    """Every problem of a manifest, in its order. Of kinds that are not ours, only the frame."""
    if not isinstance(body, Mapping):
        hint = "write apiVersion:, kind:, metadata: and spec:"
        return [FieldProblem((), f"must be an object, is {show(body)}", hint)]
    problems = list(_type_problems(body))
    definition = _definition_of(body)
    if not problems and definition is not None:
        problems += structure_problems(_manifest_schema(definition), body)
        problems += _RULES[definition.kind](body)
    problems += _name_problems(body)
    return problems


def check(body: object) -> None:
    """Raise ValidationError unless the manifest is valid."""
    problems = validate(body)
    if problems:
        raise ValidationError(problems)


def _definition_of(body: object) -> Definition | None:
    """The kind of ours that the manifest belongs to, if it is one."""
    kind, version = at(body, "kind"), at(body, "apiVersion")
    definition = _OURS.get(kind) if isinstance(kind, str) else None
    if definition is None or not isinstance(version, str):
        return None
    return definition if version in _api_versions(definition) else None


def _type_problems(body: Mapping[object, object]) -> Iterator[FieldProblem]:
    for name in ("apiVersion", "kind"):
        value = body.get(name)
        if value is None or value == "":
            example = "elasticdeeplearning.ai/v1" if name == "apiVersion" else "AITrainingJob"
            yield FieldProblem((name,), "is required", f"for example {name}: {example}")
        elif not isinstance(value, str):
            yield FieldProblem((name,), f"must be a text, is {show(value)}", "put it in quotes")
    kind, version = body.get("kind"), body.get("apiVersion")
    if isinstance(kind, str) and isinstance(version, str) and kind and version:
        yield from _served_problems(kind, version)


def _served_problems(kind: str, version: str) -> Iterator[FieldProblem]:
    """A kind or version that no API of ours has, where one of ours is clearly meant."""
    group = version.rpartition("/")[0]
    kinds = [definition.kind for definition in DEFINITIONS if definition.group == group]
    if kinds and kind not in kinds:
        # Volcano has kinds of its own beside the two we share with it.
        if group != SCHEDULING or nearest(kind, kinds):
            message = f"{group} has no kind {show(kind)}"
            yield FieldProblem(("kind",), message, choices_hint(kind, kinds))
    elif kind in _OURS and nearest(group, [_OURS[kind].group]):
        served = _api_versions(_OURS[kind])
        if version not in served:
            message = f"{kind} is not served as {show(version)}"
            yield FieldProblem(("apiVersion",), message, choices_hint(version, served))


def _name_problems(body: Mapping[object, object]) -> Iterator[FieldProblem]:
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        if _definition_of(body) is None:
            message = f"must be an object, is {show(metadata)}"
            yield FieldProblem(("metadata",), message, "write fields as name: value, indented")
        return
    if not at(metadata, "name") and not at(metadata, "generateName"):
        yield FieldProblem(("metadata", "name"), "is required", "for example name: my-job")


def _api_versions(definition: Definition) -> list[str]:
    return [f"{definition.group}/{version}" for version in definition.versions]


@cache
def _manifest_schema(definition: Definition) -> Schema:
    """What people write: a status in a manifest is the server's own and does not matter."""
    schema = definition.schema()
    return replace(schema, properties={**schema.properties, "status": open_object()})
