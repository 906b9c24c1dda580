"""The positions of waiting jobs in their queues, from one session over the cluster's objects.

Nothing is known of them where the user may not list the cluster's pods, groups, nodes or queues.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swell.api.meta import Uid
from swell.cluster.kube.oneshot import OneShot
from swell.outlook.reading import read_input
from swell.scheduler.config import SCHEDULER_NAMES
from swell.scheduler.explain.positions import QueuePosition, queue_positions
from swell.scheduler.model.native_groups import native_job_name
from swell.scheduler.model.queue_rules import DEFAULT_QUEUE
from swell.scheduler.model.ungrouped import with_virtual_groups

if TYPE_CHECKING:
    from swell.api.meta import ObjectMeta
    from swell.scheduler.plan import SchedulerObjects


@dataclass(frozen=True, slots=True)
class JobPositions:
    """The positions of groups by their names, and the groups of jobs by the jobs' UIDs."""

    by_group: Mapping[str, QueuePosition]
    groups: Mapping[Uid, str]

    def of(self, uid: str, namespace: str, name: str) -> QueuePosition | None:
        """Returns the position of a job; a group that it does not own has its name."""
        group = self.groups.get(Uid(uid), f"{namespace}/{name}")
        return self.by_group.get(group)


def read_positions(client: OneShot) -> JobPositions:
    """Read the cluster and return the positions of everything that waits."""
    found = read_input(client)
    if not found.is_whole:
        return JobPositions({}, {})
    objects = found.objects
    owners = dict(_owners(objects))
    # Pods without a group wait in the same queues.
    objects.pods, alone = with_virtual_groups(objects.pods, SCHEDULER_NAMES, DEFAULT_QUEUE)
    objects.groups += alone
    # Wall time: it is compared with timestamps of the cluster.
    return JobPositions(queue_positions(objects, now=time.time()), owners)


def _owners(objects: SchedulerObjects) -> Iterator[tuple[Uid, str]]:
    for group in objects.groups:
        yield from _owner(group.metadata, str(group.metadata.key))
    for native in objects.native_groups:
        meta = native.metadata
        yield from _owner(meta, f"{meta.namespace}/{native_job_name(meta.name)}")


def _owner(meta: ObjectMeta, group: str) -> Iterator[tuple[Uid, str]]:
    if (owner := meta.controller) is not None:
        yield owner.uid, group
