"""The plan for one node on which jobs have failed: its marks, and the taint of a suspect. Pure.

Marks and taint go out in one patch with the version that the plan was made from, so a crash leaves
both or neither, and two writers never undo each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from swell.api.core import EventSeverity, Node
from swell.api.kinds import NODES
from swell.api.meta import Body
from swell.api.node_faults import (
    SUSPECT_TAINT,
    FaultMark,
    FaultRecord,
    read_faults,
    with_marks,
    written_faults,
)
from swell.operator.framework.settings import OperatorSettings
from swell.runtime.plan import NOTHING, EmitEvent, Plan, patch_object

MARKED = "FaultMarked"
SUSPECT = "SuspectNode"
CORDONED = "SuspectCordoned"
NOT_CORDONED = "SuspectNotCordoned"


@dataclass(frozen=True, slots=True)
class NodeCensus:
    """How many nodes there are, and how many of them are tainted as suspects."""

    n_nodes: int
    n_tainted: int

    def allows_one_more(self, share: float) -> bool:
        return self.n_tainted + 1 <= share * self.n_nodes


def is_tainted(node: Node) -> bool:
    return any(taint.key == SUSPECT_TAINT for taint in node.spec.taints)


def wants_taint(node: Node, settings: OperatorSettings, now: float) -> bool:
    """Whether the node is a suspect that is to be tainted and is not."""
    if not settings.cordon_suspects or is_tainted(node):
        return False
    return read_faults(node.metadata.annotations).is_suspect(now)


def plan_marks(
    node: Node,
    marks: Iterable[FaultMark],
    settings: OperatorSettings,
    census: NodeCensus | None,
    now: float,
) -> Plan:
    """The plan that brings marks to a node, and the taint if it is a suspect by then.

    Without a census nothing is tainted: the limit of tainted nodes could not be kept.
    """
    held = read_faults(node.metadata.annotations)
    new = with_marks(held, marks, now)
    record = new or held
    is_suspect = record.is_suspect(now)
    taints = is_suspect and settings.cordon_suspects and not is_tainted(node)
    allowed = census is not None and census.allows_one_more(settings.suspects_max_share)
    body: Body = {}
    if new is not None:
        stored = FaultRecord(
            half_life_seconds=int(settings.fault_half_life_s),
            trusted=new.trusted,
            marks=new.marks,
        )
        body["metadata"] = {"annotations": written_faults(stored)}
    if taints and allowed:
        taint = {"key": SUSPECT_TAINT, "value": "true", "effect": "NoSchedule"}
        body["spec"] = {"taints": [*_taints(node), taint]}
    if not body:
        return NOTHING
    meta = node.metadata
    write = patch_object(NODES, meta.key, meta.uid, body, version=meta.resource_version)
    texts = _texts(held, record, now)
    if taints and census is not None:
        texts = (*texts, _about_taint(record, settings, census, allowed=allowed, now=now))
    return Plan((write, *_events(node, texts)))


def _taints(node: Node) -> list[Body]:
    fields = ("key", "value", "effect")
    return [
        {name: getattr(one, name) for name in fields if getattr(one, name)}
        | ({"timeAdded": one.time_added} if one.time_added else {})
        for one in node.spec.taints
    ]


def _texts(held: FaultRecord, record: FaultRecord, now: float) -> tuple[tuple[str, str], ...]:
    """Reason and sentence of each event about new marks."""
    new = [one for one in record.marks if one not in held.marks]
    texts = [(MARKED, f"{one.job} failed here: {one.message or one.reason}") for one in new]
    if record.is_suspect(now) and not held.is_suspect(now):
        jobs = record.jobs(now)
        text = f"{len(jobs)} jobs failed here: {', '.join(jobs)}; see: swell get nodes -o wide"
        texts.append((SUSPECT, text))
    return tuple(texts)


def _about_taint(
    record: FaultRecord,
    settings: OperatorSettings,
    census: NodeCensus,
    *,
    allowed: bool,
    now: float,
) -> tuple[str, str]:
    jobs = record.jobs(now)
    if allowed:
        text = (
            f"no new pods go here, because {len(jobs)} jobs failed on the node: {', '.join(jobs)}; "
            f"taint {SUSPECT_TAINT}, undone by: swell trust NODE"
        )
        return CORDONED, text
    text = (
        f"not tainted although {len(jobs)} jobs failed here: {census.n_tainted} of "
        f"{census.n_nodes} nodes are tainted as suspects, and one more would be more than "
        f"{settings.suspects_max_share:.0%}"
    )
    return NOT_CORDONED, text


def _events(node: Node, texts: Iterable[tuple[str, str]]) -> Iterator[EmitEvent]:
    meta = node.metadata
    for reason, text in texts:
        # Events about nodes are kept under their names where nodes have no namespace.
        yield EmitEvent(NODES, meta.key, meta.uid, EventSeverity.WARNING, reason, text)
