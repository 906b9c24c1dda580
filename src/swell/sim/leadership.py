"""The rule of leaders: nobody sends a write after its lease ran out, by its own clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from swell.api.kinds import LEASES
from swell.cluster.embedded.storage import Commit
from swell.sim.faults import WRITE_VERBS

if TYPE_CHECKING:
    from swell.sim.world import World


class LeadersWrite:
    """Checks every write that is sent, which is earlier than every write that is applied."""

    name = "only leaders write"

    def __init__(self, world: World, renew_deadline_s: float) -> None:
        self._world = world
        self._deadline_s = renew_deadline_s
        self._sent_s: dict[str, float] = {}
        self._renewed_s: dict[str, float] = {}
        world.network.on_call.append(self._on_call)

    def on_commit(self, commit: Commit) -> Iterable[str]:
        if commit.collection == str(LEASES) and commit.actor in self._sent_s:
            self._renewed_s[commit.actor] = self._sent_s[commit.actor]
        return ()

    def _on_call(self, actor: str, site: str) -> None:
        verb, resource = site.split(" ")[1:3]
        if verb not in WRITE_VERBS:
            return
        now_s = self._world.clock.monotonic()
        if resource == str(LEASES):
            self._sent_s[actor] = now_s
        elif now_s > self._renewed_s.get(actor, -1e9) + self._deadline_s:
            self._world.judge.report(self.name, f"{site}, though its lease is not surely held")
