"""What must hold of volumes on every commit: a pod gets its node after its volumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from swell.api.meta import Key
from swell.api.storage import PersistentVolume, PersistentVolumeClaim
from swell.cluster.embedded.storage import Commit
from swell.scheduler.model.volumes.claims import claims_of, is_bound
from swell.scheduler.model.volumes.node_masks import host_of
from swell.sim.actors.pod_lifecycle import bound_by
from swell.sim.observation import pod_states
from swell.sim.world import SimulatedWorld


@dataclass
class VolumesFirst:
    """Every claim of a pod that is bound has a volume, on the node of the pod."""

    world: SimulatedWorld
    name: str = "V4 volumes first"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, pod = pod_states(commit)
        if pod is None or not bound_by(commit):
            return
        node = pod.spec.node_name
        for use in claims_of(pod):
            namespace, _, name = use.key.partition("/")
            stored = self.world.storage.get(str(PERSISTENT_VOLUME_CLAIMS), Key(namespace, name))
            claim = None if stored is None else stored.typed(PersistentVolumeClaim)
            if claim is None or not is_bound(claim):
                yield f"{pod.metadata.key} is bound to {node}, its claim {use.key} is not"
                continue
            place = Key("", claim.spec.volume_name)
            found = self.world.storage.get(str(PERSISTENT_VOLUMES), place)
            host = host_of(found.typed(PersistentVolume)) if found is not None else ""
            if host and host != node:
                yield f"{pod.metadata.key} is bound to {node}, its volume is on {host}"
