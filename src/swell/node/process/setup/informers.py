"""The API objects that containers refer to: Services, ConfigMaps, Secrets, and the jobs.

Services and ConfigMaps have informers, because running containers see their changes. Secrets are
read each time they are needed and never kept in memory. It decides nothing.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import ConfigMap, Service
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SECRETS,
    SERVICES,
    TRAINING_JOBS,
)
from swell.api.meta import Body, Key, Uid
from swell.api.trainingjob import TrainingJob
from swell.node.process.setup.environment import (
    ContainerConfigError,
    Data,
    ReferencedNames,
    ReferencedObjects,
)
from swell.node.runs import CREATING
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import NotFoundError
from swell.runtime.informer import Informer
from swell.runtime.reflector import InformerOptions


class ProcessInformers:
    """The informers. Run each of `services_to_run` as a service."""

    def __init__(self, cluster: Cluster, *, clock: Clock, random: Random) -> None:
        self._cluster = cluster
        self.services: Informer[Service] = Informer(cluster, SERVICES, clock=clock, random=random)
        self.config_maps: Informer[ConfigMap] = Informer(
            cluster, CONFIG_MAPS, clock=clock, random=random
        )
        optional = InformerOptions(is_optional=True)
        self.jobs = Informer(
            cluster, AI_TRAINING_JOBS, clock=clock, random=random, options=optional
        )
        self.training_jobs = Informer(
            cluster, TRAINING_JOBS, clock=clock, random=random, options=optional
        )

    @property
    def services_to_run(self) -> tuple[tuple[str, Callable[[], Awaitable[None]]], ...]:
        return (
            ("services", self.services.run),
            ("config maps", self.config_maps.run),
            ("jobs", self.jobs.run),
            ("training jobs", self.training_jobs.run),
        )

    async def wait_synced(self) -> None:
        """Wait for what containers need; TrainingJobs, whose logs alone depend on them, may lag."""
        for informer in (self.services, self.config_maps, self.jobs):
            await informer.wait_synced()

    def job_uids(self) -> frozenset[Uid] | None:
        """Returns the UIDs of the AITrainingJobs there are; None while that is not known."""
        return _uids(self.jobs)

    def training_job_uids(self) -> frozenset[Uid] | None:
        """Returns the UIDs of the TrainingJobs there are; None while that is not known."""
        return _uids(self.training_jobs)

    async def read(self, namespace: str, names: ReferencedNames) -> ReferencedObjects:
        """Returns the objects of these names. Secrets and missing ConfigMaps are read again.

        The cache of ConfigMaps may lag behind the pod that was created after its map.
        """
        for name in sorted(names.config_maps):
            if self.config_maps.get(Key(namespace, name)) is None:
                await self.config_maps.refresh(Key(namespace, name))
        secrets = {name: await self._secret(Key(namespace, name)) for name in sorted(names.secrets)}
        maps = {name: self._map(Key(namespace, name)) for name in sorted(names.config_maps)}
        claims = {name: await self._folder(Key(namespace, name)) for name in sorted(names.claims)}
        return ReferencedObjects(maps, secrets, claims)

    async def _folder(self, key: Key) -> Path:
        """Returns the folder that a claim was bound to.

        Raises ContainerConfigError for a claim that has none: the container waits for it.
        """
        try:
            claim = await self._cluster.get(PERSISTENT_VOLUME_CLAIMS, key)
            name = claim.spec.volume_name
            if not name:
                raise ContainerConfigError(f"claim {key} is not bound to a volume", CREATING)
            volume = await self._cluster.get(PERSISTENT_VOLUMES, Key("", name))
        except NotFoundError as error:
            raise ContainerConfigError(f"claim {key}: {error}", CREATING) from error
        source = volume.spec.host_path or volume.spec.local
        if source is None:
            raise ContainerConfigError(f"volume {name} of claim {key} is no folder of this machine")
        return Path(source.path)

    def _map(self, key: Key) -> Data | None:
        found = self.config_maps.get(key)
        return None if found is None else found.data

    async def _secret(self, key: Key) -> Data | None:
        try:
            body = await self._cluster.get(SECRETS, key)
        except NotFoundError:
            return None
        return _decoded(body)


def _uids(jobs: Informer[AITrainingJob] | Informer[TrainingJob]) -> frozenset[Uid] | None:
    if not jobs.is_served or not jobs.synced:
        return None
    return frozenset(job.metadata.uid for job in jobs.all())


def _decoded(body: Body) -> Data:
    data: dict[str, str] = {}
    for name, text in (body.get("data") or {}).items():
        try:
            raw = base64.b64decode(text)
        except binascii.Error:
            continue
        data[name] = raw.decode(errors="surrogateescape")
    return data
