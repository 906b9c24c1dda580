"""The claims of a task: those that have devices, those that are to get some, and the problems."""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.api.devices import AllocationResult, ResourceClaim
from swell.scheduler.model.devices import refusals
from swell.scheduler.model.devices.choices import DeviceChoices
from swell.scheduler.model.devices.claims import DeviceClaimUse, has_room_for, is_made_for
from swell.scheduler.model.devices.extended import EXTENDED
from swell.scheduler.model.devices.objects import DeviceObjects
from swell.scheduler.model.devices.wanted import ClaimProblem, WantedClaim
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.tasks import READY, Task, TaskStatus


@dataclass(slots=True)
class ResolvedClaims:
    """The claims of a task: what is wrong with them, those that have devices, and the others."""

    problems: list[ClaimProblem] = field(default_factory=list)
    fixed: list[tuple[str, AllocationResult, bool]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    wanted: list[WantedClaim] = field(default_factory=list)


class ClaimResolver:
    """Looks up the claims of tasks, as they are written and as they were chosen since."""

    def __init__(self, objects: DeviceObjects, choices: DeviceChoices) -> None:
        self._objects = objects
        self._choices = choices

    def resolve(self, task: Task, *, with_extended: bool = True) -> ResolvedClaims:
        """Returns the claims of a task, on request without that for its extended resources."""
        resolved = ResolvedClaims()
        for use in self._choices.uses.get(task.key, ()):
            if use.name == EXTENDED and not with_extended:
                continue
            problem = self._problem(use, task)
            if problem is not None:
                resolved.problems.append(problem)
                continue
            claim = self._objects.claims[use.key]
            other = self._choices.other_choice(use.key, task)
            if claim.status.allocation is not None:
                resolved.fixed.append((use.key, claim.status.allocation, False))
            elif other is not None:
                resolved.fixed.append((use.key, other, True))
            elif self._objects.unreadable:
                # Any device may be one that such a claim has, so nothing is given away.
                why = next(iter(self._objects.unreadable.values()))
                resolved.problems.append(ClaimProblem(WaitReason.NODE_UNREADABLE, why))
            else:
                wanted = self._objects.wanted_of(use.key)
                if isinstance(wanted, ClaimProblem):
                    text = refusals.of_claim(use.key, wanted.text)
                    resolved.problems.append(ClaimProblem(wanted.reason, text))
                else:
                    resolved.open.append(use.key)
                    resolved.wanted.append(wanted)
        return resolved

    def _problem(self, use: DeviceClaimUse, task: Task) -> ClaimProblem | None:
        """Returns why a claim can be used nowhere, whatever devices there are."""
        missing = WaitReason.DEVICE_CLAIM_MISSING
        if use.unsupported:
            return ClaimProblem(WaitReason.DEVICE_UNSUPPORTED, use.unsupported)
        if not use.key:
            return ClaimProblem(missing, refusals.not_made(use))
        claim = self._objects.claims.get(use.key)
        if claim is None or (use.is_own and not is_made_for(claim, task.pod)):
            text = refusals.missing(use, is_foreign=claim is not None)
            return ClaimProblem(missing, text)
        if claim.metadata.deletion_timestamp is not None:
            return ClaimProblem(WaitReason.DEVICE_CLAIM_DELETING, refusals.deleting(use.key))
        if not use.is_own:
            return self._crowded(claim, use.key, task)
        return None

    def _crowded(self, claim: ResourceClaim, key: str, task: Task) -> ClaimProblem | None:
        """Returns why a shared claim cannot have all the pods of a gang as users."""
        users = self._choices.users.get(key, {})
        reserved = claim.status.reserved_for
        if len(users) + len(reserved) <= 1:
            return None
        known = {one.uid for one in reserved}
        gang = {
            one.pod.metadata.uid
            for one in users.values()
            if one.job is task.job and (one.status in READY or one.status is TaskStatus.PENDING)
        } | {task.pod.metadata.uid}
        n_more = len(gang - known)
        if n_more and not has_room_for(claim, task.pod.metadata.uid, n_more):
            text = refusals.too_many_users(key, len(known) + n_more)
            return ClaimProblem(WaitReason.DEVICE_UNSUPPORTED, text)
        return None
