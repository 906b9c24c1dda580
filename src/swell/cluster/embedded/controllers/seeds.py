"""The chance in pods' names: one number for an owner, a new one whenever its pods have changed.

While nothing changes a repeated attempt names the same pods, so a create that was refused or whose
answer was lost is not tried under ever new names.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from swell.api.meta import Key, Uid
from swell.api.pod import Pod

_BITS = 64


class Seeds:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._drawn: dict[Key, tuple[tuple[Uid, ...], int]] = {}

    def of(self, owner: Key, uid: Uid, pods: Iterable[Pod]) -> int:
        """The number for an owner as it is now."""
        situation = (uid, *sorted(pod.metadata.uid for pod in pods))
        drawn = self._drawn.get(owner)
        if drawn is None or drawn[0] != situation:
            drawn = self._drawn[owner] = (situation, self._random.getrandbits(_BITS))
        return drawn[1]

    def forget(self, owner: Key) -> None:
        self._drawn.pop(owner, None)
