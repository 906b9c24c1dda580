"""What a campaign tries of the autoscaler: itself, and with each planted bug."""

from __future__ import annotations

from swell.sim.campaign.command import CampaignEntry
from tests.sim.autoscaler.flaws import PLANTED, PLANTED_AMONG_TRAINERS, PLANTED_BY_GOODPUT
from tests.sim.autoscaler.rules import AUTOSCALER
from tests.sim.autoscaler.subject import autoscaler_subject, goodput_subject
from tests.sim.autoscaler.trainers import trainers_subject

ENTRIES = (
    CampaignEntry(
        autoscaler_subject(),
        {name: autoscaler_subject(flaw) for name, flaw in PLANTED.items()},
        share=0.25,
        whose_writes=AUTOSCALER,
    ),
    CampaignEntry(
        goodput_subject(),
        {name: goodput_subject(flaw) for name, flaw in PLANTED_BY_GOODPUT.items()},
        share=0.25,
        whose_writes=AUTOSCALER,
    ),
    CampaignEntry(
        trainers_subject(),
        {name: trainers_subject(flaw) for name, flaw in PLANTED_AMONG_TRAINERS.items()},
        share=0.05,
        whose_writes=AUTOSCALER,
    ),
)
