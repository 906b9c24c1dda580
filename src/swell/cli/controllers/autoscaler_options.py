"""Options of the autoscaler, for `swell operator` and, without a cluster, `swell plan`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from swell.autoscaler.policies import POLICIES
from swell.autoscaler.policies.interface import (
    MAX_LOAD,
    MaxLoadError,
    Parameters,
    parse_max_load,
)
from swell.autoscaler.settings import AutoscalerSettings
from swell.cli.command_line import USAGE, CommandError
from swell.cli.options import names_in, option

_DEFAULTS = AutoscalerSettings()


@dataclass(frozen=True, slots=True)
class AutoscalerOptions:
    """The autoscaler's flags, as they were typed."""

    autoscale: Annotated[
        bool, option("--autoscale/--no-autoscale", "Resize elastic Auto roles.")
    ] = True
    scale_period: Annotated[
        float, option("--scale-period", "Choose sizes this often.", is_duration=True)
    ] = _DEFAULTS.scale_period_s
    scale_cooldown: Annotated[
        float,
        option("--scale-cooldown", "Resize the other way only after this.", is_duration=True),
    ] = _DEFAULTS.scale_cooldown_s
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help="How sizes are chosen: fulfillment or goodput.",
            envvar="SWELL_POLICY",
            metavar="NAME",
        ),
    ] = _DEFAULTS.policy
    max_load_desired: Annotated[
        str,
        typer.Option(
            "--max-load-desired",
            "--max-load",
            help="How much of the cluster's cpu and memory may be requested.",
            envvar="SWELL_MAX_LOAD_DESIRED",
            metavar="SHARE",
        ),
    ] = MAX_LOAD
    gpu_resources: Annotated[
        str,
        typer.Option(
            "--gpu-resources",
            help="Resources that are GPUs, comma separated.",
            envvar="SWELL_GPU_RESOURCES",
            metavar="NAMES",
        ),
    ] = ",".join(_DEFAULTS.gpu_resources)

    starve_after: Annotated[
        float,
        option("--starve-after", "A job that waits for longer goes first.", is_duration=True),
    ] = _DEFAULTS.parameters.starve_after_s
    scheduler_config: Annotated[
        str,
        typer.Option(
            "--scheduler-config",
            help="The scheduler's configuration, by which raises are tried.",
            envvar="SWELL_SCHEDULER_CONFIG",
            metavar="FILE",
        ),
    ] = ""

    def settings(self) -> AutoscalerSettings:
        """Return the autoscaler's settings; CommandError when a flag makes no sense."""
        from swell.cli.plan.input import read_config

        return AutoscalerSettings(
            scale_period_s=self.scale_period,
            scale_cooldown_s=self.scale_cooldown,
            policy=known_policy(self.policy),
            parameters=replace(
                parameters_of(self.max_load_desired), starve_after_s=self.starve_after
            ),
            gpu_resources=names_in(self.gpu_resources),
            scheduler=read_config(self.scheduler_config),
        )


def known_policy(name: str) -> str:
    """Return the name of a policy, or refuse one that does not exist."""
    if name not in POLICIES:
        known = ", ".join(POLICIES)
        raise CommandError(f"there is no policy {name!r}", f"must be one of: {known}", USAGE)
    return name


def parameters_of(max_load: str) -> Parameters:
    """Return a policy's parameters, or refuse a load that is no share."""
    try:
        return Parameters(parse_max_load(max_load))
    except MaxLoadError as error:
        raise CommandError(f"--max-load-desired: {error}", exit_code=USAGE) from error
