"""Sentences about a job that can never start on its cluster as it is.

The command line warns with them before a job is sent, and the scheduler reports them of a group.
The amounts come as texts: the two compute them from different data. Each sentence says what is
asked and what there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from swell.api.wording import count_of

# The reason on a job, and the type of the condition of its group.
CANNOT_EVER_FIT: Final = "CannotEverFit"


class Shortage(NamedTuple):
    """A resource of which a pod asks for more than any node has that it may use."""

    resource: str
    asked: str
    largest: str  # empty: no node has any


def no_node_matches(role: str, selector: Mapping[str, str]) -> str:
    """Returns the sentence for a pod whose node selector or affinity no node matches."""
    pairs = [f"{key}={value}" for key, value in sorted(selector.items())]
    return f"no node has the labels that {role} asks for ({', '.join(pairs) or 'by node affinity'})"


def pod_too_large(role: str, shortages: Sequence[Shortage]) -> str:
    """Returns the sentence for a pod that is larger than every node."""
    return f"a pod of {role} {' and '.join(map(_shortage_text, shortages))}"


def no_node_has_all(role: str, each: Mapping[str, str]) -> str:
    """Returns the sentence for a pod whose resources no node has all at once."""
    return f"no node has all that a pod of {role} asks for: {_amounts_text(each)}"


def too_few_places(role: str, n_pods: int, n_places: int, each: Mapping[str, str]) -> str:
    """Returns the sentence for more pods than the empty cluster would hold."""
    return (
        f"{role} starts with {count_of(n_pods, 'pod')}, and the cluster has room for {n_places} of"
        f" {_amounts_text(each)} each"
    )


def cluster_too_small(resource: str, there: str, needed: str) -> str:
    """Returns the sentence for a job that needs more of a resource than all nodes have."""
    return f"the cluster has {there} {resource} in all; this job needs {needed}"


def shares_devices(role: str) -> str:
    """Returns the sentence for a pod that asks for a part of a GPU."""
    # A node hands parts out only to pods whose annotations name the part.
    why = "which are not handed out (DeviceSharingUnsupported): use MIG by DRA"
    return f"{role} asks for parts of GPUs (volcano.sh/vgpu-*, volcano.sh/gpu-*), {why}"


def _shortage_text(one: Shortage) -> str:
    has = f"the largest node has {one.largest}" if one.largest else "no node has any"
    return f"asks for {one.asked} {one.resource}, and {has}"


def _amounts_text(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in sorted(amounts.items()))
