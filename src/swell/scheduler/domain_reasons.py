"""Why a gang with a network topology waits, with the numbers of its domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swell.api.wording import count_of
from swell.scheduler.domains import Domains
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.nodes import slots
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.sub_groups import SubGroup
from swell.scheduler.model.tasks import ALLOCATED, Task
from swell.scheduler.session import Session

# How many domains `swell explain` names.
_BEST_MAX = 3
# Refusals that say only that nodes are full. Any other, of a quota say, is the real reason.
_REPLACED = frozenset({WaitReason.NOT_ENOUGH_RESOURCES})


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """How many domains a part of a job may use, and how many of its pods the best ones take."""

    tier: int
    n_domains: int
    n_wanted: int
    n_enough: int
    best: tuple[tuple[str, int], ...]
    n_outside: int  # nodes that are in none of these domains
    label: str = ""  # of whose values the domains are; empty for HyperNodes

    def __str__(self) -> str:
        domains, pods = count_of(self.n_domains, "domain"), count_of(self.n_wanted, "pod")
        kind = f"label {self.label}" if self.label else f"tier ≤ {self.tier}"
        text = f"{self.n_enough} of {domains} of {kind} hold {pods}"
        if self.best:
            name, n = self.best[0]
            text += f"; the best, {name}, holds {n}"
        if self.n_outside:
            text += f"; {count_of(self.n_outside, 'node is', 'nodes are')} in none of them"
        return text


def refuse_domains(
    session: Session, job: JobInfo, parts: Sequence[tuple[SubGroup | None, list[Task]]]
) -> None:
    """Records why no domain takes the job, unless something else than room is in the way."""
    incomplete = next((one for part, _ in parts if (one := _incomplete(part))), None)
    if incomplete is not None:
        session.refuse(job, incomplete)
        return
    known = session.refusals.get(job.key)
    if known is not None and known.reason not in _REPLACED:
        return
    for part, pending in parts:
        refusal = _refusal(session, job, part, pending)
        if refusal is not None:
            session.refuse(job, refusal)
            return
    # Without a limit of its own it is a matter of nodes, which the ordinary reason counts.
    if known is None and parts and parts[0][1]:
        session.refuse(job, Refusal(WaitReason.NOT_ENOUGH_RESOURCES, ""))
        session.stuck[job.key] = parts[0][1][0]


def counts_of(
    session: Session, job: JobInfo, part: SubGroup | None, pending: Sequence[Task]
) -> DomainCounts | None:
    """Returns the counts of the domains that a part may use; None if it may be anywhere."""
    domains = session.domains_for(job)
    tree, limit = domains.tree, domains.limit_of_part(job, part)
    if limit is None or not pending:
        return None
    allowed = domains.within(limit)
    now = domains.capacity_for(pending, now=True)
    n_wanted = _wanted(session, job, part)
    ranked = allowed[np.lexsort((allowed, tree.tiers[allowed], -now[allowed]))].tolist()
    covered = np.zeros(len(tree.leaf), dtype=np.bool_)
    covered[tree.places[tree.tiers[tree.owners] <= limit]] = True
    return DomainCounts(
        tier=limit,
        n_domains=len(allowed),
        n_wanted=n_wanted,
        n_enough=int((now[allowed] >= n_wanted).sum()),
        best=tuple((tree.names[one], int(now[one])) for one in ranked[:_BEST_MAX]),
        n_outside=len(tree.members[tree.root]) - int(covered.sum()),
        label=domains.label,
    )


def _wanted(session: Session, job: JobInfo, part: SubGroup | None) -> int:
    if not session.votes.part_shortfall(job, part):
        return 1
    missing = job.min_member - job.counts.ready_or_best_effort if part is None else part.shortfall
    return max(missing, 1)


def _incomplete(part: SubGroup | None) -> Refusal | None:
    if part is None or part.counts.live >= part.size:
        return None
    text = f"sub-group {part.name} has {part.counts.live} of its {part.size} pods"
    return Refusal(WaitReason.NOT_ENOUGH_PODS_OF_TASK, text)


def _refusal(
    session: Session, job: JobInfo, part: SubGroup | None, pending: list[Task]
) -> Refusal | None:
    domains = session.domains_for(job)
    tree = domains.tree
    # The narrower of both limits decides: the sub-group's own, then that of its job.
    limit = domains.limit_of_part(job, part)
    if limit is None:
        limit = domains.limit_of(job)
    if limit is None or limit >= tree.root_tier or not pending:
        return None
    subject = "" if part is None else f"sub-group {part.name}: "
    tasks = list((job.tasks if part is None else part.tasks).values())
    held = domains.held_by(tasks)
    if held is not None:
        text = _held_text(domains, tasks, pending, held=held, limit=limit)
        return Refusal(WaitReason.TOPOLOGY_HELD, subject + text)
    counts = counts_of(session, job, part, pending)
    if counts is None:
        return None
    broken = _broken(session, domains, limit, pending, counts.n_wanted)
    if broken:
        return Refusal(WaitReason.TOPOLOGY_TREE, f"{subject}{counts}; {broken}")
    return Refusal(WaitReason.TOPOLOGY_NO_DOMAIN, f"{subject}{counts}")


def _held_text(
    domains: Domains,
    tasks: Sequence[Task],
    pending: Sequence[Task],
    *,
    held: int,
    limit: int,
) -> str:
    tree = domains.tree
    n_there = sum(task.status in ALLOCATED for task in tasks)
    head = f"{n_there} of {len(tasks)} run"
    widest = domains.widest(limit, held)
    if widest is None:
        kind = f"label {domains.label}" if domains.label else f"tier ≤ {limit}"
        return f"{head}, and no domain of {kind} has all of them: nothing is added"
    n_more = len(pending)
    text = f"{head} in {tree.names[widest]}, which has no room for {n_more} more"
    room = domains.capacity_for(list(tasks), now=True)
    elsewhere = [
        one
        for one in domains.within(limit).tolist()
        if one != widest and not tree.contains(one, widest) and room[one] >= len(tasks)
    ]
    if elsewhere:
        text += f"; whole, it would fit into {tree.names[elsewhere[0]]}"
    return text


def _broken(
    session: Session, domains: Domains, limit: int, pending: Sequence[Task], n_wanted: int
) -> str:
    """Returns which HyperNode that is left out would take the pods, and why it is left out."""
    nodes = session.snapshot.nodes
    for name, left_out in sorted(domains.tree.left_out.items()):
        if left_out.tier > limit:
            continue
        shape = pending[0].shape
        allowed = session.placer.allowed(shape)[left_out.places]
        n = int(slots(shape, nodes.idle[:, left_out.places])[allowed].sum())
        if n >= n_wanted:
            return f"HyperNode {name} is left out: {left_out.message}"
    return ""
