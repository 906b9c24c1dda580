"""What a campaign tries of the autoscaler: itself, and with each planted bug."""

from __future__ import annotations

from swell.sim.campaign import Entry
from tests.sim.autoscaler.flaws import PLANTED
from tests.sim.autoscaler.rules import AUTOSCALER
from tests.sim.autoscaler.subject import autoscaler_subject

ENTRIES = (
    Entry(
        autoscaler_subject(),
        {name: autoscaler_subject(flaw) for name, flaw in PLANTED.items()},
        share=0.25,
        whose_writes=AUTOSCALER,
    ),
)
