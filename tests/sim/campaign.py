"""What `make sim` runs: every subject with its planted bugs, and specs of every kind."""

from __future__ import annotations

import sys

from swell.sim.campaign.command import CampaignEntry, main
from tests.sim.autoscaler.entries import ENTRIES as AUTOSCALER
from tests.sim.operator import hostile, sweep
from tests.sim.operator.entries import ENTRIES as OPERATOR
from tests.sim.scheduler.entries import ENTRIES as SCHEDULER
from tests.sim.toy.flaws import PLANTED, PLANTED_IN_PAIR
from tests.sim.toy.scenarios import toy_pair, toy_subject
from tests.sim.trainingjob.entries import ENTRIES as TRAINING_JOB

ENTRIES = (
    CampaignEntry(toy_subject(), {name: toy_subject(flaws) for name, flaws in PLANTED.items()}),
    CampaignEntry(
        toy_pair(),
        {name: toy_pair(flaws) for name, flaws in PLANTED_IN_PAIR.items()},
        share=0.1,
    ),
    *OPERATOR,
    *SCHEDULER,
    *AUTOSCALER,
    *TRAINING_JOB,
)


if __name__ == "__main__":
    sys.exit(
        main(
            ENTRIES,
            "tests.sim.campaign",
            sys.argv[1:],
            sys.stdout,
            first=(sweep.main, hostile.main),
        )
    )
