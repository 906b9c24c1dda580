"""N1 to N4 and N6: what jobs blame on nodes, and what follows from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.aitrainingjob import StragglerPolicy
from swell.api.kinds import NODES
from swell.api.node_faults import is_forgotten, read_faults
from swell.api.times import parse_time
from swell.cluster.embedded.storage import Commit
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.fault_marks import is_tainted
from swell.sim.observation import all_of, states
from swell.sim.world import SimulatedWorld
from tests.sim.operator.observation import job_states, jobs_in

# Nodes are counted that long before the write that rests on it, or less.
COUNTED_S = 60.0


@dataclass
class MarksOnRecord:
    """N1: a node gets a mark only for a fault that the status of a job blamed on it before."""

    world: SimulatedWorld
    name: str = "N1 marks on record"
    _blamed: set[tuple[str, str, str]] = field(default_factory=set)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, job = job_states(commit)
        if job is not None:
            faults = (one for one in job.status.node_faults if one.blamed)
            self._blamed |= {(one.node, str(job.metadata.key), one.time) for one in faults}
        if commit.collection != str(NODES) or not self.world.is_subject(commit.actor):
            return
        _, node = states(commit, NODES)
        for one in read_faults(node.metadata.annotations).marks if node else ():
            if (commit.key.name, one.job, one.time) not in self._blamed:
                yield f"{commit.key} is marked by {one.job}, which has no such fault on record"


@dataclass
class FewSuspects:
    """N2: never more than their share of nodes is tainted, and only suspects are."""

    world: SimulatedWorld
    settings: AITrainingJobSettings
    name: str = "N2 few suspects"
    _sizes: list[tuple[float, int]] = field(default_factory=list)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if commit.collection != str(NODES):
            return
        now_s = self.world.clock.monotonic()
        every = all_of(self.world, NODES)
        self._sizes = [one for one in self._sizes if one[0] > now_s - COUNTED_S]
        # A node that has gone since was counted rightly.
        self._sizes.append((now_s, len(every)))
        before, after = states(commit, NODES)
        if after is None or not self.world.is_subject(commit.actor) or not is_tainted(after):
            return
        if before is not None and is_tainted(before):
            return
        n_tainted, n_nodes = sum(map(is_tainted, every)), max(size for _, size in self._sizes)
        if n_tainted > self.settings.suspects_max_share * n_nodes:
            yield f"{n_tainted} of {n_nodes} nodes are tainted as suspects"
        if len({one.job for one in read_faults(after.metadata.annotations).marks}) < 3:
            yield f"{commit.key} is tainted, though fewer than three jobs failed on it"


@dataclass
class MarksArrive:
    """N3: at rest every node has the marks of all jobs that blame it."""

    world: SimulatedWorld
    settings: AITrainingJobSettings
    name: str = "N3 marks arrive"

    def missing(self) -> Iterator[str]:
        nodes = {one.metadata.name: one for one in all_of(self.world, NODES)}
        half_life_s, now = self.settings.fault_half_life_s, self.world.clock.now()
        for job in jobs_in(self.world):
            for one in job.status.node_faults:
                node = nodes.get(one.node)
                if node is None or not one.blamed or is_forgotten(one.time, half_life_s, now):
                    continue
                if one.time < (node.metadata.creation_timestamp or ""):
                    continue  # it was another machine
                marks = read_faults(node.metadata.annotations).marks
                of_job = {mark.time for mark in marks if mark.job == str(job.metadata.key)}
                if one.time not in of_job and len(of_job) < 3:
                    yield f"{one.node} has no mark of {job.metadata.key} at {one.time}"


@dataclass
class MovedOnRequest:
    """N4: a job avoids the node of a straggler only if it asked for the move, and restarts then."""

    world: SimulatedWorld
    name: str = "N4 stragglers moved on request"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = job_states(commit)
        if before is None or after is None or not self.world.is_subject(commit.actor):
            return
        known = {(one.name, one.until) for one in before.status.avoid_nodes}
        for one in after.status.avoid_nodes:
            if (one.name, one.until) in known or "its steps take" not in one.reason:
                continue
            if after.spec.straggler_policy is not StragglerPolicy.REPLACE:
                yield f"{commit.key} gives up {one.name} for a straggler, and did not ask for it"
            elif after.status.restarts <= before.status.restarts:
                yield f"{commit.key} gives up {one.name} without a restart on record"


_EXCLUDED = re.compile(r"^pod \S+ excludes node (\S+), which need not")


@dataclass
class ExclusionsEnd:
    """N6: a pod is made anew for a node that it excludes only when that is avoided no more."""

    world: SimulatedWorld
    settings: AITrainingJobSettings
    name: str = "N6 exclusions end first"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = job_states(commit)
        if before is None or after is None or not self.world.is_subject(commit.actor):
            return
        named = _EXCLUDED.match(after.status.message)
        if named is None or before.status.message == after.status.message:
            return
        now = self.world.clock.now()
        for one in before.status.avoid_nodes:
            # Times are written in whole seconds, and the write takes a while. A time that is longer
            # than any says that the clock was set back.
            left_s = parse_time(one.until) - now
            if one.name == named[1] and COUNTED_S < left_s <= self.settings.node_avoid_s:
                yield f"{commit.key} makes a pod anew for {one.name}, avoided until {one.until}"
