"""The scenarios, by what they are about: one behaviour a row."""

from tests.e2e.operator.scenario import Scenario
from tests.e2e.operator.scenarios import (
    deletion,
    endings,
    faults,
    fields,
    lives,
    objects,
    resizing,
    restarting,
    specchanges,
)

SCENARIOS: tuple[Scenario, ...] = (
    *objects.SCENARIOS,
    *fields.SCENARIOS,
    *endings.SCENARIOS,
    *restarting.SCENARIOS,
    *faults.SCENARIOS,
    *resizing.SCENARIOS,
    *specchanges.SCENARIOS,
    *deletion.SCENARIOS,
    *lives.SCENARIOS,
)
