"""The deploy files of the scheduler, as far as they can be judged without a cluster."""

from __future__ import annotations

from pathlib import Path

import yaml

from swell.scheduler.config import DEFAULT
from swell.scheduler.config_file import parse
from swell.scheduler.cycle import KNOWN

CONF = Path(__file__).parents[3] / "deploy" / "scheduler" / "scheduler.conf"


def test_configuration_that_is_shipped_is_the_default() -> None:
    """What people find and change is what counts without it."""
    parsed = parse(yaml.safe_load(CONF.read_text()), KNOWN)

    assert parsed.warnings == ()
    assert parsed.config == DEFAULT
