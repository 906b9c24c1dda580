"""Which pods are where, by label: the index behind pod affinity, anti-affinity and topology spread.

The matches of a term are counted per node when they are first asked for, then kept in step with
every move of a task. Clusters without such terms pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from swell.api import codec
from swell.api.matching import is_empty_selector, selector_matches
from swell.api.pod import (
    LabelSelector,
    LabelSelectorRequirement,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.resources import Mask
from swell.scheduler.model.tasks import NOWHERE, TAKES_LATER, TAKES_NOW, Shape, Task, TaskStatus

Counts = NDArray[np.float64]
# The nodes whose pods a constraint of topology spread counts, by its policies.
CountedNodes = Callable[[TopologySpreadConstraint], Mask]

# Counts of a term that no session has asked for this long are dropped, so that their number is
# bounded by what is in use. To count anew costs a look at all pods, so it is not done more often.
_SESSIONS_KEPT = 64


@dataclass(frozen=True, slots=True)
class Term:
    """Selects pods by label in some namespaces, and groups them by a label of their nodes."""

    topology_key: str
    namespaces: tuple[str, ...] | None  # None: all
    identity: bytes  # the encoded selector, which makes equal terms one key
    selector: LabelSelector | None = field(compare=False)

    def matches(self, task: Task) -> bool:
        meta = task.pod.metadata
        return (self.namespaces is None or meta.namespace in self.namespaces) and selector_matches(
            self.selector, meta.labels
        )


@dataclass(slots=True)
class _PodCounts:
    """Matching pods per node: `now` those there or pipelined, `later` without those leaving."""

    now: Counts
    later: Counts

    @property
    def any(self) -> bool:
        return bool(self.now.any() or self.later.any())

    def add(self, node: int, status: TaskStatus, n: int) -> None:
        if node != NOWHERE:
            self.now[node] += n * (TAKES_NOW[status] or TAKES_LATER[status])
            self.later[node] += n * TAKES_LATER[status]


class AffinityIndex:
    """Counts pods per term and node, for the nodes of one table."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._version = -1
        self._matching: dict[Term, _PodCounts] = {}
        # By term: the placed pods that have it as required anti-affinity, and so refuse others.
        self._refusing: dict[Term, _PodCounts] = {}
        self._n_refusers = 0
        self._domains: dict[str, NDArray[np.intp]] = {}
        self._n_sessions = 0
        self._asked: dict[Term, None] = {}  # since the counts were last sorted out

    def forget_unused(self) -> None:
        """Drops, every so many sessions, the counts of terms that are not in use any more."""
        self._n_sessions += 1
        if self._n_sessions % _SESSIONS_KEPT:
            return
        for term in [term for term in self._matching if term not in self._asked]:
            del self._matching[term]
        self._asked.clear()
        # A term that no placed pod has refuses nothing; the next pod with it adds it again.
        for term in [term for term, counts in self._refusing.items() if not counts.any]:
            del self._refusing[term]

    def counts(self, shape: Shape) -> bool:
        """Whether pods of a shape are counted. Usually not: no pod of the cluster has a term."""
        return bool(self._matching) or shape.depends_on_other_pods

    def moved(self, task: Task, node: int, status: TaskStatus, n: int) -> None:
        """Records that a task came to (n = 1) or left (n = -1) a node in this status."""
        if not self.counts(task.shape):
            return
        if task.shape.depends_on_other_pods:
            self._n_refusers += n
        if self._version != self._nodes.version:
            return  # all is counted anew when next asked
        for term, counts in self._matching.items():
            if term.matches(task):
                counts.add(node, status, n)
        if task.shape.depends_on_other_pods:
            for term in self.anti_terms(task):
                self._counts_of(self._refusing, term).add(node, status, n)

    def concerns(self, task: Task) -> bool:
        """Whether it matters for this task where other pods are."""
        if task.shape.depends_on_other_pods:
            return True
        return self._n_refusers > 0 and any(term.matches(task) for term in self._refusers())

    def allows(
        self, task: Task, counted: CountedNodes, *, at_once: bool
    ) -> Iterator[tuple[str, Mask]]:
        """Yields each constraint on this task by name, with the nodes that satisfy it.

        `counted` returns the nodes whose domains a constraint of topology spread counts.
        """
        # Required anti-affinity holds in both directions: placed pods may refuse this task, and it
        # may refuse them. A pod that is leaving still counts if the task is to start now.
        for term in self._refusers():
            if term.matches(task):
                refusing = self._side(self._refusing[term], at_once=at_once)
                yield "anti-affinity", self._per_domain(term.topology_key, refusing) == 0
        if not task.shape.depends_on_other_pods:
            return
        for term in self.anti_terms(task):
            present = self._side(self._count(term), at_once=at_once)
            yield "anti-affinity", self._per_domain(term.topology_key, present) == 0
        yield from self._affinity(task)
        for constraint in task.shape.spec.topology_spread_constraints:
            if constraint.when_unsatisfiable == "DoNotSchedule":
                yield "spread", self._spread(task, constraint, counted(constraint))

    def preference(self, task: Task) -> Counts | None:
        """Returns the weights of the preferred terms that each node satisfies; None without any."""
        affinity = task.shape.spec.affinity
        if affinity is None:
            return None
        score: Counts | None = None
        for sign, side in ((1, affinity.pod_affinity), (-1, affinity.pod_anti_affinity)):
            for preferred in (
                side.preferred_during_scheduling_ignored_during_execution if side else ()
            ):
                term = self._term(task, preferred.pod_affinity_term)
                near = self._per_domain(term.topology_key, self._count(term).later)
                score = (0.0 if score is None else score) + sign * preferred.weight * near
        return score

    def anti_terms(self, task: Task) -> list[Term]:
        affinity = task.shape.spec.affinity
        side = affinity.pod_anti_affinity if affinity else None
        terms = side.required_during_scheduling_ignored_during_execution if side else ()
        return [self._term(task, term) for term in terms]

    def _affinity(self, task: Task) -> Iterator[tuple[str, Mask]]:
        affinity = task.shape.spec.affinity
        side = affinity.pod_affinity if affinity else None
        for required in side.required_during_scheduling_ignored_during_execution if side else ():
            term = self._term(task, required)
            # Only pods that stay count: the task must not depend on one that is leaving.
            present = self._count(term).later
            has_key = self.codes(term.topology_key) >= 0
            if not present.any() and term.matches(task):
                yield "affinity", has_key  # the first pod of a group that attracts itself
            else:
                yield "affinity", has_key & (self._per_domain(term.topology_key, present) > 0)

    def spread_term(self, task: Task, constraint: TopologySpreadConstraint) -> Term:
        """Returns the pods that a constraint of topology spread counts for a task."""
        selector = _with_own_values(constraint.label_selector, constraint.match_label_keys, task)
        return _term(constraint.topology_key, (task.pod.metadata.namespace,), selector)

    def staying(self, term: Term) -> Counts:
        """Returns how many pods of a term each node has, without those that are leaving.

        As for kube-scheduler, an empty selector of a topology spread counts no pod.
        """
        if is_empty_selector(term.selector):
            return np.zeros(len(self._nodes))
        return self._count(term).later

    def _spread(self, task: Task, constraint: TopologySpreadConstraint, eligible: Mask) -> Mask:
        term = self.spread_term(task, constraint)
        codes = self.codes(term.topology_key)
        counted = eligible & (codes >= 0)
        domains = np.unique(codes[counted])
        if not len(domains):
            return counted
        present = np.where(counted, self.staying(term), 0.0)
        by_domain = np.bincount(codes[counted], present[counted], minlength=int(codes.max()) + 1)
        lowest = by_domain[domains].min()
        if constraint.min_domains is not None and len(domains) < constraint.min_domains:
            lowest = 0  # missing domains count as empty ones
        after = by_domain[np.maximum(codes, 0)] + term.matches(task)
        fits: Mask = (codes >= 0) & (after - lowest <= constraint.max_skew)
        return fits

    def _term(self, task: Task, term: PodAffinityTerm) -> Term:
        """Returns a pod's term with its own namespace and label values filled in."""
        selector = _with_own_values(term.label_selector, term.match_label_keys, task)
        selector = _with_own_values(selector, term.mismatch_label_keys, task, operator="NotIn")
        return _term(term.topology_key, self._spaces(task, term), selector)

    def _spaces(self, task: Task, term: PodAffinityTerm) -> tuple[str, ...] | None:
        """Returns the namespaces of a term as Kubernetes defines them; None stands for all."""
        selector = term.namespace_selector
        if selector is None:
            return tuple(sorted(term.namespaces)) or (task.pod.metadata.namespace,)
        if not selector.match_labels and not selector.match_expressions:
            return None
        chosen = {n for n, labels in self.namespaces.items() if selector_matches(selector, labels)}
        return tuple(sorted(chosen | set(term.namespaces)))

    def _refusers(self) -> Sequence[Term]:
        if not self._n_refusers:
            return ()
        self._refresh()
        return list(self._refusing)

    def _count(self, term: Term) -> _PodCounts:
        self._refresh()
        self._asked[term] = None
        if term not in self._matching:
            counts = self._counts_of(self._matching, term)
            for task in self._everywhere():
                if term.matches(task):
                    counts.add(task.node, task.status, 1)
        return self._matching[term]

    def _refresh(self) -> None:
        """Discards all counts if nodes or their labels have changed."""
        if self._version == self._nodes.version:
            return
        self._version = self._nodes.version
        self._matching.clear()
        self._refusing.clear()
        self._domains.clear()
        for task in self._everywhere():
            if task.shape.depends_on_other_pods:
                for term in self.anti_terms(task):
                    self._counts_of(self._refusing, term).add(task.node, task.status, 1)

    def _everywhere(self) -> Iterable[Task]:
        return (task for tasks in self._nodes.tasks for task in tasks.values())

    def _counts_of(self, known: dict[Term, _PodCounts], term: Term) -> _PodCounts:
        if term not in known:
            known[term] = _PodCounts(np.zeros(len(self._nodes)), np.zeros(len(self._nodes)))
        return known[term]

    def _side(self, counts: _PodCounts, *, at_once: bool) -> Counts:
        return counts.now if at_once else counts.later

    def codes(self, key: str) -> NDArray[np.intp]:
        """Returns each node's topology domain as a number, -1 where it has none."""
        self._refresh()
        codes = self._domains.get(key)
        if codes is None:
            values = [
                node.metadata.labels.get(key) if node else None for node in self._nodes.objects
            ]
            numbers = {
                value: n for n, value in enumerate(sorted({v for v in values if v is not None}))
            }
            codes = np.array([-1 if v is None else numbers[v] for v in values], dtype=np.intp)
            self._domains[key] = codes
        return codes

    def _per_domain(self, key: str, per_node: Counts) -> Counts:
        """Returns for each node the count over its whole domain; 0 where it has none."""
        codes = self.codes(key)
        inside = codes >= 0
        if not inside.any():
            return np.zeros(len(codes))
        by_domain = np.bincount(codes[inside], per_node[inside])
        return np.where(inside, by_domain[np.maximum(codes, 0)], 0.0)


def _term(key: str, namespaces: tuple[str, ...] | None, selector: LabelSelector | None) -> Term:
    return Term(key, namespaces, codec.encode_stable(selector), selector)


def _with_own_values(
    selector: LabelSelector | None, keys: Sequence[str], task: Task, operator: str = "In"
) -> LabelSelector | None:
    labels = task.pod.metadata.labels
    extra = tuple(
        LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for key in keys
        if key in labels
    )
    if selector is None or not extra:
        return selector
    return LabelSelector(
        match_labels=selector.match_labels,
        match_expressions=(*selector.match_expressions, *extra),
    )
