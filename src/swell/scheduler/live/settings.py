"""The settings of a running scheduler, and its configuration file.

The file is read again whenever it changes; one that cannot be used changes nothing. It is polled,
because Kubernetes replaces mounted files by swapping links, which file watches miss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from swell.api.gpu_faults import DEFAULT_CONDITIONS, DEFAULT_DRIVERS, DEFAULT_TAINTS
from swell.runtime.clock import Clock
from swell.runtime.logs import get_logger
from swell.scheduler.config import DEFAULT, SOLE_SCHEDULER_NAMES, Config, SchedulerConfigError
from swell.scheduler.config_file import parse

log = get_logger(__name__)

RELOAD_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """How the scheduler runs.

    `config_path` names a file that is read at start and whenever it changes. Without one, `config`
    counts.
    """

    scheduler_names: tuple[str, ...] = ("swell",)
    # The least time between two cycles; 0 means that the next one may follow at once.
    schedule_period_s: float = 0.1
    bind_workers: int = 32
    # How long a group may stay admitted without a place. Volcano keeps it admitted for ever, so
    # that a group that cannot start holds quota for ever.
    inqueue_timeout_s: float = 600.0
    default_queue: str = "default"
    config_path: Path | None = None
    config: Config = field(default=DEFAULT)
    # A gang that is not completely bound within this time is released.
    bind_window_s: float = 30.0
    # A victim that may save first is deleted after this long, whatever its job says.
    save_seconds_max: float = 120.0
    # A nomination lasts this much longer than its victims may take to save and to end.
    nomination_slack_s: float = 60.0
    # By what nodes report broken GPUs, and which resources and whose devices are GPUs.
    gpu_fault_conditions: tuple[str, ...] = DEFAULT_CONDITIONS
    gpu_fault_taints: tuple[str, ...] = DEFAULT_TAINTS
    gpu_resources: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu")
    gpu_drivers: tuple[str, ...] = DEFAULT_DRIVERS
    # How long a victim may not take its room back from its preemptor.
    cooldown_s: float = 300.0


# The cluster in one process has no other scheduler.
EMBEDDED: Final = SchedulerSettings(scheduler_names=tuple(sorted(SOLE_SCHEDULER_NAMES)))


class ConfigMeter(Protocol):
    """Counts how often the file was read, and the settings in it that have no effect."""

    def configured(self, *, is_valid: bool, n_warnings: int = 0) -> None: ...


class ConfigurationFile:
    """Holds the configuration in force as `current`; `run` keeps it up to date."""

    def __init__(
        self, path: Path | None, initial: Config, clock: Clock, meter: ConfigMeter | None = None
    ) -> None:
        self.current = initial
        self._path = path
        self._clock = clock
        self._meter = meter
        self._text: str | None = None
        self.reload()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(RELOAD_S)
            self.reload()

    def reload(self) -> None:
        """Read the file, and use its configuration if it is new and valid."""
        if self._path is None:
            return
        # Imported here because the command line imports the defaults above: `--help` would load
        # the whole scheduling cycle.
        from swell.api.manifest.composer import ManifestSyntaxError
        from swell.api.manifest.yamldata import read_document
        from swell.scheduler.cycle import KNOWN

        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self._reject(f"cannot be read: {error}", "")
            return
        if text == self._text:
            return
        try:
            parsed = parse(read_document(text), KNOWN)
        except SchedulerConfigError as error:
            self._reject(str(error), text)
            return
        except ManifestSyntaxError as error:
            self._reject(f"line {error.line}: {error.message}", text)
            return
        for warning in parsed.warnings:
            log.warning("configuration", file=str(self._path), warning=warning)
        log.info("configuration in force", file=str(self._path))
        self._text, self.current = text, parsed.config
        if self._meter is not None:
            self._meter.configured(is_valid=True, n_warnings=len(parsed.warnings))

    def _reject(self, why: str, text: str) -> None:
        if text == self._text:
            return  # reported already
        log.error("configuration refused; the one before stays", file=str(self._path), why=why)
        self._text = text
        if self._meter is not None:
            self._meter.configured(is_valid=False)
