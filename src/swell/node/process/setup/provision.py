"""Gives containers what they need to start: volumes, names, GPUs, cgroups, and an order.

And keeps the volumes that show API objects true to these while the containers run.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swell.api.quantity import parse
from swell.node import supervisor
from swell.node.pods import BoundContainer, BoundPod
from swell.node.process.folders import Folders, log_file, log_folder_of
from swell.node.process.launcher import Launcher
from swell.node.process.logfiles import MESSAGE
from swell.node.process.setup.environment import ContainerConfigError, NodeContext
from swell.node.process.setup.hosts import HostsFiles
from swell.node.process.setup.objects import ReferencedInformers
from swell.node.process.setup.resources import VISIBLE, Cgroup, CgroupRoot, GpuBoard, ResourceLimits
from swell.node.process.setup.spec import HostSettings, RunInputs, RunPaths, check_volume, run_spec
from swell.node.process.setup.volume_files import write_volume
from swell.node.process.setup.volumes import is_written, volume_files
from swell.node.process.supervised import SpecFields
from swell.node.runs import CREATING
from swell.runtime.clock import Clock

GPU = "nvidia.com/gpu"
HOST_IP = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ProcessDependencies:
    """What the runtime works with."""

    folders: Folders
    host: HostSettings
    inputs: ReferencedInformers
    naming: HostsFiles
    boards: dict[str, GpuBoard]  # by node
    allocatable: dict[str, str]
    cgroups: CgroupRoot
    launcher: Launcher
    clock: Clock


@dataclass(frozen=True, slots=True)
class Provision:
    """All that one run of a container is given."""

    order: SpecFields
    limits: ResourceLimits
    cgroup: Cgroup


class Provisioner:
    """See the module's docstring."""

    def __init__(self, machinery: ProcessDependencies) -> None:
        self._m = machinery

    async def provide(self, pod: BoundPod, container: BoundContainer, attempt: int) -> Provision:
        """What a run needs; ConfigError when that cannot be had, OSError from the disk."""
        m, uid = self._m, pod.metadata.uid
        referred = await m.inputs.read(pod)
        try:
            self.write_volumes(pod)
        except ContainerConfigError as error:
            raise ContainerConfigError(
                str(error), CREATING
            ) from error  # as one that is being mounted
        folder, log_folder = m.folders.run(uid, container.name, attempt), self.log_folder(pod)
        places = RunPaths(
            work=folder / "work",
            message=folder / MESSAGE,
            stage=m.folders.stage,
            log=log_file(log_folder, container.name, attempt),
            hosts=m.naming.hosts(pod.metadata.namespace),
            volumes=self._volume_folders(pod),
        )
        for made in (places.work, places.stage, log_folder):
            made.mkdir(parents=True, exist_ok=True)
        places.message.write_bytes(b"")
        places.message.chmod(0o666)
        _make_sub_paths(container, places.volumes)
        limits = limits_of(container)
        cgroup = m.cgroups.make(f"{uid}-{container.name}-{attempt}", limits)
        given = RunInputs(
            referred,
            self._around(pod),
            self._gpu_env(pod, container),
            cgroup.entries,
            m.naming.substitute,
        )
        return Provision(run_spec(pod, container, m.host, places, given), limits, cgroup)

    def log_folder(self, pod: BoundPod) -> Path:
        return log_folder_of(self._m.folders.logs, pod.metadata)

    async def renew_volumes(self, pod: BoundPod) -> None:
        """Make the volumes show what API objects are now, secrets included."""
        await self._m.inputs.read(pod)
        self.write_volumes(pod)

    def write_volumes(self, pod: BoundPod) -> None:
        """Make the volumes that show API objects show what these are now."""
        referred, around = self._m.inputs.known(pod), self._around(pod)
        for volume in pod.spec.volumes:
            if not is_written(volume):
                continue
            files = volume_files(pod, volume, referred, around)
            if not self._m.host.namespace:
                told = self._m.naming.substitute
                files = {path: replace(c, text=told(c.text)) for path, c in files.items()}
            write_volume(self._m.folders.volume(pod.metadata.uid, volume.name), files)

    def board(self, pod: BoundPod) -> GpuBoard:
        return self._m.boards.setdefault(pod.spec.node_name, GpuBoard(()))

    def restore(self, pod: BoundPod, container: BoundContainer, folder: Path) -> Provision | None:
        """What a run was given by an earlier agent; None when its order is gone."""
        try:
            raw = (folder / supervisor.ORDER).read_bytes()
        except OSError:
            return None
        order: SpecFields = marshal.loads(raw)  # noqa: S302 (written by an agent, for its owner alone)
        written = supervisor.Order(**order)  # type: ignore[arg-type]
        if _n_gpus(container):
            self.board(pod).restore(
                pod.metadata.uid, container.name, _indexes(written.env.get(VISIBLE, ""))
            )
        cgroup = Cgroup(tuple(Path(entry).parent for entry in written.cgroups))
        return Provision(order, limits_of(container), cgroup)

    def _around(self, pod: BoundPod) -> NodeContext:
        return NodeContext(self._m.naming.address(pod), HOST_IP, self._m.allocatable)

    def _volume_folders(self, pod: BoundPod) -> dict[str, Path]:
        folders: dict[str, Path] = {}
        for volume in pod.spec.volumes:
            check_volume(volume)
            if volume.host_path is None:
                folders[volume.name] = self._m.folders.volume(pod.metadata.uid, volume.name)
                folders[volume.name].mkdir(parents=True, exist_ok=True)
                if volume.empty_dir is not None:
                    folders[volume.name].chmod(0o777)
                continue
            path = Path(volume.host_path.path)
            if not path.exists():
                if volume.host_path.type not in {"", "DirectoryOrCreate"}:
                    raise ContainerConfigError(f"{path} of volume {volume.name} does not exist")
                path.mkdir(parents=True)
            folders[volume.name] = path
        return folders

    def _gpu_env(self, pod: BoundPod, container: BoundContainer) -> dict[str, str]:
        board, wanted = self.board(pod), _n_gpus(container)
        if not wanted:
            return {VISIBLE: ""} if board.indexes else {}
        given = board.give(pod.metadata.uid, container.name, wanted)
        if given is None:
            raise ContainerConfigError("the node has too few free GPUs", "CreateContainerError")
        return {VISIBLE: ",".join(str(index) for index in given)}


def _make_sub_paths(container: BoundContainer, volumes: Mapping[str, Path]) -> None:
    """What is to be mounted of a volume, and is not in it, is a new folder."""
    for mount in container.volume_mounts:
        if mount.sub_path and mount.name in volumes and ".." not in mount.sub_path.split("/"):
            place = volumes[mount.name] / mount.sub_path.strip("/")
            if not place.exists():
                place.mkdir(parents=True)


def limits_of(container: BoundContainer) -> ResourceLimits:
    limits = container.resources.limits
    memory, cpu = limits.get("memory"), limits.get("cpu")
    return ResourceLimits(
        parse(memory).value() if memory is not None else None,
        parse(cpu).milli_value() if cpu is not None else None,
    )


def _n_gpus(container: BoundContainer) -> int:
    resources = container.resources
    wanted = resources.limits.get(GPU) or resources.requests.get(GPU)
    return parse(wanted).value() if wanted else 0


def _indexes(text: str) -> Sequence[int]:
    return [int(word) for word in text.split(",") if word.isdigit()]
