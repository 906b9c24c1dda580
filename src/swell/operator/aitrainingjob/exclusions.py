"""Pods that wait for nodes which they exclude, and need not any more. Pure.

The nodes that a pod must not use are fixed when it is made. If all that it could use are among
them, it waits; and would for ever, although the job has forgotten their faults meanwhile, or has
no other node left. So such a pod is made anew as soon as a new one would exclude less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobStatus
from swell.api.core import Node
from swell.api.meta import Body
from swell.api.node_faults import kept_for_s
from swell.api.pod import Pod
from swell.api.times import parse_time
from swell.operator.aitrainingjob.causes import Cause, CauseKind
from swell.operator.aitrainingjob.node_faults import (
    avoided_nodes,
    open_nodes,
    required_nodes,
    usable_by,
)
from swell.operator.aitrainingjob.phases import JobReason
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, current, replica_of
from swell.operator.framework.recovery import sound_time


def held_off(
    job: AITrainingJob, pods: Iterable[Pod], nodes: Callable[[], Iterable[Node]]
) -> dict[str, frozenset[str]]:
    """The pods that exclude all the nodes that they could use, each with these nodes.

    The nodes are only looked at for a job of which a pod waits that excludes any.
    """
    waiting = [(one, _excluded_by(one)) for one in pods if not one.spec.node_name]
    if not any(excluded for _, excluded in waiting):
        return {}
    there = open_nodes(nodes())
    usable = {
        role.lower(): _usable_names(spec.template, there)
        for role, spec in job.spec.replica_specs.items()
    }
    found: dict[str, frozenset[str]] = {}
    for pod, excluded in waiting:
        names = usable.get(replica_of(pod, job.metadata.name).role, frozenset())
        if names and names <= excluded:
            found[pod.metadata.name] = names
    return found


def exclusion_causes(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> Iterator[Cause]:
    """The causes to make pods anew that wait in vain, and whose successors would not."""
    for one in current(snapshot, status) if snapshot.held_off else ():
        names = snapshot.held_off.get(one.name, frozenset())
        again = names.difference(avoided_nodes(snapshot, status, one.role, now)[0])
        if again and not one.is_bound and not one.is_leaving:
            text = f"pod {one.name} excludes node {min(again)}, which need not be avoided any more"
            yield Cause(
                CauseKind.STRANDED, one.role, one.index, JobReason.NODES_EXCLUDED, text, True
            )


def avoidance_ends(snapshot: AITrainingJobSnapshot) -> list[float]:
    """When nodes for which a pod waits need not be avoided any more: the times to look again."""
    if not snapshot.held_off:
        return []
    kept_s, status = kept_for_s(snapshot.settings.fault_half_life_s), snapshot.job.status
    faults = (sound_time(one.time) for one in status.node_faults if one.blamed)
    return [
        *(parse_time(one.until) for one in status.avoid_nodes),
        *(parse_time(text) + kept_s for text in faults if text),
    ]


def _usable_names(template: Body, nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(one.metadata.name for one in usable_by(template, nodes))


def _excluded_by(pod: Pod) -> frozenset[str]:
    """The nodes that every required term of a pod excludes by name."""
    required = required_nodes(pod.spec)
    terms = [
        {name for one in term.match_fields if one.operator == "NotIn" for name in one.values}
        for term in (required.node_selector_terms if required is not None else ())
    ]
    return frozenset(set.intersection(*terms)) if terms else frozenset()
