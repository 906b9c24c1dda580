"""The numbers that tell a pod from its predecessors at the same index.

The members ConfigMap has the number of the newest pod at every index. It is raised there before a
pod is created, at each attempt: a pod that was created and vanished before anybody saw it had a
number of its own. Only jobs whose programs train together have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swell.api.aitrainingjob import API_GROUP, AITrainingJobStatus
from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.core import ConfigMap
from swell.api.injection import INSTANCES_FILE
from swell.api.times import parse_time
from swell.operator.aitrainingjob.sizes import JOB_PODS_MAX
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.operator.framework.recovery import sound_time
from swell.operator.framework.training import INSTANCE

# On the members ConfigMap: the number from which indexes count that are not listed.
FIRST = f"{API_GROUP}/first-instance"
# More than a job reaches in its life, and still exact in every reader.
_DIGITS_MAX = 12
# As many pods as may be created at one index in a second, with the first quick retries counted.
_CREATES_PER_S = 100


@dataclass(frozen=True, slots=True)
class Instances:
    """The numbers by role and index. Indexes that are not listed count from `first`."""

    by_role: dict[str, tuple[int, ...]]
    first: int = 0


def raised_instances(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    wanted: Iterable[tuple[str, int]],
    now: float,
) -> Instances | None:
    """The numbers, with those raised of the pods that are about to be created.

    Indexes that a shrink has given up keep their numbers, because they may be used again. None for
    a job whose programs do not train together.
    """
    if not snapshot.is_training:
        return None
    held = recorded_instances(snapshot.members)
    is_known = held.keys() >= snapshot.roles.keys()
    first = max(_recorded_first(snapshot.members), 0 if is_known else _first(snapshot, now))
    numbers = {role: held.get(role, [])[:JOB_PODS_MAX] for role in snapshot.roles}
    for role, listed in numbers.items():
        _grow(listed, status.target_replicas.get(role, 0), first)
    for one in snapshot.replicas:
        # A pod may have any index in its name.
        if one.index < JOB_PODS_MAX:
            listed = numbers[one.role]
            _grow(listed, one.index + 1, first)
            own = one.pod.metadata.annotations.get(INSTANCE, "")
            known = int(own) if _is_number(own) else 0
            # A higher number would tell a pod's peers that it is dead.
            listed[one.index] = max(listed[one.index], known) if one.role in held else known
    for role, index in wanted:
        numbers[role][index] += 1
    return Instances({role: tuple(listed) for role, listed in numbers.items()}, first)


def problem(snapshot: AITrainingJobSnapshot) -> str:
    """The problem with the names of a job's roles; empty when there is none."""
    if not snapshot.is_training or INSTANCES_FILE not in snapshot.roles:
        return ""
    return (
        f"spec.replicaSpecs: no role can be named {INSTANCES_FILE} where programs train together:"
        " the members folder has a file of that name"
    )


def recorded_instances(members: ConfigMap | None) -> dict[str, list[int]]:
    """The numbers in the members ConfigMap, by role; without roles whose line cannot be read."""
    text = members.data.get(INSTANCES_FILE, "") if members is not None else ""
    lines = [line.split() for line in text.splitlines()]
    return {
        parts[0]: [int(number) for number in parts[1:]]
        for parts in lines
        if parts and all(map(_is_number, parts[1:]))
    }


def instances_text(numbers: Instances) -> str:
    """The content of the ConfigMap's entry: a line for each role, its name first."""
    by_role = sorted(numbers.by_role.items())
    lines = (" ".join([role, *map(str, listed)]) for role, listed in by_role)
    return "".join(f"{line}\n" for line in lines)


def _recorded_first(members: ConfigMap | None) -> int:
    text = members.metadata.annotations.get(FIRST, "") if members is not None else ""
    return int(text) if _is_number(text) else 0


def _first(snapshot: AITrainingJobSnapshot, now: float) -> int:
    """The number to count from where none are recorded.

    A new job begins with 0. One whose record is lost, or that asks for numbers only now, goes on
    with one that no earlier pod can have had.
    """
    created = sound_time(snapshot.job.metadata.creation_timestamp)
    if snapshot.job.status.phase is Phase.EMPTY or not created:
        return 0
    return max(0, int((now - parse_time(created)) * _CREATES_PER_S))


def _grow(numbers: list[int], size: int, first: int) -> None:
    numbers += [first] * (size - len(numbers))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
