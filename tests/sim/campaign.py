"""What `make sim` runs: every subject with its planted bugs, and specs of every kind."""

from __future__ import annotations

import sys
from typing import TextIO

from swell.sim.campaign import Entry, main
from tests.sim.autoscaler.entries import ENTRIES as AUTOSCALER
from tests.sim.operator import hostile, sweep
from tests.sim.operator.entries import ENTRIES as OPERATOR
from tests.sim.toy.flaws import PLANTED, PLANTED_IN_PAIR
from tests.sim.toy.scenarios import toy_pair, toy_subject
from tests.sim.trainingjob.entries import ENTRIES as TRAINING_JOB

ENTRIES = (
    Entry(toy_subject(), {name: toy_subject(flaws) for name, flaws in PLANTED.items()}),
    Entry(
        toy_pair(),
        {name: toy_pair(flaws) for name, flaws in PLANTED_IN_PAIR.items()},
        share=0.1,
    ),
    *OPERATOR,
    *AUTOSCALER,
    *TRAINING_JOB,
)
# Ask for one thing instead of a whole campaign.
SINGLE = ("--seed", "--plan", "--record", "--digest")
SPECS = "--specs"


def run(argv: list[str], out: TextIO) -> int:
    """`--specs N` says how many hostile specs are tried; the rest is the campaign's."""
    n_specs = "5000"
    if SPECS in argv:
        place = argv.index(SPECS)
        n_specs = argv[place + 1]
        argv = argv[:place] + argv[place + 2 :]
    code = 0
    if not any(word.split("=")[0] in SINGLE for word in argv):
        code |= sweep.main(out)
        code |= hostile.main([SPECS, n_specs], out)
        out.flush()
    return code | main(ENTRIES, "tests.sim.campaign", argv, out)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], sys.stdout))
