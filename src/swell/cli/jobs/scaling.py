"""The command `swell scale`: sets the sizes of a job that is under way."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from swell.api.aitrainingjob import AITrainingJob, EdlPolicy, ReplicaSpec
from swell.api.kinds import AI_TRAINING_JOBS, TRAINING_JOBS
from swell.api.meta import Body
from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.job_kinds import FoundJob, JobName, parse_job_name, read_job
from swell.cli.jobs.trainer_size import write_trainer_target
from swell.cli.options import ClusterOptions, option_groups
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ConflictError

Arguments = Annotated[
    list[str],
    typer.Argument(metavar="JOB ROLE=N...", help="Its name, aitj/NAME or tj/NAME; sizes of roles."),
]
_KIND_NAMES = frozenset(
    name
    for kind in (AI_TRAINING_JOBS, TRAINING_JOBS)
    for name in (kind.plural, kind.kind.lower(), *kind.short_names)
)
# Writes that may conflict before the command gives up: the operator writes the status all along.
_TRIES_MAX = 5


@option_groups
def scale(
    arguments: Arguments,
    *,
    replicas: Annotated[
        int | None,
        typer.Option("--replicas", min=0, help="The size, of a job with one role to scale."),
    ] = None,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Set the size of roles whose edlPolicy is Manual, or of a TrainingJob's trainers."""
    sizes = dict(_size(text) for text in arguments if "=" in text)
    names = _job_names([text for text in arguments if "=" not in text])
    if bool(sizes) == (replicas is not None) or not names:
        hint = "for example: swell scale fit trainer=4"
        # A single word is most often a job without its size, or a size without its role.
        problem = f"not a role and a size: {names[-1]!r}" if len(names) > 1 else "say which size"
        raise CommandError(problem if names else "say which job", hint, 2)
    with connected(cluster, writes=True) as connection:
        for name in names:
            found = read_job(connection, connection.namespace(namespace), parse_job_name(name))
            wanted = sizes if replicas is None else {scaled_role(found): replicas}
            scale_job(connection, found, wanted)
            sys.stdout.write(f"{found.title} scaled\n")


def _job_names(arguments: Sequence[str]) -> list[str]:
    """Return the jobs among `[KIND] JOB...`; those behind a kind get it as a prefix."""
    kinds = {"job", "jobs", *_KIND_NAMES}
    if len(arguments) < 2 or arguments[0].lower() not in kinds:
        return list(arguments)
    is_any = arguments[0].lower() in {"job", "jobs"}
    return [name if is_any else f"{arguments[0]}/{name}" for name in arguments[1:]]


def scaled_role(found: FoundJob) -> str:
    """Return the one role whose size `--replicas` means; CommandError if it could be several."""
    if not found.is_ai_training_job:
        return "trainer"
    job = found.as_ai_training_job()
    elastic = [role for role, spec in job.spec.replica_specs.items() if spec.minimum < spec.maximum]
    roles = elastic or list(job.spec.replica_specs)
    if job.spec.scaled_role:
        return job.spec.scaled_role
    if len(roles) != 1:
        hint = f"for example: swell scale {found.key.name} {min(roles)}=4"
        listed = ", ".join(sorted(roles))
        raise CommandError(f"{found.key.name} has several roles: {listed}", hint, 2)
    return roles[0]


def scale_job(connection: ClusterConnection, found: FoundJob, sizes: Mapping[str, int]) -> FoundJob:
    """Set sizes of a job and return it as it was then; CommandError if it cannot have them."""
    key = found.key
    for _ in range(_TRIES_MAX):
        found = read_job(connection, key.namespace, JobName(key.name, found.resource))
        try:
            _resize(connection, found, sizes)
        except ConflictError:
            continue  # another write came between: check the new state
        return found
    raise CommandError(f"{key.name} changes too fast", "try again")


def _resize(connection: ClusterConnection, found: FoundJob, sizes: Mapping[str, int]) -> None:
    """Write the new sizes; ConflictError if the job has changed since it was read."""
    if not found.is_ai_training_job:
        write_trainer_target(connection, found, sizes)
        return
    job = found.as_ai_training_job()
    specs: Body = {}
    scaled: Body = {}
    for role, size in sizes.items():
        _check_size(job.spec.replica_specs[_role_in(job, role)], role, size)
        if role.lower() == job.spec.scaled_role:
            scaled = {"scale": {"replicas": size}}  # it counts instead of the role's own field
        else:
            specs[_role_in(job, role)] = {"replicas": size}
    # The version makes the patch fail if the spec that was checked has changed since.
    version = {"resourceVersion": job.metadata.resource_version}
    body: Body = {"metadata": version, "spec": {"replicaSpecs": specs, **scaled}}
    connection.client.send(calls.patch(AI_TRAINING_JOBS, found.key, merge_patch(body)))


def _size(text: str) -> tuple[str, int]:
    role, _, number = text.partition("=")
    if not role or not number.isdecimal():
        raise CommandError(f"not a role and a size: {text!r}", "write it like trainer=3", 2)
    return role, int(number)


def _role_in(job: AITrainingJob, role: str) -> str:
    """Return the role as the spec writes it; case does not matter."""
    for name in job.spec.replica_specs:
        if name.lower() == role.lower():
            return name
    roles = ", ".join(sorted(job.spec.replica_specs))
    raise CommandError(f"{job.metadata.name} has no role {role}", f"its roles: {roles}")


def _check_size(spec: ReplicaSpec, role: str, size: int) -> None:
    if spec.edl_policy is EdlPolicy.AUTO:
        hint = "set its edlPolicy to Manual to size it yourself"
        raise CommandError(f"{role} is sized by the autoscaler (edlPolicy Auto)", hint)
    if spec.edl_policy is EdlPolicy.NEVER:
        hint = "set its edlPolicy to Manual, and minReplicas below maxReplicas"
        raise CommandError(f"{role} has a fixed size (edlPolicy Never)", hint)
    if not spec.minimum <= size <= spec.maximum:
        hint = "change minReplicas or maxReplicas first"
        raise CommandError(f"{role} may have {spec.minimum} to {spec.maximum} pods", hint)
