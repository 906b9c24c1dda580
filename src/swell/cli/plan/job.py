"""The commands `swell plan job` and `swell plan drain`: what if. They read, and write nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from swell.autoscaler.policies import DEFAULT
from swell.cli.command_line import USAGE, CommandError
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.plan.tables import PlanFormat
from swell.cli.progress import ProgressLine

if TYPE_CHECKING:
    from swell.api.aitrainingjob import AITrainingJob
    from swell.scheduler.plan import SchedulerObjects

# Shown on a terminal while a large cluster is read, and while what would happen is decided.
READING, DECIDING = "reading objects ...", "deciding ..."
_FOREIGN = "its scheduler is another one, or it has no group"
_SURPLUS = "no node has room for it now; its gang runs on without it"

Dump = Annotated[
    list[str] | None,
    typer.Option("-f", "--filename", metavar="FILE", help="Objects instead of a cluster's."),
]
ConfigFile = Annotated[
    str, typer.Option("--config", metavar="FILE", help="Scheduler configuration.")
]
Output = Annotated[PlanFormat, typer.Option("-o", "--output", help="Format.")]


@option_groups
def job(
    manifest: Annotated[str, typer.Argument(metavar="JOB.yaml", help="An AITrainingJob.")],
    *,
    files: Dump = None,
    priority: Annotated[
        str, typer.Option("--priority", metavar="CLASS", help="With this priority class.")
    ] = "",
    queue: Annotated[str, typer.Option("--queue", metavar="NAME", help="In this queue.")] = "",
    replicas: Annotated[
        int | None, typer.Option("--replicas", metavar="N", min=1, help="With this size.")
    ] = None,
    node_pool: Annotated[
        str, typer.Option("--node-pool", metavar="+NxGgpu", help="With N more nodes of G GPUs.")
    ] = "",
    without: Annotated[
        str, typer.Option("--without", metavar="NS/JOB", help="If that job were not there.")
    ] = "",
    drain: Annotated[
        str, typer.Option("--drain", metavar="NODE", help="If that node were drained.")
    ] = "",
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="How sizes are chosen.")
    ] = DEFAULT,
    config: ConfigFile = "",
    output: Output = PlanFormat.TABLE,
    cluster: ClusterOptions,
) -> None:
    """Tell when and where a job would start, and who would make room for it."""
    from swell.autoscaler.policies.interface import Parameters
    from swell.cli.controllers.autoscaler_options import known_policy
    from swell.cli.output import aligned, to_json
    from swell.cli.plan.input import read_config
    from swell.outlook.sizing import OutlookRules
    from swell.outlook.variants import Variant, variants_of
    from swell.outlook.whatif import what_if
    from swell.scheduler.plan import without_collections

    rules = OutlookRules(read_config(config), known_policy(policy), Parameters(now=time.time()))
    planned = _read_job(manifest)
    asked = Variant(priority, queue, replicas, node_pool, without, drain)
    with without_collections(), _asking(), ProgressLine() as line:
        objects = read_world(files, cluster, line)
        line.say(DECIDING, is_urgent=True)
        found = what_if(objects, planned, variants_of(asked), rules)
    if output is PlanFormat.JSON:
        sys.stdout.write(to_json([one.body() for one in found]))
        return
    heading = ("VARIANT", "STARTS", "WHERE", "WHO MAKES ROOM", "SIZE", "WHY")
    sys.stdout.write(aligned([heading, *(one.row() for one in found)]) + "\n")


@option_groups
def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node to drain.")],
    *,
    files: Dump = None,
    config: ConfigFile = "",
    output: Output = PlanFormat.TABLE,
    cluster: ClusterOptions,
) -> None:
    """Tell where the pods of a node would go if it were drained."""
    from swell.cli.output import aligned, to_json
    from swell.cli.plan.input import read_config
    from swell.outlook.variants import ENDED, drained, group_of
    from swell.scheduler.plan import plan_schedule, without_collections

    settings = read_config(config)
    with without_collections(), _asking(), ProgressLine() as line:
        objects = read_world(files, cluster, line)
        line.say(DECIDING, is_urgent=True)
        plan = plan_schedule(drained(objects, node), settings)
    places = {task.key: there for task, there in {**plan.pipelined, **plan.binds}.items()}
    lines = []
    for pod in sorted(objects.pods, key=lambda one: one.metadata.key):
        if pod.spec.node_name == node and pod.status.phase not in ENDED:
            status = plan.groups.get(str(group_of(pod)))
            refusal = status.refusal.message if status is not None and status.refusal else ""
            there = places.get(str(pod.metadata.key), "")
            # Without a refusal, its gang is complete without it, or the pod is none of ours.
            none = _FOREIGN if status is None else _SURPLUS
            why = "" if there else refusal or none
            lines.append((str(pod.metadata.key), there, why))
    if output is PlanFormat.JSON:
        bodies = [{"pod": pod, "node": there, "why": why} for pod, there, why in lines]
        sys.stdout.write(to_json(bodies))
        return
    rows = [(pod, there or "waits", why) for pod, there, why in lines]
    sys.stdout.write(aligned([("POD", "GOES TO", "WHY"), *rows]) + "\n")


@contextmanager
def _asking() -> Iterator[None]:
    """Turns a question that has no answer into the error of the command."""
    from swell.outlook.variants import OutlookError

    try:
        yield
    except OutlookError as error:
        code = USAGE if error.is_usage else 1
        raise CommandError(str(error), error.hint, exit_code=code) from error


def _read_job(manifest: str) -> AITrainingJob:
    from swell.cli.plan.input import read_objects

    jobs = read_objects([manifest]).training_jobs
    if len(jobs) != 1:
        raise CommandError(f"{manifest}: has {len(jobs)} AITrainingJobs", "give a file with one")
    return jobs[0]


def read_world(
    files: list[str] | None, cluster: ClusterOptions, line: ProgressLine
) -> SchedulerObjects:
    """Returns all that decisions depend on, from files or from the cluster. Nothing is written."""
    from swell.cli.connection import connected
    from swell.cli.plan.input import read_objects
    from swell.outlook.reading import read_input

    line.say(READING, is_urgent=True)
    if files:
        return read_objects(files)
    with connected(cluster) as connection:
        found = read_input(connection.client)
    line.clear()
    if not found.is_whole:
        raise CommandError("; ".join(found.notes), "ask somebody who may, or give a dump by -f")
    for note in found.notes:
        sys.stderr.write(f"warning: {note}\n")
    return found.objects
