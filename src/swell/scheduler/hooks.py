"""What a plugin may say: a set of optional functions, each asked at one point of a session.

A plugin is a function that opens it for a session and returns its `Hooks`. The functions decide
nothing alone; `votes` combines the answers of all plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import Unit
from swell.scheduler.model.jobs import Job, QueueEntry
from swell.scheduler.model.nodes import Matrix
from swell.scheduler.model.reasons import Reason, Refusal
from swell.scheduler.model.resources import Mask, Vector
from swell.scheduler.model.tasks import Shape, Task

if TYPE_CHECKING:
    from swell.scheduler.session import Session

# Anything that can be compared with its like; smaller comes first.
SortKey = float | str | tuple[float | str, ...]
UNREACHABLE = 1 << 30


class Vote(Enum):
    PERMIT = "permit"
    ABSTAIN = "abstain"
    REJECT = "reject"


# From the candidates, in order, those that may go.
VictimVote = Callable[[Task, Sequence[Unit]], Sequence[Unit]]


@dataclass(frozen=True, slots=True)
class Hooks:
    """A plugin's functions. One that is absent has no opinion."""

    # order: smaller first
    job_key: Callable[[Job], SortKey] | None = None
    queue_key: Callable[[QueueEntry], SortKey] | None = None
    queue_keys_interact: bool = False  # what one queue gets changes the keys of others
    task_key: Callable[[Task], SortKey] | None = None
    # Between victims' queues, seen from a claimer: larger gives way first.
    victim_queue_key: Callable[[Task, QueueEntry], SortKey] | None = None

    # the state of a job
    job_valid: Callable[[Job], Refusal | None] | None = None
    # How many more tasks of a role make the job ready: 0 when it is, UNREACHABLE when they cannot.
    shortfall: Callable[[Job, str], int] | None = None
    pipelined: Callable[[Job], Vote] | None = None
    starving: Callable[[Job], bool] | None = None

    # admission
    enqueueable: Callable[[Job], Vote | Refusal] | None = None
    admitted: Callable[[Job], None] | None = None

    # quota
    overused: Callable[[QueueEntry], bool] | None = None
    # How many of n tasks of a shape the queue may take.
    allowance: Callable[[QueueEntry, Shape, int], int] | None = None
    preemptive: Callable[[QueueEntry, Task], bool] | None = None
    # Why it may not take all of n.
    quota_refusal: Callable[[QueueEntry, Shape, int], Refusal | None] | None = None

    # victims; the functions on jobs are a cheap first sieve, never finer than the vote itself
    preemptable: VictimVote | None = None
    preemptable_job: Callable[[Task, Job], bool] | None = None
    reclaimable: VictimVote | None = None
    reclaimable_job: Callable[[Task, Job], bool] | None = None
    shuffle_victims: Callable[[Sequence[Task]], Sequence[Task]] | None = None

    # nodes: what no eviction changes; what depends on other tasks (None: nothing does)
    node_filter: Callable[[Shape], Mask] | None = None
    task_filter: Callable[[Task, bool], Mask | None] | None = None
    # Why nodes refuse, first reason first, each with the nodes that pass it.
    diagnose: Callable[[Task], Iterable[tuple[Reason, Mask]]] | None = None
    node_score: Callable[[Shape], Vector] | None = None
    # From how full some nodes would be with one more of the shape, resource by resource, their
    # score. Above 1 is too full; of what a node does not have it is 0.
    load_score: Callable[[Shape, Matrix], Vector] | None = None
    task_score: Callable[[Task], Vector | None] | None = None

    # the end of a session: whether the job counts as not schedulable, and why
    unschedulable: Callable[[Job], Refusal | None] | None = None


Plugin = Callable[["Session", PluginOption], Hooks]
