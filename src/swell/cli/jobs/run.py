"""The commands `swell run` and `attach`: submit a job and follow it; follow one again.

People wait for these commands: what only some of them need is loaded where it is needed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.kinds import PODS
from swell.api.meta import Body, Key
from swell.cli import options
from swell.cli.choice import NoClusterError, choose_running_or_not, home_to_use
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import (
    ClusterConnection,
    connected,
    current_environment,
    refuse_rival,
)
from swell.cli.job_kinds import (
    JOB_KINDS,
    FoundJob,
    find_job,
    no_job,
    parse_job_name,
    try_read,
)
from swell.cli.jobs.command_job import CommandOptions, add_caller, command_job, given_flags
from swell.cli.jobs.submission import Strict, warn, with_submitter
from swell.cli.manifests import read_valid
from swell.cli.objects.apply import apply_one, resolve
from swell.cli.objects.deleting import delete_one, wait_until_gone
from swell.cli.objects.three_way import with_last_applied
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import to_yaml
from swell.cli.sweep_names import one_sweep
from swell.cluster.home import READY_LOCK, SERVER, lock_holder
from swell.cluster.kube import calls
from swell.runtime.errors import AlreadyExistsError, NotFoundError

if TYPE_CHECKING:
    from swell.cli.invocation import Invocation

# A job that cannot start on this cluster as it is; no shell or tool gives this code a meaning.
CANNOT_START = 3

FileOrCommand = Annotated[
    list[str] | None, typer.Argument(metavar="FILE | -- CMD...", help="Manifest, or -.")
]
Name = Annotated[str, typer.Option("--name", help="Name of the job.", show_default=False)]
Detach = Annotated[bool, typer.Option("--detach", help="Only submit.")]
PrintOnly = Annotated[bool, typer.Option("--print", help="Print the manifest, and submit nothing.")]
WaitForever = Annotated[
    bool, typer.Option("--wait-forever", help="Also for a job that cannot start as things are.")
]


@option_groups
def run(
    invoked: typer.Context,
    arguments: FileOrCommand = None,
    *,
    name: Name = "",
    asked: CommandOptions,
    detach: Detach = False,
    print_only: PrintOnly = False,
    strict: Strict = False,
    wait_forever: WaitForever = False,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Submit a job, print what it prints, and end as it ends.

    A job is a manifest, or a command: swell run --name fit --min 1 --max 4 -- python train.py
    """
    # Typer drops a `--`: the command after it comes from the line as it was written.
    invocation: Invocation = invoked.obj
    file = _manifest_of(arguments or [])
    if (file is None) == (invocation.command is None):
        raise CommandError("give a manifest, or a command after --", "see: swell run --help", USAGE)
    if file is not None and asked != CommandOptions():
        hint = "they are for: swell run [OPTIONS] -- CMD"
        flags = ", ".join(given_flags(asked))
        raise CommandError(f"{flags}: a manifest says itself what it asks for", hint, USAGE)
    if file is None:
        documents = [command_job(name, invocation.command or (), asked, os.environ)]
    else:
        documents = [doc for reading in read_valid([file]) for doc in reading.documents]
    job, others = job_among([document.body for document in documents], name)
    if print_only:
        if file is None and home_to_use(cluster, current_environment()) is not None:
            add_caller(job, asked, os.environ, Path.cwd())
        sys.stdout.write("---\n".join(map(to_yaml, [*others, job])))
        return
    with connected(with_embedded_cluster(cluster), writes=True) as connection:
        if file is None and connection.embedded:
            # The processes run on this machine, where relative paths of the command are meant.
            add_caller(job, asked, os.environ, Path.cwd())
        warnings = warn(documents, connection, is_strict=strict)
        for other in others:
            apply_one(resolve(other, connection, namespace), connection)
        created = submit_job(job, connection, namespace)
        if detach:
            sys.stdout.write(f"{created.title} created\n")
        elif not wait_forever and any(warning.is_never for warning in warnings):
            hint = f"it stays submitted; remove it: swell delete {created.key.name}; or wait for"
            message = f"{created.key.name} cannot start on this cluster as it is"
            raise CommandError(message, f"{hint} a change: --wait-forever", CANNOT_START)
        else:
            # Loaded while the job starts, which takes as long.
            from swell.cli.jobs.following import follow_job

            raise typer.Exit(follow_job(created, connection))


@option_groups
def attach(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="Its name, aitj/NAME, tj/NAME or sweep/NAME.")
    ],
    *,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Follow a job that was submitted, and end as it ends; Ctrl-C detaches."""
    with connected(cluster, writes=one_sweep(job) is not None) as connection:
        if (sweep := one_sweep(job)) is not None:
            from swell.cli.sweeps.follow import follow_sweep

            raise typer.Exit(follow_sweep(connection, connection.namespace(namespace), sweep))
        from swell.cli.jobs.following import follow_job

        scope, name = connection.namespace(namespace), parse_job_name(job)
        found = find_job(connection, scope, name)
        if found is None:
            raise _no_job_to_follow(connection, Key(scope, name.name))
        raise typer.Exit(follow_job(found, connection))


def _no_job_to_follow(connection: ClusterConnection, key: Key) -> CommandError:
    """Return the error for a name that no job has; it may be a pod's, as kubectl attaches to."""
    try:
        connection.client.send(calls.get(PODS.untyped(), key))
    except NotFoundError:
        return no_job(key)
    return CommandError(f"{key.name} is a pod, and attach takes a job", f"swell logs -f {key.name}")


def _manifest_of(arguments: list[str]) -> str | None:
    """Return the one manifest that is named; a command in its place is explained."""
    if not arguments:
        return None
    looks_like_command = not Path(arguments[0]).exists() and shutil.which(arguments[0]) is not None
    if len(arguments) > 1 or looks_like_command:
        meant = f"swell run -- {shlex.join(arguments)}"
        raise CommandError("put -- before the command", meant, USAGE)
    return arguments[0]


def job_among(bodies: list[Body], name: str) -> tuple[Body, list[Body]]:
    """Return the one job among some objects, renamed if a name is given, and the others."""
    kinds = {kind.kind for kind in JOB_KINDS}
    jobs = [body for body in bodies if body["kind"] in kinds]
    if len(jobs) != 1:
        hint = "swell apply takes any number of objects"
        raise CommandError(
            f"run takes one AITrainingJob or TrainingJob, and here are {len(jobs)}", hint
        )
    others = [body for body in bodies if body is not jobs[0]]
    if not name:
        return jobs[0], others
    return {**jobs[0], "metadata": {**jobs[0]["metadata"], "name": name}}, others


def with_embedded_cluster(flags: ClusterOptions) -> ClusterOptions:
    """Start the embedded cluster if it is the one to use and does not run yet."""
    environment = current_environment()
    home = home_to_use(flags, environment)
    if home is None:
        return flags
    with suppress(NoClusterError):  # where none is chosen, this one is
        refuse_rival(choose_running_or_not(flags, environment))
    running = lock_holder(home)
    # `swell server` runs alone on purpose: its other parts are not waited for.
    if running is None or (running.what != SERVER and not lock_holder(home, READY_LOCK)):
        from swell.cli.cluster.up import start_in_background, wait_for_parts

        start_in_background(home, []) if running is None else wait_for_parts(home)
    return ClusterOptions(embedded=True)


def submit_job(body: Body, connection: ClusterConnection, namespace: str) -> FoundJob:
    """Create the job, after deleting a finished one of its kind and name."""
    resolved = resolve(body, connection, namespace)
    # A manifest may be of an older version of its kind; a job is read in the newest.
    kind = next(kind for kind in JOB_KINDS if kind.kind == body["kind"])
    found = try_read(connection, kind, resolved.key)
    if found is not None:
        _delete_finished(found, connection)
    call = calls.create(resolved.resource, with_submitter(with_last_applied(resolved.body)))
    try:
        return FoundJob(kind, connection.client.send(call))
    except AlreadyExistsError as error:
        raise CommandError(f"somebody else has just created {resolved.key.name}") from error


def _delete_finished(found: FoundJob, connection: ClusterConnection) -> None:
    name = found.key.name
    if not found.has_ended and "deletionTimestamp" not in found.body["metadata"]:
        hint = f"wait for it: swell logs -f {name}; end it: swell delete {name}; or give --name"
        raise CommandError(f"{name} is still there: {found.phase or 'just created'}", hint)
    # The name is free only when the old job, with its finalizer, is gone.
    delete_one(found.resource, found.body, connection)
    wait_until_gone(found.resource, found.body, connection)
