"""Roles to which it matters where other pods are: host ports, affinity, spread, network topology.

For those the scheduler's own filters are asked before each replica, with the replicas that the plan
has placed so far put into the mirror. Amounts are compared by `room`, as for all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from swell.autoscaler.job_state import JobState, RoleState
from swell.autoscaler.policies.held_domains import AllowedNodes, allowed_nodes
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.trial import Trial
from swell.autoscaler.views import AutoscalerNode
from swell.scheduler.model.tasks import Task
from swell.scheduler.session import Session

Mask = NDArray[np.bool_]


class PeculiarRoles:
    """The peculiar roles of one plan, and the nodes that take another replica of each."""

    def __init__(
        self, trial: Trial, jobs: Sequence[JobState], nodes: Sequence[AutoscalerNode]
    ) -> None:
        self._trial = trial
        # A pod of each role that no node has yet: the one that is asked about.
        self._next: dict[RoleId, Task] = {}
        session = trial.session()
        self._allowed = _allowed(session, jobs) if trial.mirror.has_topologies else {}
        self._roles = {
            id_: (job, state)
            for id_, job, state in _elastic(jobs)
            if _is_peculiar(state) or id_ in self._allowed
        }
        self._add_concerned(jobs)
        table = trial.snapshot.nodes
        self._places = np.array([table.find(node.name) for node in nodes], dtype=np.intp)
        # Pods were put in since the session was opened, so another one is.
        self._placer = trial.session().placer

    def __contains__(self, role: RoleId) -> bool:
        return role in self._roles

    def roles(self) -> list[tuple[RoleId, RoleState]]:
        return [(id_, state) for id_, (_, state) in self._roles.items()]

    def passing(self, role: RoleId) -> Mask:
        """Returns which nodes, in the order of the cluster's, take another replica if it fits."""
        mask: Mask = self._placer.passing(self._task(role))[self._places]
        allowed = self._allowed.get(role)
        return mask if allowed is None else mask & allowed.mask[self._places]

    def domain_of(self, role: RoleId) -> str:
        """Returns the domain that a role must stay in; empty if it holds none."""
        allowed = self._allowed.get(role)
        return "" if allowed is None else allowed.domain

    def place(self, role: RoleId, node: int) -> None:
        self._trial.place(self._task(role), int(self._places[node]))
        del self._next[role]

    def _add_concerned(self, jobs: Sequence[JobState]) -> None:
        """Add the roles whose pods others keep away: pods that exist, or those of the plan."""
        index = self._trial.snapshot.affinity_index
        terms = [term for role in self._roles for term in index.anti_terms(self._task(role))]
        if not terms and not self._trial.mirror.has_refusing_pods:
            return
        for id_, job, state in _elastic(jobs):
            if id_ in self._roles:
                continue
            task = self._trial.imagine_bystander(job, state)
            if index.concerns(task) or any(term.matches(task) for term in terms):
                self._roles[id_], self._next[id_] = (job, state), task

    def _task(self, role: RoleId) -> Task:
        task = self._next.get(role)
        if task is None:
            task = self._next[role] = self._trial.imagine_bystander(*self._roles[role])
        return task


def _allowed(session: Session, jobs: Sequence[JobState]) -> dict[RoleId, AllowedNodes]:
    return allowed_nodes(session, ((id_, str(job.view.group)) for id_, job, _ in _elastic(jobs)))


def has_any(jobs: Sequence[JobState]) -> bool:
    """Whether replicas of some elastic role depend on the pods around them."""
    return any(_is_peculiar(state) for _, _, state in _elastic(jobs))


def _elastic(jobs: Sequence[JobState]) -> Iterator[tuple[RoleId, JobState, RoleState]]:
    for job in jobs:
        for state in job.roles:
            if state.view.is_auto:
                yield RoleId(job.view.id, state.view.name), job, state


def _is_peculiar(state: RoleState) -> bool:
    return state.view.needs.is_peculiar or any(pod.needs.is_peculiar for pod in state.pods)
