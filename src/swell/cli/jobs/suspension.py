"""The commands `swell suspend` and `resume`: a job gives its pods back, and queues anew."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from swell.api.meta import Body
from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.connection import connected
from swell.cli.job_kinds import FoundJob, parse_job_name, read_job
from swell.cli.options import ClusterOptions, option_groups
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch

Names = Annotated[list[str], typer.Argument(metavar="JOB...", help="Names of jobs.")]


@option_groups
def suspend(jobs: Names, *, namespace: options.Namespace = "", cluster: ClusterOptions) -> None:
    """Take all pods from jobs, which wait until they are resumed. Restarts are not charged."""
    _set(jobs, namespace, cluster, suspended=True)


@option_groups
def resume(jobs: Names, *, namespace: options.Namespace = "", cluster: ClusterOptions) -> None:
    """Let suspended jobs queue anew."""
    _set(jobs, namespace, cluster, suspended=False)


def _set(jobs: list[str], namespace: str, cluster: ClusterOptions, *, suspended: bool) -> None:
    """Write `spec.suspend` of the jobs, none of them if one cannot be suspended."""
    with connected(cluster, writes=True) as connection:
        scope = connection.namespace(namespace)
        found = [read_job(connection, scope, parse_job_name(name)) for name in jobs]
        for one in found:
            _check(one)
        for one in found:
            body: Body = {"metadata": {"uid": one.uid}, "spec": {"suspend": suspended}}
            connection.client.send(calls.patch(one.resource, one.key, merge_patch(body)))
            sys.stdout.write(f"{one.title} {'suspended' if suspended else 'resumed'}\n")


def _check(found: FoundJob) -> None:
    name = found.key.name
    if found.has_ended:
        raise CommandError(
            f"{name} has ended already: {found.phase}", f"see: swell describe {name}"
        )
