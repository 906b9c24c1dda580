"""The command `swell top`: the sizes of jobs with their bounds, and the load of the cluster.

`swell top nodes` and `top pods` show what pods ask for, by node and by pod (`top_requests`).
On a terminal it is drawn anew every few seconds; a pipe gets it once.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Node
from swell.api.kinds import AI_TRAINING_JOBS, HYPER_NODES, NODES, PODS, TRAINING_JOBS
from swell.api.pod import Pod, PodPhase
from swell.api.quantity import parse
from swell.api.requests import (
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
    pod_requests,
    scheduling_amount,
    scheduling_amounts,
)
from swell.api.requests import PODS as POD_SLOTS
from swell.api.trainingjob import JOB_UID_LABEL, ROLE_LABELS, TrainingJob
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.extras import can_schedule
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import aligned, to_json
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.outlook.starts import START_HEADING, UNKNOWN_START, cells, estimate_of, is_waiting
from swell.runtime.cluster import Selection
from swell.runtime.errors import NotFoundError

if TYPE_CHECKING:
    from swell.scheduler.explain.positions import QueuePosition

_NODES = frozenset({"node", "nodes", "no"})
_PODS = frozenset({"pod", "pods", "po"})
# Between two draws; watch(1) has the same default.
PERIOD_S = 2.0
# Terminal control: cursor to the upper left corner, then erase the screen.
CLEAR = "\x1b[H\x1b[2J"
# Pods in these phases hold no resources any more.
ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
# The label that the operator puts on pods of AITrainingJobs.
ROLE_LABEL = "TrainingJobReplicaName"
Row = list[str]


@option_groups
def top(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[nodes|pods [NAME]...]", help="Jobs and the load without it."),
    ] = None,
    *,
    labels: options.Labels = "",
    sort_by: Annotated[
        str, typer.Option("--sort-by", metavar="cpu|memory", help="Of nodes or pods.")
    ] = "",
    no_headers: Annotated[
        bool, typer.Option("--no-headers", help="Of nodes or pods: rows alone.")
    ] = False,
    namespace: options.Namespace = "",
    everywhere: options.AllNamespaces = False,
    topology: Annotated[
        bool, typer.Option("--topology", help="The parts of the network and their load instead.")
    ] = False,
    config: Annotated[
        str,
        typer.Option(
            "--config", metavar="FILE", help="With --topology: the scheduler's, for its labels."
        ),
    ] = "",
    output: options.JsonOption = None,
    cluster: ClusterOptions,
) -> None:
    """Show the sizes of jobs and the load of the cluster."""
    with connected(cluster) as connection:
        scope = "" if everywhere else connection.namespace(namespace)
        if arguments:
            asked = Selection(scope, labels)
            rows = _requests(arguments, asked, connection, sort_by)
            shown = to_json(_as_objects(rows)) if output else aligned(rows[no_headers:]) + "\n"
            sys.stdout.write(shown)
            return
        if labels or sort_by or no_headers:
            hint = "write swell top nodes, or swell top pods"
            raise CommandError("these flags are for nodes and pods", hint, USAGE)
        if output is not None:
            names = ("domains",) if topology else ("sizes", "load", "reports", "starts")
            tables = [_domains(connection, config)] if topology else _tables(connection, scope)
            bodies = {name: _as_objects(rows) for name, rows in zip(names, tables, strict=True)}
            sys.stdout.write(to_json(bodies))
            return

        def screen() -> str:
            return _network(connection, config) if topology else _screen(connection, scope)

        while sys.stdout.isatty():
            sys.stdout.write(CLEAR + screen())
            sys.stdout.flush()
            time.sleep(PERIOD_S)
        sys.stdout.write(screen())


def _requests(
    arguments: Sequence[str], asked: Selection, connection: ClusterConnection, sort_by: str
) -> list[Row]:
    """Return the table of nodes or of pods that the arguments name."""
    from swell.cli.objects import top_requests

    kind, names = arguments[0].lower(), set(arguments[1:])
    if kind not in _NODES | _PODS:
        hint = "write swell top, swell top nodes or swell top pods"
        raise CommandError(f"no load is known of {arguments[0]}", hint, USAGE)
    if sort_by and sort_by not in top_requests.SORTS:
        raise CommandError(f"not an amount: {sort_by}", "write --sort-by cpu or memory", USAGE)
    client = connection.client
    if kind in _PODS:
        pods = client.send(calls.list_page(PODS, asked)).items
        _refuse_missing("pod", names, {pod.metadata.name for pod in pods})
        chosen = [pod for pod in pods if not names or pod.metadata.name in names]
        return top_requests.pod_rows(chosen, sort_by, with_namespace=not asked.namespace)
    nodes = client.send(calls.list_page(NODES, Selection(labels=asked.labels))).items
    _refuse_missing("node", names, {node.metadata.name for node in nodes})
    shown = [node for node in nodes if not names or node.metadata.name in names]
    return top_requests.node_rows(shown, client.send(calls.list_page(PODS)).items, sort_by)


def _refuse_missing(kind: str, asked: set[str], there: set[str]) -> None:
    for name in sorted(asked - there):
        raise CommandError(f"no {kind} {name}", f"see: swell get {kind}s")


def _as_objects(rows: list[Row]) -> list[dict[str, str]]:
    """Return the rows of a table as objects, by the names of its columns."""
    if not rows:
        return []
    heading = [name.lower() for name in rows[0]]
    return [dict(zip(heading, row, strict=True)) for row in rows[1:]]


def _network(connection: ClusterConnection, config: str) -> str:
    return f"{aligned(_domains(connection, config))}\n"


def _domains(connection: ClusterConnection, config: str) -> list[Row]:
    from swell.cli.objects.top_topology import domain_rows
    from swell.cli.plan.input import read_config

    client = connection.client
    try:
        hyper_nodes = client.send(calls.list_page(HYPER_NODES)).items
    except NotFoundError:
        hyper_nodes = ()  # a cluster without this kind
    pods = client.send(calls.list_page(PODS)).items
    nodes = client.send(calls.list_page(NODES)).items
    return domain_rows(hyper_nodes, nodes, pods, read_config(config))


def _screen(connection: ClusterConnection, scope: str) -> str:
    sizes, load, reports, starts = _tables(connection, scope)
    tables = [table for table in (sizes, starts, reports, load) if table]
    return "\n\n".join(map(aligned, tables)) + "\n"


def _tables(connection: ClusterConnection, scope: str) -> list[list[Row]]:
    """Return sizes of jobs, the load, what programs report, and when waiting jobs start.

    The last two are empty where there is nothing to tell.
    """
    client = connection.client
    jobs = client.send(calls.list_page(AI_TRAINING_JOBS, Selection(scope))).items
    try:
        older = client.send(calls.list_page(TRAINING_JOBS, Selection(scope))).items
    except NotFoundError:
        older = ()  # a cluster without this kind
    # All pods, also those of other namespaces: they load the same nodes.
    pods = client.send(calls.list_page(PODS)).items
    nodes = client.send(calls.list_page(NODES)).items
    sizes = [*size_rows(jobs, pods), *trainer_rows(older, pods)]
    return [
        sizes,
        load_rows(nodes, pods),
        report_rows([*jobs, *older]),
        start_rows([*jobs, *older], _positions(client, [*jobs, *older]), time.time()),
    ]


def _positions(
    client: OneShot, jobs: Sequence[AITrainingJob | TrainingJob]
) -> Mapping[str, QueuePosition]:
    """Return the positions of the waiting jobs, by UID; nothing is read where none waits.

    They are the scheduler's to compute: where it is not installed, they are unknown.
    """
    waiting = [job.metadata for job in jobs if is_waiting(job)]
    if not waiting or not can_schedule():
        return {}
    from swell.cli.positions import read_positions

    found = read_positions(client)
    return {
        meta.uid: position
        for meta in waiting
        if (position := found.of(meta.uid, meta.namespace, meta.name)) is not None
    }


def size_rows(jobs: Iterable[AITrainingJob], pods: Iterable[Pod]) -> list[Row]:
    """Return a row for each role of each AITrainingJob: its pods, its target and its bounds."""
    running = Counter(
        (owner.uid, pod.metadata.labels.get(ROLE_LABEL, "").lower())
        for pod in pods
        if pod.status.phase is PodPhase.RUNNING and (owner := pod.metadata.controller)
    )
    rows = [["JOB", "ROLE", "PHASE", "MIN", "NOW", "TARGET", "MAX"]]
    for job in sorted(jobs, key=lambda job: job.metadata.key):
        name, status = job.metadata.name, job.status
        for role, spec in sorted(job.spec.replica_specs.items()):
            now = running[job.metadata.uid, role.lower()]
            # No target yet: the operator has not looked at the job.
            target = status.target_replicas.get(role.lower(), spec.size)
            sizes = (spec.minimum, now, target, spec.maximum)
            rows.append([name, role.lower(), status.phase.value, *map(str, sizes)])
    return rows


def report_rows(jobs: Iterable[AITrainingJob | TrainingJob]) -> list[Row]:
    """Return a row for each job whose program reports: its progress and speed; none without any."""
    rows = [
        [
            _reported_name(job),
            held.state.value,
            held.progress or "-",
            str(held.step),
            held.rate or "-",
            held.last_pause_seconds or "-",
            held.eta or "-",
        ]
        for job in sorted(jobs, key=lambda job: job.metadata.key)
        if (held := job.status.training) is not None
    ]
    return [["JOB", "STATE", "PROGRESS", "STEP", "RATE", "PAUSE", "ETA"], *rows] if rows else []


def start_rows(
    jobs: Iterable[AITrainingJob | TrainingJob],
    positions: Mapping[str, QueuePosition],
    now: float,
) -> list[Row]:
    """Return a row for each job with a position in its queue or an estimate of its start."""
    rows: list[Row] = []
    for job in sorted(jobs, key=lambda job: job.metadata.key):
        place = positions.get(job.metadata.uid)
        start = estimate_of(job) if isinstance(job, AITrainingJob) else None
        if place is not None or start is not None:
            position = place.cell if place is not None else "-"
            when = cells(start, now) if start is not None else UNKNOWN_START
            rows.append([_reported_name(job), position, *when])
    name, *times = START_HEADING
    return [[name, "POSITION", *times], *rows] if rows else []


def _reported_name(job: AITrainingJob | TrainingJob) -> str:
    name = job.metadata.name
    return name if isinstance(job, AITrainingJob) else f"TrainingJob/{name}"


def trainer_rows(jobs: Iterable[TrainingJob], pods: Iterable[Pod]) -> list[Row]:
    """Return such a row for each TrainingJob, whose trainers are the one role that is resized."""
    running = Counter(
        pod.metadata.labels.get(JOB_UID_LABEL, "")
        for pod in pods
        if pod.status.phase is PodPhase.RUNNING and ROLE_LABELS["trainer"] in pod.metadata.labels
    )
    rows: list[Row] = []
    for job in sorted(jobs, key=lambda job: job.metadata.key):
        spec, status = job.spec, job.status
        least, most = spec.trainer_minimum, spec.trainer_maximum
        target = least if status.trainer_target is None else status.trainer_target
        sizes = map(str, (least, running[job.metadata.uid], target, most))
        rows.append([f"TrainingJob/{job.metadata.name}", "trainer", status.phase.value, *sizes])
    return rows


def load_rows(nodes: Sequence[Node], pods: Iterable[Pod]) -> list[Row]:
    """Return a row for each resource: what nodes offer, and what pods on them request."""
    names = {node.metadata.name for node in nodes}
    total: Counter[str] = Counter()
    for node in nodes:
        for name, amount in node.status.allocatable.items():
            total[name] += scheduling_amount(name, parse(amount))
    taken: Counter[str] = Counter()
    for pod in pods:
        if pod.spec.node_name in names and pod.status.phase not in ENDED:
            taken.update({POD_SLOTS: 1, **scheduling_amounts(pod_requests(pod.spec))})
    rows = [["RESOURCE", "REQUESTED", "TOTAL", "LOAD"]]
    for name in sorted(total):
        load = f"{100 * taken[name] / total[name]:.0f}%" if total[name] else "-"
        rows.append([name, _amount(name, taken[name]), _amount(name, total[name]), load])
    return rows


def _amount(name: str, amount: int) -> str:
    """Return bytes in gibibytes, pods as they are, and milli-units in units."""
    if name == POD_SLOTS:
        return str(amount)
    if name in {MEMORY, EPHEMERAL_STORAGE} or name.startswith(HUGE_PAGES_PREFIX):
        return f"{amount / (1 << 30):.1f}Gi"
    return f"{amount / 1000:g}"
