"""What is tried of TrainingJobs in a campaign: both ways to end, native gangs, and planted bugs."""

from __future__ import annotations

from dataclasses import replace

from swell.sim.campaign.command import CampaignEntry
from swell.sim.scenario import SimulationSubject
from tests.sim.trainingjob.scenarios import kept_subject, native_subject, trainingjob_subject
from tests.sim.trainingjob.subject import (
    FOCUS,
    PLANTED,
    PLANTED_IN_KEPT,
    PLANTED_WITH_NATIVE_GROUPS,
)


def _mutant(name: str, subject: SimulationSubject) -> SimulationSubject:
    if name not in FOCUS:
        return subject
    return replace(subject, scenarios=(subject.scenario(FOCUS[name]),))


ENTRIES = (
    CampaignEntry(
        trainingjob_subject(),
        {name: _mutant(name, trainingjob_subject(flaw)) for name, flaw in PLANTED.items()},
        share=0.25,
    ),
    CampaignEntry(
        kept_subject(),
        {name: _mutant(name, kept_subject(flaw)) for name, flaw in PLANTED_IN_KEPT.items()},
        share=0.05,
    ),
    CampaignEntry(
        native_subject(),
        {
            name: _mutant(name, native_subject(flaw))
            for name, flaw in PLANTED_WITH_NATIVE_GROUPS.items()
        },
        share=0.05,
    ),
)
