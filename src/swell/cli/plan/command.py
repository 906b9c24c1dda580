"""The command `swell plan`: what would be decided about given objects, without a cluster."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from swell.autoscaler.policies.interface import MAX_LOAD
from swell.autoscaler.settings import AutoscalerSettings
from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.plan.job import DECIDING, READING, drain, job
from swell.cli.plan.tables import PlanFormat
from swell.cli.plan.waiting import queue
from swell.cli.progress import ProgressLine

app = typer.Typer(help="Decide without a cluster: what would happen.", no_args_is_help=True)
_DEFAULTS = AutoscalerSettings()
# `-f` takes one file; a shell's `-f dump/*` gives the others as arguments.
More = Annotated[
    list[str] | None, typer.Argument(metavar="FILE", help="Further files, after -f's own.")
]


@app.callback()
def plan() -> None:
    """Decide without a cluster: what would happen."""


app.command()(job)
app.command()(drain)
app.command()(queue)


@app.command()
def autoscale(
    files: options.Files,
    more: More = None,
    *,
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="How sizes are chosen.")
    ] = _DEFAULTS.policy,
    max_load: Annotated[
        str,
        typer.Option(
            "--max-load-desired",
            "--max-load",
            metavar="SHARE",
            help="How much of the cluster's cpu and memory may be requested.",
        ),
    ] = MAX_LOAD,
    gpu_resources: Annotated[
        str, typer.Option("--gpu-resources", metavar="NAMES", help="Resources that are GPUs.")
    ] = ",".join(_DEFAULTS.gpu_resources),
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="Scheduler configuration.")
    ] = "",
    output: Annotated[
        PlanFormat, typer.Option("-o", "--output", help="Format.")
    ] = PlanFormat.TABLE,
) -> None:
    """One decision over objects in files: how large each elastic role should be, and why."""
    from swell.api.quantity import QuantityError
    from swell.autoscaler.plan import AutoscalerObjects, answer, plan_autoscale
    from swell.cli.controllers.autoscaler_options import known_policy, parameters_of
    from swell.cli.options import names_in
    from swell.cli.output import to_json
    from swell.cli.plan.input import read_config, read_into
    from swell.cli.plan.tables import autoscale_tables

    objects = AutoscalerObjects()
    with ProgressLine() as line:
        line.say(READING, is_urgent=True)
        read_into(objects, [*files, *(more or ())])
    parameters = parameters_of(max_load)
    try:
        decided = plan_autoscale(
            objects,
            parameters,
            known_policy(policy),
            names_in(gpu_resources),
            read_config(config),
        )
    except QuantityError as error:
        raise CommandError(str(error)) from error
    is_json = output is PlanFormat.JSON
    sys.stdout.write(to_json(answer(decided)) if is_json else autoscale_tables(decided))


@app.command()
def schedule(
    files: options.Files,
    more: More = None,
    *,
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="Scheduler configuration.")
    ] = "",
    scheduler_name: Annotated[
        list[str] | None,
        typer.Option("--scheduler-name", metavar="NAME", help="Also plan this scheduler's pods."),
    ] = None,
    output: Annotated[
        PlanFormat, typer.Option("-o", "--output", help="Format.")
    ] = PlanFormat.TABLE,
) -> None:
    """One scheduling session over objects in files: who is placed where, who waits and why."""
    from swell.cli.output import to_json
    from swell.cli.plan.input import read_config, read_objects
    from swell.cli.plan.tables import schedule_tables
    from swell.scheduler.model.volumes.claims import claims_of
    from swell.scheduler.plan import answer, plan_schedule
    from swell.scheduler.topology_labels import lists_in

    settings = read_config(config)
    with ProgressLine() as line:
        line.say(READING, is_urgent=True)
        objects = read_objects([*files, *(more or ())])
    if objects.hyper_nodes and lists_in(settings):
        sys.stderr.write("warning: topology.labels is not used: there are HyperNodes\n")
    if not objects.knows_storage and any(claims_of(pod) for pod in objects.pods):
        sys.stderr.write("warning: volumes are not looked at: no claim, volume or class is given\n")
    if not objects.knows_devices and any(pod.spec.resource_claims for pod in objects.pods):
        text = "devices are not looked at: no resource claim, slice or class is given"
        sys.stderr.write(f"warning: {text}\n")
    with ProgressLine() as line:
        line.say(DECIDING, is_urgent=True)
        decided = plan_schedule(objects, settings, scheduler_name or ())
    is_json = output is PlanFormat.JSON
    sys.stdout.write(to_json(answer(decided)) if is_json else schedule_tables(decided))
