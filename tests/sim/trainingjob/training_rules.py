"""What the operator must never do to TrainingJobs whose trainers train together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api import injection
from swell.api.kinds import CONFIG_MAPS, JOBS, SECRETS, TRAINING_JOBS
from swell.api.meta import Key, Uid
from swell.cluster.embedded.storage import Commit
from swell.operator.framework.training import REPORT_TOKEN
from swell.operator.trainingjob.labels import members_name
from swell.operator.trainingjob.membership import EPOCH, ROLE
from swell.sim.observation import states


@dataclass
class PartsBeforeTrainers:
    """Secret, its record and the membership are there when the trainers' Job is created."""

    name: str = "parts before trainers"
    _there: set[tuple[str, Key]] = field(default_factory=set)
    _recorded: set[Uid] = field(default_factory=set)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, job = states(commit, TRAINING_JOBS)
        if job is not None and REPORT_TOKEN in job.metadata.annotations:
            self._recorded.add(job.metadata.uid)
        if commit.collection in (str(SECRETS), str(CONFIG_MAPS)):
            change = self._there.discard if commit.after is None else self._there.add
            change((commit.collection, commit.key))
        before, made = states(commit, JOBS)
        owner = made.metadata.controller if made is not None and before is None else None
        if made is None or owner is None:
            return
        volumes = {one["name"]: one for one in made.spec.template["spec"].get("volumes", [])}
        if "swell-secret" not in volumes:
            return
        secret = Key(commit.key.namespace, volumes["swell-secret"]["secret"]["secretName"])
        members = Key(commit.key.namespace, members_name(owner.name))
        if (str(SECRETS), secret) not in self._there or owner.uid not in self._recorded:
            yield f"{commit.key} was created before its secret"
        if (str(CONFIG_MAPS), members) not in self._there:
            yield f"{commit.key} was created before its membership"


@dataclass
class MembershipGrows:
    """Epochs and numbers only grow, and no row changes within an epoch."""

    name: str = "membership grows"
    _last: dict[Uid, dict[str, str]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, after = states(commit, CONFIG_MAPS)
        owner = after.metadata.controller if after is not None else None
        if after is None or owner is None or injection.UIDS_FILE not in after.data:
            return
        old, new = self._last.get(owner.uid), after.data
        self._last[owner.uid] = new
        if old is None:
            return
        if int(new[EPOCH]) < int(old[EPOCH]):
            yield f"{commit.key} went back from epoch {old[EPOCH]} to {new[EPOCH]}"
        if new[EPOCH] == old[EPOCH] and new[ROLE] != old[ROLE]:
            yield f"{commit.key} changed its rows within epoch {new[EPOCH]}"
        numbers = [
            list(map(int, data[injection.INSTANCES_FILE].split()[1:])) for data in (old, new)
        ]
        if any(one > other for one, other in zip(*numbers, strict=False)):
            yield f"{commit.key} lowered numbers from {numbers[0]} to {numbers[1]}"
