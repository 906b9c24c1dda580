"""Checks manifests as far as that is possible without a cluster: pod templates and built-in kinds.

`swell.api.validation` knows our own kinds. This file adds Kubernetes' side, from the data and the
rules by which the embedded API server judges the same objects: the shape of every pod template and
of built-in kinds, in the words of our validation, then the rules between the fields of a pod, in
the words of an API server. All of them are found at once, before anything is sent.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from swell.api.kinds import AI_TRAINING_JOBS, ALL, TRAINING_JOBS
from swell.api.manifest import Finding, ManifestFile, findings_of
from swell.api.meta import Body
from swell.api.schemas.model import Schema
from swell.api.validation.access import at, fields, items
from swell.api.validation.hints import nearest
from swell.api.validation.problems import UNKNOWN_FIELD, FieldProblem, Steps
from swell.api.validation.published import PublishedSchemas
from swell.api.validation.structure import structure_problems
from swell.cluster.embedded.builtin import definitions
from swell.cluster.embedded.builtin.fields import labels_errors
from swell.cluster.embedded.builtin.podspec import default_pod_spec, template_errors
from swell.schema.decode import DecodeError
from swell.schema.field_errors import FieldError

_CORE = definitions.CORE
_POD_TEMPLATE = f"{_CORE}PodTemplateSpec"
_ROLES = ("master", "pserver", "trainer")
# Parts of a TrainingJob that become parts of its pods, with the definition of an item or value.
_TRAINING_JOB_PARTS: Mapping[Steps, str] = {
    ("spec", "volumes"): "Volume",
    ("spec", "VolumeMounts"): "VolumeMount",
    **{("spec", role, "tolerations"): "Toleration" for role in _ROLES},
    **{("spec", role, "imagePullSecrets"): "LocalObjectReference" for role in _ROLES},
    **{("spec", role, "liveness_probe"): "Probe" for role in _ROLES},
    **{("spec", role, "readiness_probe"): "Probe" for role in _ROLES},
}
# Where a field belongs that stands at a wrong level of a pod template.
_LEVELS = (("Container", "spec.containers[]"), ("PodSpec", "the pod's spec, beside containers"))
_GPU = "nvidia.com/gpu"
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage", _GPU)
_NOT_FOUND = "FieldValueNotFound"
_HINTS = {
    "FieldValueRequired": "add it",
    "FieldValueDuplicate": "give it another one",
    _NOT_FOUND: "correct the name, or add what it refers to",
    "FieldValueForbidden": "leave it out",
}
EMPTY = "there is no object in this file"
_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class _DescribedPart:
    """A part of a manifest that one definition of Kubernetes describes."""

    steps: Steps
    definition: str
    value: object


def all_findings(
    readings: Sequence[ManifestFile], *, refuses_unknown_kinds: bool = False
) -> list[Finding]:
    """Returns everything that is wrong in some files, ordered by file and line."""
    empty = [one for one in readings if not one.documents and not one.findings]
    found = [Finding(one.file, 1, "", EMPTY, "is it saved?") for one in empty]
    return [*found, *findings_of(readings, _KubernetesChecks(refuses_unknown_kinds))]


@dataclass(frozen=True, slots=True)
class _KubernetesChecks:
    refuses_unknown_kinds: bool

    def __call__(self, body: Body, found: Sequence[FieldProblem]) -> Iterator[FieldProblem]:
        problems = list(found)
        for part in _parts(body):
            shape = list(_shape_problems(part))
            problems += shape
            yield from shape
        for steps, template in _templates(body):
            yield from _template_problems(template, steps, problems)
        labels = at(body, "metadata", "labels")
        if isinstance(labels, Mapping) and all(isinstance(v, str) for v in labels.values()):
            yield from map(_problem, labels_errors(dict(labels), "metadata.labels"))
        if self.refuses_unknown_kinds:
            yield from _kind_problems(body)


def _parts(body: Body) -> Iterator[_DescribedPart]:
    """Yields the parts of an object that become pods, or the whole of a built-in kind."""
    version, kind = body.get("apiVersion"), body.get("kind")
    if kind == AI_TRAINING_JOBS.kind:
        for steps, template in _templates(body):
            yield _DescribedPart(steps, _POD_TEMPLATE, template)
    elif kind == TRAINING_JOBS.kind:
        for steps, definition in _TRAINING_JOB_PARTS.items():
            value = at(body, *map(str, steps))
            parts = [((*steps, index), item) for index, item in items(value)] or [(steps, value)]
            yield from (
                _DescribedPart(where, f"{_CORE}{definition}", part)
                for where, part in parts
                if isinstance(part, Mapping)
            )
    elif isinstance(version, str) and isinstance(kind, str):
        name = definitions.names().get((*_group_and_version(version), kind))
        if name is not None:
            # Whoever writes back an object that was read sends its status, which is not used.
            yield _DescribedPart((), name, {k: v for k, v in body.items() if k != "status"})


def _templates(body: Body) -> Iterator[tuple[Steps, object]]:
    kind = body.get("kind")
    if kind == AI_TRAINING_JOBS.kind:
        for role, spec in fields(at(body, "spec", "replicaSpecs")):
            if isinstance(template := at(spec, "template"), Mapping):
                yield ("spec", "replicaSpecs", role, "template"), template
    elif kind in {"Job", "ReplicaSet"}:
        if isinstance(template := at(body, "spec", "template"), Mapping):
            yield ("spec", "template"), template
    elif kind == "Pod" and isinstance(body.get("spec"), Mapping):
        yield (), {"metadata": body.get("metadata"), "spec": body["spec"]}


def _shape_problems(part: _DescribedPart) -> Iterator[FieldProblem]:
    for problem in structure_problems(_schema(part.definition), part.value, part.steps):
        yield _with_level(problem)


def _with_level(problem: FieldProblem) -> FieldProblem:
    """Returns the problem with a better hint if the field belongs to another level of a pod."""
    if problem.message != UNKNOWN_FIELD or not isinstance(name := problem.steps[-1], str):
        return problem
    if problem.steps[-2:-1] == ("resources",) and name in _CONTAINER_RESOURCES:
        return replace(problem, hint="it belongs to requests or limits")
    for definition, place in _LEVELS:
        if name in _schema(f"{_CORE}{definition}").properties:
            return replace(problem, hint=f"it belongs to {place}")
    return problem


def _template_problems(
    template: object, steps: Steps, found: Iterable[FieldProblem]
) -> Iterator[FieldProblem]:
    """Yields the broken rules of a pod; fields that are wrong already are left out of it."""
    wrong = [one.steps[len(steps) :] for one in found if one.steps[: len(steps)] == steps]
    if any(not path or isinstance(path[-1], int) for path in wrong):
        return  # without the item its neighbours would have other numbers
    pruned = copy.deepcopy(template)
    for path in wrong:
        _remove(pruned, path)
    try:
        decoded = definitions.decoders().of(_POD_TEMPLATE)(pruned, None, [])
    except DecodeError as error:
        yield FieldProblem((*steps, *_parsed(error.field)), str(error), "correct it")
        return
    if not isinstance(decoded, dict) or "spec" not in decoded:
        return
    default_pod_spec(decoded["spec"])
    volumes = [str(at(one, "name")) for _, one in items(at(template, "spec", "volumes"))]
    for broken in template_errors(decoded, "template"):
        if broken.reason == _NOT_FOUND and broken.message.partition(": ")[2].strip('"') in volumes:
            continue  # the volume is there, and reported: that is why it does not count
        problem = _problem(broken, volumes)
        # A field that was removed above is missing because of what is reported already.
        inner = problem.steps[1:]
        if inner not in wrong:
            # Servers name the labels of a template without the metadata that holds them.
            inside = ("metadata",) if inner[:1] == ("labels",) else ()
            yield replace(problem, steps=(*steps, *inside, *inner))


def _remove(value: object, path: Steps) -> None:
    for step in path[:-1]:
        if isinstance(step, int):
            inside = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            inside = value.get(step) if isinstance(value, dict) else None
        value = inside
    if isinstance(value, dict):
        value.pop(path[-1], None)


def _problem(error: FieldError, volumes: Sequence[str] = ()) -> FieldProblem:
    steps = _parsed(error.field)
    hint = _HINTS.get(error.reason, "")
    if "volumeMounts" in steps and error.reason == _NOT_FOUND:
        meant = nearest(error.message.partition(": ")[2].strip('"'), volumes)
        hint = f"did you mean {meant}?" if meant else "add a volume of that name to the pod's spec"
    if "must be a standard resource" in error.message and steps:
        name = str(steps[-1])
        likely = _GPU if name.startswith("gpu") else nearest(name, _CONTAINER_RESOURCES)
        listed = f"one of {', '.join(_CONTAINER_RESOURCES)}, or a name with a domain"
        hint = f"did you mean {likely}?" if likely else listed
    return FieldProblem(steps, error.message, hint)


def _parsed(path: str) -> Steps:
    """Returns the steps of a path as servers write it: `spec.containers[0].limits[cpu]`."""
    steps: list[str | int] = []
    for name, key in _STEP.findall(path):
        steps.append(name or (int(key) if key.isdecimal() else key))
    return tuple(steps)


def _kind_problems(body: Body) -> Iterator[FieldProblem]:
    version, kind = body.get("apiVersion"), body.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str) or not version or not kind:
        return  # which is reported already
    group_and_version = _group_and_version(version)
    ours = {(one.group, one.kind) for one in ALL}
    if (group_and_version[0], kind) in ours or (*group_and_version, kind) in definitions.names():
        return
    known = sorted({*(kind for _, kind in ours), *(name for *_, name in definitions.names())})
    likely = nearest(kind, known)
    meant = f"did you mean {likely}? " if likely and likely != kind else ""
    message = f"{kind} in {version} is no kind that is known here"
    yield FieldProblem(("kind",), message, f"{meant}--ignore-unknown passes over it")


def _group_and_version(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


@cache
def _published() -> PublishedSchemas:
    return PublishedSchemas(definitions.schemas())


def _schema(name: str) -> Schema:
    return _published().of(name)
