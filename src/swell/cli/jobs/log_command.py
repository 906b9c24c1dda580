"""The command `swell logs`: what the containers of a job or of pods have printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from swell.api.kinds import PODS
from swell.api.meta import Body, Key, Uid
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.job_kinds import FoundJob, find_job, parse_job_name
from swell.cli.jobs.follow import JobFollower, print_plain, print_prefixed
from swell.cli.jobs.live_line import SilentLine
from swell.cli.jobs.log_options import LogOptions, TailedLogs, chosen_logs
from swell.cli.jobs.logs import (
    ContainerFilter,
    FileJobLogs,
    LogLine,
    PodLogs,
    check_filter,
)
from swell.cli.options import ClusterOptions, option_groups, seconds_of
from swell.cli.sweep_names import one_sweep
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection
from swell.runtime.errors import NotFoundError

_POD_KINDS = frozenset({"pod", "pods", "po"})


@option_groups
def logs(
    name: Annotated[
        str | None,
        typer.Argument(metavar="JOB|POD", help="A job, a pod (pod/NAME), or sweep/NAME."),
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Stay until it ends.")] = False,
    role: Annotated[str, typer.Option("--role", help="Of this role alone.")] = "",
    index: Annotated[int | None, typer.Option("--index", min=0, help="Of this pod alone.")] = None,
    container: Annotated[str, typer.Option("-c", "--container", help="Of this one alone.")] = "",
    tail: Annotated[
        int | None, typer.Option("--tail", help="The last lines of each pod; -1 for all.")
    ] = None,
    since: Annotated[
        float | None,
        typer.Option("--since", parser=seconds_of, metavar="DURATION", help="As 10m: not older."),
    ] = None,
    since_time: Annotated[
        str,
        typer.Option("--since-time", metavar="TIME", help="As 2026-01-31T12:00:00Z: not older."),
    ] = "",
    limit_bytes: Annotated[
        int | None, typer.Option("--limit-bytes", min=1, help="So much of each container.")
    ] = None,
    all_containers: Annotated[
        bool, typer.Option("--all-containers", help="As without -c: of all containers.")
    ] = False,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="The pod before each line, also of a single one.")
    ] = False,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="The time before each line.")
    ] = False,
    previous: Annotated[
        bool, typer.Option("-p", "--previous", help="Of the containers' runs before.")
    ] = False,
    ended: Annotated[
        bool, typer.Option("--ended", help="Of a job that is over, also if it was deleted.")
    ] = False,
    labels: options.Labels = "",
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Print what the containers of a job have printed, also when its pods are gone."""
    # A negative number means all lines, as for kubectl; a fraction of a second counts as one.
    n_lines = None if tail is None or tail < 0 else tail
    since_s = None if since is None else max(1, round(since))
    wanted = LogOptions(n_lines, since_s, timestamps, previous, since_time, limit_bytes, prefix)
    wanted.check()
    if all_containers and container:
        raise CommandError("--all-containers and -c contradict each other", exit_code=USAGE)
    if bool(name) == bool(labels):
        raise CommandError("say whose logs: a job, a pod, or -l LABELS", exit_code=USAGE)
    filter_ = ContainerFilter(role, index, container)
    with connected(cluster) as connection:
        scope = connection.namespace(namespace)
        if (sweep := one_sweep(name or "")) is not None:
            _print_sweep(connection, scope, sweep, filter_, wanted, follow=follow)
        elif ended and name and find_job(connection, scope, parse_job_name(name)) is None:
            show = print_plain if _is_one_pod(filter_, wanted) else print_prefixed
            key = Key(scope, parse_job_name(name).name)
            show(_kept_lines(connection, key, filter_, n_lines))
        else:
            selection = Selection(scope, labels)
            _print(connection, name or "", selection, filter_, wanted, follow=follow)


def _is_one_pod(filter_: ContainerFilter, wanted: LogOptions) -> bool:
    """Whether lines need no pod before them: one pod's output can be read by programs."""
    return bool(filter_.role) and filter_.index is not None and not wanted.prefix


def _print(
    connection: ClusterConnection,
    name: str,
    selection: Selection,
    filter_: ContainerFilter,
    wanted: LogOptions,
    *,
    follow: bool,
) -> None:
    """Print the logs of a job, of one pod, or of those that a selection finds."""
    is_of_pods = bool(selection.labels) or _is_pod(name)
    job = None if is_of_pods else _job(name, selection.namespace, connection)
    if job is not None:
        check_filter(job, filter_)
        show = print_plain if _is_one_pod(filter_, wanted) else print_prefixed
        _print_job(connection, job, filter_, wanted, show, follow=follow)
        return
    pods = _pods(name, selection, connection)
    show = print_plain if len(pods) == 1 and not wanted.prefix else print_prefixed
    _print_pods(PodLogs(connection, pods, filter_.container, wanted.query()), show, follow=follow)


def _print_job(
    connection: ClusterConnection,
    job: FoundJob,
    filter_: ContainerFilter,
    wanted: LogOptions,
    show: Callable[[Iterable[LogLine]], None],
    *,
    follow: bool,
) -> None:
    source = chosen_logs(connection, job, filter_, wanted)
    if not follow:
        show(source.current_lines())
    elif JobFollower(connection, job, source, SilentLine()).to_the_end(show) is None:
        raise CommandError(f"{job.key.name} was deleted meanwhile", "see: swell get")


def _kept_lines(
    connection: ClusterConnection, job: Key, filter_: ContainerFilter, n_lines: int | None
) -> Iterable[LogLine]:
    """Return the lines of a job that is gone. Only nodes of the embedded cluster keep them."""
    from swell.node.process.folders import OWNER_FILE, Folders, training_job_logs
    from swell.node.process.keptlogs import of_job

    if connection.home is None:
        problem = f"no job {job.name} in namespace {job.namespace}"
        raise CommandError(problem, "only the embedded cluster keeps logs of deleted jobs")
    folders = Folders(connection.home)
    places = (Path(job.namespace) / job.name, training_job_logs(Path(), job))
    found = [one for place in places if (one := of_job(folders.kept_logs, place)) is not None]
    if not found:
        problem = f"no logs are kept of a job {job.name} in namespace {job.namespace}"
        raise CommandError(problem, "see: swell history; logs are kept for 7 days (--keep-logs)")
    newest = max(found, key=lambda one: one.stat().st_mtime)
    owner = Uid((newest / OWNER_FILE).read_text())
    logs = FileJobLogs(newest, owner, filter_)
    return logs.current_lines() if n_lines is None else TailedLogs(logs, n_lines).current_lines()


def _print_sweep(
    connection: ClusterConnection,
    scope: str,
    sweep: str,
    filter_: ContainerFilter,
    wanted: LogOptions,
    *,
    follow: bool,
) -> None:
    from swell.cli.sweeps.actions import SweepLogs
    from swell.cli.sweeps.state import read_sweep

    state = read_sweep(connection, scope, sweep)
    source = SweepLogs(
        {job.key.name: chosen_logs(connection, job, filter_, wanted) for job in state.jobs}
    )
    if not follow:
        print_prefixed(source.current_lines())
        return
    for lines in source.followed(connection, scope, sweep):
        print_prefixed(lines)


def _print_pods(
    source: PodLogs, show: Callable[[Iterable[LogLine]], None], *, follow: bool
) -> None:
    if not follow:
        show(source.current_lines())
        return
    for lines in source.followed():
        show(lines)


def _is_pod(name: str) -> bool:
    kind, slash, _ = name.partition("/")
    return bool(slash) and kind.lower() in _POD_KINDS


def _job(name: str, scope: str, connection: ClusterConnection) -> FoundJob | None:
    """Return the job; None if there is only a pod of that name, CommandError if neither."""
    given = parse_job_name(name)
    found = find_job(connection, scope, given)
    if found is None and (given.kind is not None or not _has_pod(given.name, scope, connection)):
        raise CommandError(f"no job {given.name} in namespace {scope}", "see: swell get")
    return found


def _has_pod(name: str, scope: str, connection: ClusterConnection) -> bool:
    try:
        connection.client.send(calls.get(PODS, Key(scope, name)))
    except NotFoundError:
        return False
    return True


def _pods(name: str, selection: Selection, connection: ClusterConnection) -> list[Body]:
    pods = PODS.untyped()
    if name:
        key = Key(selection.namespace, name.rpartition("/")[2])
        return [connection.client.send(calls.get(pods, key))]
    found = list(connection.client.send(calls.list_page(pods, selection)).items)
    if not found:
        raise CommandError(f"no pod has the labels {selection.labels}", "see: swell get pods")
    return found
