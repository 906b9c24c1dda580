"""What may be chosen about a running scheduler. Times that belong to promises and windows, too."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import yaml

from swell.runtime.clock import Clock
from swell.runtime.logs import get_logger
from swell.scheduler.config import DEFAULT, Config, SchedulerConfigError, parse
from swell.scheduler.cycle import KNOWN


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
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


log = get_logger(__name__)

LOOK_S: Final = 2.0


class ConfigMeter(Protocol):
    """What counts readings of the file."""

    def configured(self, *, is_valid: bool) -> None: ...


class ConfigurationFile:
    """The configuration in force; `run` keeps it up to date."""

    def __init__(
        self, path: Path | None, initial: Config, clock: Clock, meter: ConfigMeter | None = None
    ) -> None:
        self.current = initial
        self._path = path
        self._clock = clock
        self._meter = meter
        self._text: str | None = None
        if path is not None:
            self.look()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(LOOK_S)
            if self._path is not None:
                self.look()

    def look(self) -> None:
        """Read the file, and take it if it is new and can be used."""
        if self._path is None:
            return
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self._refuse(f"cannot be read: {error}", "")
            return
        if text == self._text:
            return
        try:
            parsed = parse(yaml.safe_load(text), KNOWN)
        except (SchedulerConfigError, yaml.YAMLError) as error:
            self._refuse(str(error), text)
            return
        for warning in parsed.warnings:
            log.warning("configuration", file=str(self._path), warning=warning)
        log.info("configuration in force", file=str(self._path))
        self._text, self.current = text, parsed.config
        if self._meter is not None:
            self._meter.configured(is_valid=True)

    def _refuse(self, why: str, text: str) -> None:
        if text == self._text:
            return  # said already
        log.error("configuration refused; the one before stays", file=str(self._path), why=why)
        self._text = text
        if self._meter is not None:
            self._meter.configured(is_valid=False)
