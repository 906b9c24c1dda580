"""What `make sim` runs: every subject with its planted bugs."""

from __future__ import annotations

import sys

from swell.sim.campaign import Entry, main
from tests.sim.toy.flaws import PLANTED
from tests.sim.toy.scenarios import toy_subject

ENTRIES = (Entry(toy_subject(), {name: toy_subject(flaws) for name, flaws in PLANTED.items()}),)

if __name__ == "__main__":
    sys.exit(main(ENTRIES, "tests.sim.campaign", sys.argv[1:], sys.stdout))
