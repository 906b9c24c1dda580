"""A gang that must stay in one part of the network grows there, or says why it does not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.codec import convert
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup
from swell.autoscaler.policies.interface import RoleTarget, SizeReason
from tests.autoscaler_cases import (
    NAMESPACE,
    Thing,
    a_job,
    a_node,
    a_pod,
    a_rack,
    a_role,
    decide,
    look,
)
from tests.topology_clusters import with_labels

ROLE = a_role(1, 8, cpu="1", memory="1Gi")


def nodes(cpu: int) -> list[Thing]:
    """Four nodes in two racks; the first has as many cpus as given, the others plenty."""
    sizes = {"n1": cpu, "n2": 2, "n3": 50, "n4": 50}
    return [
        a_node(name, cpu=n, memory="100Gi", labels={"rack": f"r{1 + (name > 'n2')}"})
        for name, n in sizes.items()
    ]


def gang(n: int, group: dict[str, object]) -> list[Thing]:
    """A running job with its group; two pods on n2, the others on n1."""
    found = a_job("a", targets={"t": n}, t=ROLE)
    body = {
        "metadata": {"name": "a", "namespace": NAMESPACE, "uid": "g"},
        "spec": {"minMember": 1, **group},
        "status": {"phase": "Running"},
    }
    pods = [a_pod("a", "t", at, "n1" if at > 1 else "n2", cpu="1", memory="1Gi") for at in range(n)]
    return [found, convert(body, PodGroup), *pods]


def target_of(*things: Thing, labels: str = "") -> RoleTarget:
    chosen = {"scheduler": with_labels(labels)} if labels else {}
    (target,) = decide(look(*things, **chosen)).values()
    return target


HARD: dict[str, object] = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
SOFT: dict[str, object] = {"networkTopology": {"mode": "soft"}}
RACKS = (a_rack("rack-1", "n1", "n2"), a_rack("rack-2", "n3", "n4"))


def test_hard_gang_grows_as_far_as_its_rack_has_room() -> None:
    """The other rack has room for all, and does not count."""
    target = target_of(*nodes(3), *RACKS, *gang(2, HARD))

    assert (target.target, target.reason) == (5, SizeReason.ROOM)


def test_hard_gang_in_a_full_rack_says_which() -> None:
    """No pod is created that would wait outside its domain."""
    target = target_of(*nodes(1), *RACKS, *gang(3, HARD))

    assert (target.target, target.reason) == (3, SizeReason.TOPOLOGY_HELD)
    assert target.message == ("its pods must stay in rack-1, which has no room for another replica")


@pytest.mark.parametrize("group", [SOFT, {}], ids=["soft", "none"])
def test_other_gangs_grow_everywhere(group: dict[str, object]) -> None:
    """A preference is no limit."""
    target = target_of(*nodes(1), *RACKS, *gang(3, group))

    assert target.target == 8


def annotated(thing: Thing) -> Thing:
    """The same pod, which asks by Kueue's annotation to be in one rack with its role."""
    if not isinstance(thing, Pod):
        return thing
    notes = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    meta = replace(thing.metadata, annotations={**thing.metadata.annotations, **notes})
    return replace(thing, metadata=meta)


def test_annotated_role_grows_in_the_rack_of_its_labels() -> None:
    """Labels of nodes describe the network, and the pods' annotations ask for a level of it."""
    things = list(map(annotated, (*nodes(3), *gang(2, {}))))
    full = list(map(annotated, (*nodes(1), *gang(3, {}))))

    assert target_of(*things, labels="rack").target == 5
    assert target_of(*full, labels="rack").reason is SizeReason.TOPOLOGY_HELD
