"""What a campaign tries of the operator: itself, in a pair, and with each planted bug."""

from __future__ import annotations

from swell.sim.campaign.command import CampaignEntry
from tests.sim.operator.flaws import PLANTED
from tests.sim.operator.history_flaws import PLANTED as HISTORY_PLANTED
from tests.sim.operator.preemption_flaws import PLANTED as PREEMPTION_PLANTED
from tests.sim.operator.subject import operator_history, operator_pair, operator_subject

UNGUARDED = "operator leads without a guard"

ENTRIES = (
    CampaignEntry(
        operator_subject(),
        {name: operator_subject(flaw) for name, flaw in {**PLANTED, **PREEMPTION_PLANTED}.items()},
        share=0.5,
    ),
    CampaignEntry(
        operator_history(),
        {name: operator_history(flaw) for name, flaw in HISTORY_PLANTED.items()},
        share=0.1,
    ),
    CampaignEntry(operator_pair(), {UNGUARDED: operator_pair(guarded=False)}, share=0.1),
)
