"""The tables of `swell top nodes` and `swell top pods`: what pods have asked for, and of how much.

These are requests, by which the scheduler decides, and not what processes use at this moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from swell.api.core import Node
from swell.api.pod import Pod, PodPhase
from swell.api.quantity import parse
from swell.api.requests import CPU, MEMORY, pod_requests, scheduling_amount, scheduling_amounts
from swell.api.requests import PODS as POD_SLOTS

_GPU_SUFFIX = "/gpu"
_GIB = 1 << 30
# Pods in these phases hold no resources any more.
_ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
NODE_HEADING = ["NODE", "PODS", "CPU", "CPU%", "MEMORY", "MEMORY%", "GPU", "GPU%"]
POD_HEADING = ["POD", "PHASE", "NODE", "CPU", "MEMORY", "GPU"]
SORTS = {"cpu": CPU, "memory": MEMORY}


def node_rows(nodes: Iterable[Node], pods: Iterable[Pod], sort_by: str = "") -> list[list[str]]:
    """Return a row for each node: the requests of its pods, of what the node offers."""
    taken: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in _ENDED:
            held = taken.setdefault(pod.spec.node_name, Counter())
            held.update({POD_SLOTS: 1, **_with_gpus(scheduling_amounts(pod_requests(pod.spec)))})
    found = []
    for node in nodes:
        offered = _with_gpus(
            {
                name: scheduling_amount(name, parse(amount))
                for name, amount in node.status.allocatable.items()
            }
        )
        held = taken.get(node.metadata.name, Counter())
        slots = f"{held[POD_SLOTS]}/{offered.get(POD_SLOTS, 0)}"
        cells = [node.metadata.name, slots]
        for name in (CPU, MEMORY, _GPU_SUFFIX):
            cells += _share(name, held[name], offered.get(name, 0))
        found.append((held[SORTS.get(sort_by, "")], cells))
    return [NODE_HEADING, *_ordered(found, is_by_amount=bool(sort_by))]


def pod_rows(pods: Iterable[Pod], sort_by: str = "", *, with_namespace: bool) -> list[list[str]]:
    """Return a row for each pod: what it has asked for."""
    found = []
    for pod in pods:
        asked = Counter(_with_gpus(scheduling_amounts(pod_requests(pod.spec))))
        lead = [pod.metadata.namespace] if with_namespace else []
        cells = [*lead, pod.metadata.name, pod.status.phase.value, pod.spec.node_name or "<none>"]
        cells += [_amount(name, asked[name]) for name in (CPU, MEMORY, _GPU_SUFFIX)]
        found.append((asked[SORTS.get(sort_by, "")], cells))
    heading = ["NAMESPACE", *POD_HEADING] if with_namespace else POD_HEADING
    return [heading, *_ordered(found, is_by_amount=bool(sort_by))]


def _ordered(found: Sequence[tuple[int, list[str]]], *, is_by_amount: bool) -> list[list[str]]:
    """Return rows by their names, or with an amount by that, the largest first."""
    if is_by_amount:
        return [cells for _, cells in sorted(found, key=lambda one: (-one[0], one[1]))]
    return sorted(cells for _, cells in found)


def _with_gpus(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts with the sum of GPUs of all makers under one name."""
    gpus = sum(amount for name, amount in amounts.items() if name.endswith(_GPU_SUFFIX))
    return {**amounts, _GPU_SUFFIX: gpus}


def _share(name: str, held: int, offered: int) -> list[str]:
    share = f"{100 * held / offered:.0f}%" if offered else "-"
    return [_amount(name, held), share]


def _amount(name: str, amount: int) -> str:
    return f"{amount / _GIB:.1f}Gi" if name == MEMORY else f"{amount / 1000:g}"
