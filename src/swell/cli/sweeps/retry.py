"""The command `swell retry`: runs jobs again that have ended, one by one or those of a sweep."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from swell.api.aitrainingjob import API_GROUP, FINAL_PHASES
from swell.api.meta import Body
from swell.api.wording import count_of
from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.job_kinds import FoundJob, parse_job_name, read_job
from swell.cli.objects.deleting import delete_one, wait_until_gone
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.progress import ProgressLine
from swell.cli.sweep_names import one_sweep
from swell.cli.sweeps.row_jobs import INDEX_LABEL, ROW_ANNOTATION, SWEEP_LABEL
from swell.cli.sweeps.state import SUCCEEDED, read_sweep
from swell.cluster.kube import calls

Target = Annotated[
    str, typer.Argument(metavar="JOB|sweep/NAME", help="A job, or a sweep and its failed jobs.")
]
# Metadata that users write. A job that runs again keeps these, and nothing of its former life.
_KEPT = ("name", "namespace", "labels")
_OWN = frozenset({SWEEP_LABEL, INDEX_LABEL, ROW_ANNOTATION})
# Annotations that end a job would end the next one, too; names are compared without case.
_ENDINGS = frozenset({*(phase.value.lower() for phase in FINAL_PHASES), "nodefailed"})


@option_groups
def retry(
    target: Target,
    *,
    failed: Annotated[
        bool, typer.Option("--failed", help="Those that did not succeed; so without a flag.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those of a sweep that have succeeded.")
    ] = False,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Run jobs again that have ended. Their records and logs give way to the new ones."""
    if failed and everything:
        raise CommandError("--failed and --all cannot be given together", exit_code=2)
    with connected(cluster, writes=True) as connection:
        scope, sweep = connection.namespace(namespace), one_sweep(target)
        if sweep is None:
            job = read_job(connection, scope, parse_job_name(target))
            if not job.has_ended:
                hint = f"end it first: swell stop {job.key.name}"
                raise CommandError(f"{job.key.name} has not ended: {job.phase}", hint)
            retry_jobs(connection, [job], job.key.name)
            sys.stdout.write(f"{job.title} created\n")
            return
        state = read_sweep(connection, scope, sweep)
        again = [
            job for job in state.jobs if job.has_ended and (everything or job.phase != SUCCEEDED)
        ]
        retry_jobs(connection, again, f"sweep/{sweep}")
        sys.stdout.write(f"sweep/{sweep}: {count_of(len(again), 'job')} created again\n")


def retry_jobs(connection: ClusterConnection, jobs: Sequence[FoundJob], title: str) -> None:
    """Delete jobs that have ended, wait until they are gone, and create them anew."""
    with ProgressLine() as line:
        # All at once: each of them waits for the operator, and they wait together.
        for number, job in enumerate(jobs):
            delete_one(job.resource, job.body, connection)
            line.count(f"{title}: removing", number + 1, len(jobs))
        for number, job in enumerate(jobs):
            wait_until_gone(job.resource, job.body, connection)
            connection.client.send(calls.create(job.resource, anew(job.body)))
            line.count(f"{title}: creating", number + 1, len(jobs))


def anew(body: Body) -> Body:
    """Return the manifest of a job that is to run again, from the record of its former life."""
    meta = body["metadata"]
    notes = meta.get("annotations") or {}
    kept = {
        name: text
        for name, text in notes.items()
        if name in _OWN or (not name.startswith(f"{API_GROUP}/") and name.lower() not in _ENDINGS)
    }
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": {
            **{field: meta[field] for field in _KEPT if field in meta},
            **({"annotations": kept} if kept else {}),
        },
        "spec": body["spec"],
    }
