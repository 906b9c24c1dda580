"""What only this process has seen, and damping goes by. Losing it costs patience, never safety."""

from __future__ import annotations

from swell.api.meta import Key
from swell.autoscaler.damping import Calm, is_settled, is_taken_back
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.resource import JobState, Snapshot


class Memory:
    """Remembers when groups last waited, which raises came true, and which are stuck."""

    def __init__(self, cooldown_s: float) -> None:
        self._cooldown_s = cooldown_s
        self._waited: dict[Key, float] = {}
        self._settled: dict[RoleId, float] = {}
        self._failed: dict[RoleId, tuple[float, int]] = {}

    def calm(self, snapshot: Snapshot, now: float, changes: int) -> Calm:
        """Take a look at how things are, and say what damping should know.

        `changes` counts what may have made room since the last look.
        """
        recent = {
            group: at for group, at in self._waited.items() if abs(now - at) < self._cooldown_s
        }
        self._waited = recent | dict.fromkeys(sorted(snapshot.waiting_groups), now)
        self._look_at_resizes(snapshot.jobs, changes)
        stuck = (id_ for id_, (_, seen) in self._failed.items() if seen == changes)
        return Calm(
            now=now,
            cooldown_s=self._cooldown_s,
            waiting=snapshot.waiting_groups,
            waited=self._waited,
            settled=self._settled,
            stuck=frozenset(stuck),
        )

    def _look_at_resizes(self, jobs: tuple[JobState, ...], changes: int) -> None:
        settled: dict[RoleId, float] = {}
        failed: dict[RoleId, tuple[float, int]] = {}
        for job in jobs:
            if not job.view.resizes:
                continue
            for state in job.roles:
                id_ = RoleId(job.view.id, state.view.name)
                last = job.view.last_resize(id_.role)
                if last is None:
                    continue
                if self._settled.get(id_) == last.at or is_settled(state, last):
                    settled[id_] = last.at
                if is_taken_back(last):
                    known = self._failed.get(id_)
                    failed[id_] = known if known and known[0] == last.at else (last.at, changes)
        self._settled, self._failed = settled, failed
