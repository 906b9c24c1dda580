"""What a campaign tries of the scheduler: alone, in a pair, in trees, and with planted bugs."""

from __future__ import annotations

from swell.sim.campaign.command import CampaignEntry
from tests.sim.operator.native_flaws import PLANTED_WITH_NATIVE_GROUPS
from tests.sim.scheduler.flaws import (
    PLANTED,
    PLANTED_AMONG_NATIVE_GROUPS,
    PLANTED_AMONG_SAVERS,
    PLANTED_IN_A_TREE,
    PLANTED_IN_DOMAINS,
    PLANTED_IN_STORAGE,
    PLANTED_WITH_DEVICES,
)
from tests.sim.scheduler.observation import SCHEDULER
from tests.sim.scheduler.scenarios import CORE
from tests.sim.scheduler.subject import (
    scheduler_devices,
    scheduler_domains,
    scheduler_native,
    scheduler_pair,
    scheduler_savers,
    scheduler_storage,
    scheduler_subject,
    scheduler_tree,
)

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
    CampaignEntry(
        scheduler_tree(),
        {name: scheduler_tree(flaw) for name, flaw in PLANTED_IN_A_TREE.items()},
        share=0.05,
        whose_writes=SCHEDULER,
    ),
    CampaignEntry(
        scheduler_native(),
        {
            name: scheduler_native(operator_flaw=flaw)
            for name, flaw in PLANTED_WITH_NATIVE_GROUPS.items()
        }
        | {name: scheduler_native(flaw=flaw) for name, flaw in PLANTED_AMONG_NATIVE_GROUPS.items()},
        share=0.05,
        whose_writes=SCHEDULER,
    ),
    CampaignEntry(
        scheduler_domains(),
        {name: scheduler_domains(flaw) for name, flaw in PLANTED_IN_DOMAINS.items()},
        share=0.05,
        whose_writes=SCHEDULER,
    ),
    CampaignEntry(
        scheduler_savers(),
        {name: scheduler_savers(flaw) for name, flaw in PLANTED_AMONG_SAVERS.items()},
        share=0.05,
        whose_writes=SCHEDULER,
    ),
    CampaignEntry(
        scheduler_storage(),
        {name: scheduler_storage(flaw) for name, flaw in PLANTED_IN_STORAGE.items()},
        share=0.05,
        whose_writes=SCHEDULER,
        core=frozenset({"volumes"}),
    ),
    CampaignEntry(
        scheduler_devices(),
        {name: scheduler_devices(flaw) for name, flaw in PLANTED_WITH_DEVICES.items()},
        share=0.05,
        whose_writes=SCHEDULER,
        core=frozenset({"devices"}),
    ),
)
