"""`swell plan`: what would be decided about given objects, without a cluster."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from swell.cli import options

app = typer.Typer(help="Decide without a cluster: what would happen.", no_args_is_help=True)


More = Annotated[
    list[str] | None, typer.Argument(metavar="FILE", help="Further files, after -f's own.")
]


class Format(StrEnum):
    JSON = "json"
    TABLE = "table"


@app.callback()
def plan() -> None:
    """Decide without a cluster: what would happen."""


@app.command()
def autoscale(
    files: options.Files,
    more: More = None,
    *,
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="How sizes are chosen.")
    ] = "fulfillment",
    max_load: Annotated[
        str,
        typer.Option(
            "--max-load-desired",
            "--max-load",
            metavar="SHARE",
            help="How much of the cluster's cpu and memory may be requested.",
        ),
    ] = "0.97",
    gpu_resources: Annotated[
        str, typer.Option("--gpu-resources", metavar="NAMES", help="Resources that are GPUs.")
    ] = "nvidia.com/gpu,amd.com/gpu",
    output: Annotated[Format, typer.Option("-o", "--output", help="Format.")] = Format.TABLE,
) -> None:
    """One decision over objects in files: how large each elastic role should be, and why."""
    from swell.autoscaler.plan import answer
    from swell.cli.plan.sizes import plan_sizes, render

    plan = plan_sizes([*files, *(more or ())], policy, max_load, gpu_resources)
    if output is Format.JSON:
        from swell.cli.objects.printing import to_json

        sys.stdout.write(to_json(answer(plan)))
    else:
        sys.stdout.write(render(plan))


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
    output: Annotated[Format, typer.Option("-o", "--output", help="Format.")] = Format.TABLE,
) -> None:
    """One scheduling session over objects in files: who is placed where, who waits and why."""
    from swell.cli.plan.input import read_config, read_objects
    from swell.scheduler.plan import answer, plan_schedule

    settings = read_config(config)
    decided = plan_schedule(read_objects([*files, *(more or ())]), settings, scheduler_name or ())
    if output is Format.JSON:
        from swell.cli.objects.printing import to_json

        sys.stdout.write(to_json(answer(decided)))
    else:
        from swell.cli.plan.table import render

        sys.stdout.write(render(decided))
