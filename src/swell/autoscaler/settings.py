"""The settings of the autoscaler, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from swell.autoscaler.needs import GPU_RESOURCES
from swell.autoscaler.policies import DEFAULT, GOODPUT
from swell.autoscaler.policies.interface import Parameters
from swell.scheduler.config import DEFAULT as SCHEDULER_DEFAULT
from swell.scheduler.config import Config


@dataclass(frozen=True, slots=True)
class AutoscalerSettings:
    """How often sizes are decided, how long a resize must rest, and which policy decides."""

    scale_period_s: float = 30.0
    scale_cooldown_s: float = 60.0
    policy: str = DEFAULT
    parameters: Parameters = field(default_factory=Parameters)
    gpu_resources: tuple[str, ...] = GPU_RESOURCES
    # The configuration of the scheduler, by which raises are tried before they are written.
    scheduler: Config = SCHEDULER_DEFAULT


# Shorter times for the cluster in one process: a decision about few pods costs little, and its
# user waits for the result. Whoever trains on one machine wants jobs to finish soon, and has no
# sizes to keep as they were.
EMBEDDED: Final = AutoscalerSettings(scale_period_s=2.0, scale_cooldown_s=5.0, policy=GOODPUT)
