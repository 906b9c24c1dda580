"""What may be chosen about a running scheduler. Times that belong to promises and windows, too."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from swell.scheduler.config import DEFAULT, Config


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """`config_path` names a file that is read at start and whenever it changes; where there is
    none, `config` counts."""

    scheduler_names: tuple[str, ...] = ("swell",)
    # Cycles begin at most this often; 0: as soon as the last one has ended.
    schedule_period_s: float = 0.1
    bind_workers: int = 32
    # How long a group may be admitted without being placed.
    inqueue_timeout_s: float = 600.0
    default_queue: str = "default"
    config_path: Path | None = None
    config: Config = field(default=DEFAULT)
    # A gang whose bindings are not all done by then is released.
    bind_window_s: float = 30.0
    # A promise outlasts the longest grace period of its victims by this.
    promise_slack_s: float = 60.0
    # A job that was evicted for another does not take the room back from it for so long.
    cool_down_s: float = 300.0
