"""The configuration file, while the scheduler runs."""

from __future__ import annotations

from pathlib import Path

from swell.scheduler.config import DEFAULT
from swell.scheduler.live.settings import RELOAD_S, ConfigurationFile
from swell.sim.loop import VirtualClock, run

VALID = "actions: enqueue, allocate\n"


class Meter:
    def __init__(self) -> None:
        self.readings: list[bool] = []
        self.n_warnings = 0

    def configured(self, *, is_valid: bool, n_warnings: int = 0) -> None:
        self.readings.append(is_valid)
        self.n_warnings = n_warnings


def test_file_is_taken_at_the_start_and_whenever_it_changes(tmp_path: Path) -> None:
    """The file is polled, and read again only when it has changed."""

    async def main() -> None:
        path, meter = tmp_path / "conf", Meter()
        path.write_text(VALID)
        found = ConfigurationFile(path, DEFAULT, VirtualClock(), meter)
        assert list(found.current.actions) == ["enqueue", "allocate"]
        path.write_text("actions: allocate\n")
        found.reload()
        found.reload()

        assert list(found.current.actions) == ["allocate"]
        assert meter.readings == [True, True]

    run(main())


def test_file_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    """The one before stays in force, and the failure is counted once."""
    path, meter = tmp_path / "conf", Meter()
    path.write_text(VALID)
    found = ConfigurationFile(path, DEFAULT, VirtualClock(), meter)
    for broken in ("actions: [1", "actions: 3\n", "tiers: nonsense\n"):
        path.write_text(broken)
        found.reload()
        found.reload()
    path.unlink()
    found.reload()
    found.reload()

    assert list(found.current.actions) == ["enqueue", "allocate"]
    assert meter.readings == [True, False, False, False, False]
    path.write_text(VALID)
    found.reload()
    assert meter.readings[-1]


def test_without_a_file_the_given_configuration_counts() -> None:
    """Nothing is looked for."""

    async def main() -> None:
        clock = VirtualClock()
        found = ConfigurationFile(None, DEFAULT, clock)
        found.reload()
        await clock.sleep(RELOAD_S)
        assert found.current is DEFAULT

    run(main())


def test_settings_without_effect_are_counted_and_the_rest_is_in_force(tmp_path: Path) -> None:
    """The log has a line for each, a metric their number, and the file is used."""
    path = tmp_path / "scheduler.conf"
    arguments = "{selectorspread.weight: 3, leastrequested.weight: 2}"
    path.write_text(
        f"tiers: [{{plugins: [{{name: nodeorder, arguments: {arguments}}}, {{name: tdm}}]}}]"
    )
    meter = Meter()
    file = ConfigurationFile(path, DEFAULT, VirtualClock(), meter)

    assert meter.n_warnings == 2
    assert dict(file.current.tiers[0][0].arguments.values) == {"leastrequested.weight": 2}
