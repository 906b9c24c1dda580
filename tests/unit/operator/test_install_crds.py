"""Installing our kinds into a cluster."""

from __future__ import annotations

from swell.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from swell.api.meta import Body, Key
from swell.operator.framework.program import install_crds
from swell.runtime.cluster import merge_patch
from swell.sim.chance import Chance
from swell.sim.loop import VirtualClock, run
from swell.sim.server import SimulatedServer

OWN = Key("", "aitrainingjobs.elasticdeeplearning.ai")
SHARED = Key("", "queues.scheduling.volcano.sh")


def test_definitions_are_applied_and_annotations_of_others_stay() -> None:
    """By one field manager; what another one added stays, what it changed is taken back."""

    async def main() -> Body:
        clock = VirtualClock()
        cluster = SimulatedServer(clock, Chance(1), ()).connect("admin")
        await install_crds(cluster, clock)
        theirs = {"metadata": {"annotations": {"team": "a"}}}
        preserved = {"spec": {"names": {"categories": ["theirs"]}}}
        await cluster.patch(CUSTOM_RESOURCE_DEFINITIONS, OWN, merge_patch({**theirs, **preserved}))
        await install_crds(cluster, clock)
        return await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, OWN)

    body = run(main())
    applied = [
        one["manager"] for one in body["metadata"]["managedFields"] if one["operation"] == "Apply"
    ]

    assert applied == ["swell-operator"]
    assert body["metadata"]["annotations"] == {"team": "a"}
    assert body["spec"]["names"]["categories"] == ["all", "swell"]


def test_kinds_of_volcano_are_not_overwritten() -> None:
    """Ours are brought up to date; those that may be Volcano's stay as they are."""

    async def main() -> dict[Key, list[str]]:
        clock = VirtualClock()
        cluster = SimulatedServer(clock, Chance(1), ()).connect("admin")
        await install_crds(cluster, clock)
        change = merge_patch({"spec": {"names": {"shortNames": ["theirs"]}}})
        for key in (OWN, SHARED):
            await cluster.patch(CUSTOM_RESOURCE_DEFINITIONS, key, change)
        await install_crds(cluster, clock)
        return {
            key: (await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, key))["spec"]["names"][
                "shortNames"
            ]
            for key in (OWN, SHARED)
        }

    names = run(main())

    assert names == {OWN: ["aitj"], SHARED: ["theirs"]}
