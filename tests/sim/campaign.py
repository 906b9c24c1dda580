"""What `make sim` runs: every subject with its planted bugs."""

from __future__ import annotations

import sys

from swell.sim.campaign import Entry, main
from tests.sim.toy.flaws import PLANTED, PLANTED_IN_PAIR
from tests.sim.toy.scenarios import toy_pair, toy_subject

ENTRIES = (
    Entry(toy_subject(), {name: toy_subject(flaws) for name, flaws in PLANTED.items()}),
    Entry(
        toy_pair(),
        {name: toy_pair(flaws) for name, flaws in PLANTED_IN_PAIR.items()},
        share=0.1,
    ),
)

if __name__ == "__main__":
    sys.exit(main(ENTRIES, "tests.sim.campaign", sys.argv[1:], sys.stdout))
