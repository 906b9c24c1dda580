"""What must hold of volumes on every commit: a pod gets its node after its volumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from swell.api.meta import Key
from swell.api.storage import PersistentVolume, PersistentVolumeClaim
from swell.cluster.embedded.storage import Commit
from swell.scheduler.model.tasks import READY
from swell.scheduler.model.volumes.claims import ClaimUse, claims_of, is_bound
from swell.scheduler.model.volumes.node_masks import host_of
from swell.sim.actors.pod_lifecycle import bound_by
from swell.sim.observation import pod_states
from swell.sim.world import SimulatedWorld
from tests.sim.scheduler.observation import BINDING, members, pod_key, scheduler_of
from tests.sim.scheduler.observation import is_bound as is_pod_bound


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


@dataclass
class GangsVolumesFirst:
    """A binding that begins a gang is sent once enough of its pods have all of their volumes."""

    world: SimulatedWorld
    name: str = "V4 volumes of the gang first"

    def __post_init__(self) -> None:
        self.world.network.on_call.append(self._on_call)

    def on_commit(self, _: Commit) -> Iterator[str]:
        yield from ()

    def _on_call(self, actor: str, site: str) -> None:
        scheduler = scheduler_of(self.world, actor)
        if scheduler is None or not site.startswith(f"{actor} {BINDING} "):
            return
        task = scheduler.cache.snapshot.task(str(pod_key(site)))
        job = None if task is None else task.job
        if job is None or any(is_pod_bound(pod) for pod in members(self.world, job.key)):
            return
        ready = [one for one in job.tasks.values() if one.status in READY]
        n_ready = sum(all(map(self._is_there, claims_of(one.pod))) for one in ready)
        if n_ready < job.min_member <= len(ready):
            what = f"{job.key} begins with the volumes of {n_ready} of {job.min_member} pods"
            self.world.checker.report(self.name, what)

    def _is_there(self, use: ClaimUse) -> bool:
        namespace, _, name = use.key.partition("/")
        stored = self.world.storage.get(str(PERSISTENT_VOLUME_CLAIMS), Key(namespace, name))
        return stored is not None and is_bound(stored.typed(PersistentVolumeClaim))
