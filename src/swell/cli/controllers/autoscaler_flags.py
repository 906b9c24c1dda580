"""Flags of the autoscaler, for whatever command runs one."""

from __future__ import annotations

from typing import Annotated

import typer

from swell.autoscaler.policies import POLICIES
from swell.autoscaler.policies.interface import MaxLoadError, Parameters, parse_max_load
from swell.autoscaler.settings import AutoscalerSettings
from swell.cli.durations import seconds_of
from swell.cli.failure import CommandError

_USAGE = 2

Autoscale = Annotated[
    bool,
    typer.Option(
        "--autoscale/--no-autoscale", help="Resize elastic Auto roles.", envvar="SWELL_AUTOSCALE"
    ),
]
ScalePeriod = Annotated[
    float,
    typer.Option(
        "--scale-period",
        help="Choose sizes this often.",
        envvar="SWELL_SCALE_PERIOD",
        parser=seconds_of,
        metavar="DURATION",
    ),
]
ScaleCooldown = Annotated[
    float,
    typer.Option(
        "--scale-cooldown",
        help="Resize the other way only after this.",
        envvar="SWELL_SCALE_COOLDOWN",
        parser=seconds_of,
        metavar="DURATION",
    ),
]
PolicyName = Annotated[
    str,
    typer.Option("--policy", help="How sizes are chosen.", envvar="SWELL_POLICY", metavar="NAME"),
]
MaxLoad = Annotated[
    str,
    typer.Option(
        "--max-load-desired",
        "--max-load",
        help="How much of the cluster's cpu and memory may be requested.",
        envvar="SWELL_MAX_LOAD_DESIRED",
        metavar="SHARE",
    ),
]
GpuResources = Annotated[
    str,
    typer.Option(
        "--gpu-resources",
        help="Resources that are GPUs, comma separated.",
        envvar="SWELL_GPU_RESOURCES",
        metavar="NAMES",
    ),
]


def settings_of(
    period_s: float, cooldown_s: float, policy: str, max_load: str, gpu_resources: str
) -> AutoscalerSettings:
    """Settings from what was typed; CommandError when it makes no sense."""
    return AutoscalerSettings(
        scale_period_s=period_s,
        scale_cooldown_s=cooldown_s,
        policy=known_policy(policy),
        parameters=parameters_of(max_load),
        gpu_resources=names_in(gpu_resources),
    )


def known_policy(name: str) -> str:
    if name not in POLICIES:
        known = ", ".join(POLICIES)
        raise CommandError(f"there is no policy {name!r}", f"must be one of: {known}", _USAGE)
    return name


def parameters_of(max_load: str) -> Parameters:
    try:
        return Parameters(parse_max_load(max_load))
    except MaxLoadError as error:
        raise CommandError(f"--max-load-desired: {error}", exit_code=_USAGE) from error


def names_in(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))
