"""UIDs of new objects, and what they cost."""

from __future__ import annotations

import random
import uuid
from itertools import islice

from swell.cluster.embedded.assembly import random_uids


class CountingRandom(random.Random):
    """Counts how often bits are drawn: each draw of the server's own source asks the kernel."""

    n_draws = 0

    def getrandbits(self, k: int, /) -> int:
        self.n_draws += 1
        return super().getrandbits(k)


def test_uids_differ_and_are_random_ones() -> None:
    """Each is a UUID of version 4, and none comes twice."""
    made = list(islice(random_uids(random.Random(1)), 1_000))

    assert len(set(made)) == len(made)
    assert {(one.version, one.variant) for one in map(uuid.UUID, made)} == {(4, uuid.RFC_4122)}


def test_bits_are_drawn_for_many_uids_at_once() -> None:
    """A thousand objects ask for random bits a few times, not a thousand times."""
    rng = CountingRandom(1)

    assert len(list(islice(random_uids(rng), 1_000))) == 1_000
    assert rng.n_draws <= 20
