"""The commands `swell stop`, `fail` and `preempt`: a job ends, and its record and logs stay."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from swell.api.aitrainingjob import STOPPED_ANNOTATION, AITrainingJobPhase
from swell.api.meta import Body
from swell.api.wording import count_of
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.connection import ClusterConnection, connected
from swell.cli.job_kinds import FoundJob, parse_job_name, read_job
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.sweep_names import one_sweep, sweep_names
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch

MESSAGE = "stopped by swell stop"


class StopPhase(StrEnum):
    """The phases that a stopped job can end in. The operator reads them as annotations."""

    FAILED = AITrainingJobPhase.FAILED.value
    PREEMPTED = AITrainingJobPhase.PREEMPTED.value
    NODE_FAIL = AITrainingJobPhase.NODE_FAIL.value


Name = Annotated[str, typer.Argument(metavar="JOB", help="Its name, or aitj/NAME or tj/NAME.")]
Names = Annotated[
    list[str], typer.Argument(metavar="JOB...", help="Names, aitj/NAME, tj/NAME or sweep/NAME.")
]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Becomes the job's message.")]
As = Annotated[
    StopPhase, typer.Option("--as", case_sensitive=False, help="The phase that it ends in.")
]


@option_groups
def stop(
    jobs: Names,
    *,
    ending: As = StopPhase.FAILED,
    reason: Why = MESSAGE,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """End jobs. Their processes end, their records and logs stay: swell delete removes those."""
    with connected(cluster, writes=True) as connection:
        scope = connection.namespace(namespace)
        sweeps = [sweep for name in jobs if (sweep := one_sweep(name)) is not None]
        if sweeps:
            _stop_sweeps(connection, scope, jobs, (ending, reason))
            return
        # All names are looked up before anything is stopped: a typing error stops nothing.
        found = [read_job(connection, scope, parse_job_name(name)) for name in jobs]
        for job in found:
            stop_job(connection, job, ending, reason)
            sys.stdout.write(f"{job.title} stopped\n")


@option_groups
def fail(
    job: Name,
    *,
    reason: Why = "ended by swell fail",
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """End a job as failed. The older form of: swell stop JOB"""
    _stop_by_alias("fail", job, StopPhase.FAILED, (reason, namespace), cluster)


@option_groups
def preempt(
    job: Name,
    *,
    reason: Why = "ended by swell preempt",
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """End a job as preempted. The older form of: swell stop JOB --as Preempted"""
    _stop_by_alias("preempt", job, StopPhase.PREEMPTED, (reason, namespace), cluster)


def _stop_sweeps(
    connection: ClusterConnection, namespace: str, names: list[str], how: tuple[StopPhase, str]
) -> None:
    # Imported here: sweeps stop their jobs by this module.
    from swell.cli.sweeps.actions import stop_jobs
    from swell.cli.sweeps.state import read_sweep

    states = [read_sweep(connection, namespace, sweep) for sweep in sweep_names(names) or ()]
    for state in states:
        counted = count_of(stop_jobs(connection, state, *how), "job")
        sys.stdout.write(f"sweep/{state.name}: {counted} stopped\n")


def stop_job(connection: ClusterConnection, job: FoundJob, ending: StopPhase, message: str) -> None:
    """Ask the operator to end a job that was read; CommandError if it has ended, or cannot so."""
    name = job.key.name
    if not job.is_ai_training_job and ending is not StopPhase.FAILED:
        hint = f"leave --as {ending.value} out"
        raise CommandError(f"{name} is a TrainingJob, which can end as Failed only", hint, USAGE)
    if job.has_ended:
        hint = f"see: swell describe {name}"
        raise CommandError(f"{name} has ended already: {job.phase}", hint)
    notes = {STOPPED_ANNOTATION: message}
    if job.is_ai_training_job:
        # Operators of earlier releases know this annotation only.
        notes[ending.value] = message
    # The uid keeps a later job of the same name alive.
    body: Body = {"metadata": {"uid": job.uid, "annotations": notes}}
    connection.client.send(calls.patch(job.resource, job.key, merge_patch(body)))


def _stop_by_alias(
    command: str, name: str, ending: StopPhase, texts: tuple[str, str], cluster: ClusterOptions
) -> None:
    reason, namespace = texts
    flag = "" if ending is StopPhase.FAILED else f" --as {ending.value}"
    note(f"note: swell {command} is deprecated; write: swell stop {name}{flag}")
    with connected(cluster, writes=True) as connection:
        job = read_job(connection, connection.namespace(namespace), parse_job_name(name))
        stop_job(connection, job, ending, reason)
        sys.stdout.write(f"{job.title} {ending.value.lower()}\n")
