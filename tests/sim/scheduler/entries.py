"""What a campaign tries of the scheduler: itself, in a pair, and with each planted bug."""

from __future__ import annotations

from swell.sim.campaign.command import CampaignEntry
from tests.sim.scheduler.flaws import PLANTED
from tests.sim.scheduler.observation import SCHEDULER
from tests.sim.scheduler.scenarios import CORE
from tests.sim.scheduler.subject import scheduler_pair, scheduler_subject

UNGUARDED = "scheduler leads without a guard"

ENTRIES = (
    CampaignEntry(
        scheduler_subject(),
        {name: scheduler_subject(flaw) for name, flaw in PLANTED.items()},
        share=0.5,
        whose_writes=SCHEDULER,
        core=CORE,
    ),
    CampaignEntry(
        scheduler_pair(),
        {UNGUARDED: scheduler_pair(guarded=False)},
        share=0.05,
        whose_writes=SCHEDULER,
        core=frozenset({"oust"}),
    ),
)
