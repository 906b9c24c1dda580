"""Finds the rules for a manifest by its kind, and applies them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from swell.api.kinds import SHARED_GROUPS
from swell.api.schemas.definitions import DEFINITIONS, Definition
from swell.api.schemas.model import Schema, SchemaType, open_object
from swell.api.validation.access import at
from swell.api.validation.aitrainingjob import job_problems
from swell.api.validation.hints import Places, choices_hint, nearest, places_of, with_place
from swell.api.validation.problems import FieldProblem, ValidationError, show
from swell.api.validation.scheduling import pod_group_problems, queue_problems
from swell.api.validation.structure import structure_problems
from swell.api.validation.topology import hyper_node_problems
from swell.api.validation.trainingjob import training_job_problems

_RULES: dict[str, Callable[[object], Iterator[FieldProblem]]] = {
    "AITrainingJob": job_problems,
    "TrainingJob": training_job_problems,
    "PodGroup": pod_group_problems,
    "Queue": queue_problems,
    "HyperNode": hyper_node_problems,
}
_OURS = {definition.kind: definition for definition in DEFINITIONS}


def validate(body: object) -> list[FieldProblem]:
    """Returns every problem of a manifest. Of other kinds only apiVersion, kind and name count."""
    if not isinstance(body, Mapping):
        hint = "write apiVersion:, kind:, metadata: and spec:"
        return [FieldProblem((), f"must be an object, is {show(body)}", hint)]
    kind, version = _text(body.get("kind")), _text(body.get("apiVersion"))
    meant = _meant(kind, version)
    problems = [*_type_problems(body), *_served_problems(kind, version, meant)]
    if meant is not None:
        places = _places(meant)
        shape = structure_problems(_manifest_schema(meant), body)
        problems += [with_place(problem, places) for problem in shape]
        problems += _RULES[meant.kind](body)
    problems += _name_problems(body, is_ours=meant is not None)
    return problems


def check(body: object) -> None:
    """Raise ValidationError unless the manifest is valid."""
    problems = validate(body)
    if problems:
        raise ValidationError(problems)


def _meant(kind: str, version: str) -> Definition | None:
    """Returns the kind of ours that is meant, also if misspelt; None for other kinds."""
    group = version.rpartition("/")[0]
    ours = _OURS.get(kind)
    siblings = [definition.kind for definition in DEFINITIONS if definition.group == group]
    if ours is not None:
        is_ours = group == ours.group or bool(nearest(group, [ours.group]))
        is_elsewhere = "." in group and not is_ours
        return None if is_elsewhere and kind != "AITrainingJob" else ours
    likely = nearest(kind, siblings)
    return _OURS[likely] if likely else None


def _type_problems(body: Mapping[object, object]) -> Iterator[FieldProblem]:
    examples = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob"}
    for name, example in examples.items():
        value = body.get(name)
        if value is None or value == "":
            yield FieldProblem((name,), "is required", f"for example {name}: {example}")
        elif not isinstance(value, str):
            yield FieldProblem((name,), f"must be a text, is {show(value)}", "put it in quotes")


def _served_problems(kind: str, version: str, meant: Definition | None) -> Iterator[FieldProblem]:
    """Yields a wrong kind or version where one of ours must be meant."""
    group = version.rpartition("/")[0]
    siblings = [definition.kind for definition in DEFINITIONS if definition.group == group]
    # Volcano may have more kinds in these groups than those we share with it.
    is_foreign = not siblings or (group in SHARED_GROUPS and meant is None)
    if kind and not is_foreign and kind not in siblings:
        message = f"{group} has no kind {show(kind)}"
        yield FieldProblem(("kind",), message, choices_hint(kind, siblings))
    elif version and meant is not None and version not in _api_versions(meant):
        message = f"{meant.kind} is not served as {show(version)}"
        yield FieldProblem(("apiVersion",), message, choices_hint(version, _api_versions(meant)))


def _name_problems(body: Mapping[object, object], *, is_ours: bool) -> Iterator[FieldProblem]:
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        if not is_ours:  # of our kinds the schema has reported it
            message = f"must be an object, is {show(metadata)}"
            yield FieldProblem(("metadata",), message, "write fields as name: value, indented")
        return
    if not at(metadata, "name") and not at(metadata, "generateName"):
        yield FieldProblem(("metadata", "name"), "is required", "for example name: my-job")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _api_versions(definition: Definition) -> list[str]:
    return [f"{definition.group}/{version}" for version in definition.versions]


@cache
def _places(definition: Definition) -> Places:
    return places_of(definition.schema())


@cache
def _manifest_schema(definition: Definition) -> Schema:
    """Returns the schema without apiVersion and kind, which are checked here, and the status."""
    schema = definition.schema()
    frame = {"apiVersion": Schema(type=SchemaType.ANY), "kind": Schema(type=SchemaType.ANY)}
    return replace(schema, properties={**schema.properties, **frame, "status": open_object()})
