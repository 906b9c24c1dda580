"""Finds a job by its name, of whichever of the two kinds it is.

A name that both kinds have is refused with the two ways to write it: `aitj/NAME` and `tj/NAME`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from swell.api import codec
from swell.api.aitrainingjob import FINAL_PHASES as AI_TRAINING_JOB_ENDS
from swell.api.aitrainingjob import AITrainingJob
from swell.api.kinds import AI_TRAINING_JOBS, TRAINING_JOBS
from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.api.trainingjob import FINAL_PHASES as TRAINING_JOB_ENDS
from swell.api.trainingjob import TrainingJob
from swell.cli.arguments import ObjectArguments
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection
from swell.cluster.kube import calls
from swell.runtime.errors import NotFoundError

T = TypeVar("T", AITrainingJob, TrainingJob)
JOB_KINDS: tuple[Resource[Body], ...] = (AI_TRAINING_JOBS.untyped(), TRAINING_JOBS.untyped())
_ENDS = {
    str(AI_TRAINING_JOBS): frozenset(phase.value for phase in AI_TRAINING_JOB_ENDS),
    str(TRAINING_JOBS): frozenset(phase.value for phase in TRAINING_JOB_ENDS),
}


@dataclass(frozen=True, slots=True)
class JobName:
    """A job's name as the user wrote it; without a kind, both are tried."""

    name: str
    kind: Resource[Body] | None = None


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job of either kind, as far as the commands treat both alike."""

    resource: Resource[Body]
    body: Body

    @property
    def key(self) -> Key:
        meta = self.body["metadata"]
        return Key(meta.get("namespace", ""), meta["name"])

    @property
    def uid(self) -> Uid:
        return Uid(self.body["metadata"]["uid"])

    @property
    def phase(self) -> str:
        return str(_status(self.body).get("phase", ""))

    @property
    def wait_reason(self) -> str:
        """The name of the reason, for a kind that has one beside the sentence."""
        status = self.body.get("status") or {}
        return str(status.get("reason", "")) if self.is_ai_training_job else ""

    @property
    def message(self) -> str:
        """The kind's own text about its phase: `message`, or `reason` where there is no other."""
        name = "message" if self.is_ai_training_job else "reason"
        return str(_status(self.body).get(name, ""))

    @property
    def ready(self) -> str:
        return str(_status(self.body).get("ready", ""))

    @property
    def has_ended(self) -> bool:
        return self.phase in _ENDS[str(self.resource)]

    @property
    def is_ai_training_job(self) -> bool:
        return str(self.resource) == str(AI_TRAINING_JOBS)

    @property
    def title(self) -> str:
        """The job as commands report on it."""
        return f"{self.resource.kind.lower()}/{self.key.name}"

    def as_ai_training_job(self) -> AITrainingJob:
        return _decoded(self.body, AITrainingJob)

    def as_training_job(self) -> TrainingJob:
        return _decoded(self.body, TrainingJob)


def parse_job_name(text: str) -> JobName:
    """Parse `fit`, `aitj/fit` or `tj/fit`."""
    kind, slash, name = text.partition("/")
    if not slash:
        return JobName(text)
    if kind.lower() in {"job", "jobs"}:
        return JobName(name)
    for resource in JOB_KINDS:
        if kind.lower() in {resource.plural, resource.kind.lower(), *resource.short_names}:
            return JobName(name, resource)
    raise CommandError(f"{kind!r} is no kind of job", "write it as NAME, aitj/NAME or tj/NAME", 2)


def read_job(connection: ClusterConnection, namespace: str, given: JobName) -> FoundJob:
    """Return the job of that name; CommandError when there is none, or one of each kind."""
    found = find_job(connection, namespace, given)
    if found is None:
        raise no_job(Key(namespace, given.name))
    return found


def no_job(key: Key) -> CommandError:
    return CommandError(f"no job {key.name} in namespace {key.namespace}", "see: swell get")


def find_job(connection: ClusterConnection, namespace: str, given: JobName) -> FoundJob | None:
    """Return the job of that name, None if there is none; CommandError for one of each kind."""
    key = Key(namespace, given.name)
    kinds = (given.kind,) if given.kind is not None else JOB_KINDS
    found = [job for kind in kinds if (job := try_read(connection, kind, key)) is not None]
    if len(found) > 1:
        named = f"an AITrainingJob and a TrainingJob are named {given.name}"
        raise CommandError(named, f"say which: aitj/{given.name} or tj/{given.name}")
    return found[0] if found else None


def try_read(connection: ClusterConnection, kind: Resource[Body], key: Key) -> FoundJob | None:
    try:
        return FoundJob(kind, connection.client.send(calls.get(kind, key)))
    except NotFoundError:
        return None  # also when the cluster does not serve the kind


def by_kind(
    arguments: ObjectArguments, connection: ClusterConnection, namespace: str
) -> Sequence[ObjectArguments]:
    """Split arguments that name no kind into those of each kind of job.

    A name that neither kind has stays with the first, whose server says that it is not found.
    """
    if not arguments.is_any_job:
        return [arguments]
    if not arguments.names:
        return [ObjectArguments(kind, ()) for kind in JOB_KINDS]
    names: dict[str, list[str]] = {kind.plural: [] for kind in JOB_KINDS}
    for name in arguments.names:
        found = find_job(connection, namespace, JobName(name))
        names[(found.resource if found is not None else JOB_KINDS[0]).plural].append(name)
    groups = (ObjectArguments(kind, tuple(names[kind.plural])) for kind in JOB_KINDS)
    return [group for group in groups if group.names]


def _status(body: Body) -> Body:
    status = body.get("status")
    return status if isinstance(status, dict) else {}


def _decoded(body: Body, type_: type[T]) -> T:
    try:
        return codec.convert(body, type_)
    except msgspec.ValidationError as error:
        name = body["metadata"]["name"]
        raise CommandError(
            f"{name} cannot be read: {error}", f"see: swell describe {name}"
        ) from error
