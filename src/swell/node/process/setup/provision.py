"""Makes everything a container needs to start: volumes, hosts file, GPUs, cgroups and a run spec.

It also renews the volumes that show API objects while the containers run.
"""

from __future__ import annotations

import asyncio
import marshal
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from weakref import WeakValueDictionary

from swell.api.meta import Uid
from swell.api.quantity import parse
from swell.cluster.private import keep_entries_private, make_private_folder, open_private
from swell.node import supervisor
from swell.node.pods import BoundContainer, BoundPod, BoundVolume
from swell.node.process.folders import Folders, log_file, log_folder_of
from swell.node.process.keptlogs import KEPT_S
from swell.node.process.launcher import Launcher
from swell.node.process.logfiles import MESSAGE
from swell.node.process.orphans import MARK
from swell.node.process.setup.environment import (
    ContainerConfigError,
    NodeContext,
    ReferencedObjects,
    referenced_names,
    volume_names,
)
from swell.node.process.setup.hosts import HostsFiles
from swell.node.process.setup.informers import ProcessInformers
from swell.node.process.setup.pod_users import PodUsers
from swell.node.process.setup.resources import (
    PROCESSES_MAX,
    VISIBLE_GPUS,
    Cgroup,
    CgroupRoot,
    GpuBoard,
    ResourceLimits,
    run_name,
)
from swell.node.process.setup.spec import (
    HostSettings,
    RunInputs,
    RunPaths,
    check_volume,
    part_of,
    run_spec,
)
from swell.node.process.setup.users import AgentUser, RunUser, run_user
from swell.node.process.setup.volume_files import give_volume, write_volume
from swell.node.process.setup.volumes import Files, volume_files, written_volumes
from swell.node.process.supervised import SpecFields
from swell.node.runs import CREATING
from swell.node.supervisor.kernel import open_beneath
from swell.runtime.clock import Clock
from swell.runtime.errors import ClusterError, UnreachableError

# How long the objects that a pod or a volume refers to are waited for.
READ_S = 10.0
RENEW_FAILURES = (ContainerConfigError, ClusterError, UnreachableError, TimeoutError, OSError)
RenewFailure = ContainerConfigError | ClusterError | UnreachableError | TimeoutError | OSError
GPU = "nvidia.com/gpu"
HOST_IP = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ProcessDependencies:
    """The collaborators of the process runtime."""

    folders: Folders
    host: HostSettings
    informers: ProcessInformers
    hosts: HostsFiles
    boards: dict[str, GpuBoard]  # by node
    allocatable: dict[str, str]
    cgroups: CgroupRoot
    launcher: Launcher
    clock: Clock
    random: Random
    processes_max: int = PROCESSES_MAX  # of each container; 0 for no limit
    agent: AgentUser = field(default_factory=lambda: AgentUser(os.geteuid(), os.getegid()))
    keep_logs_s: float = KEPT_S  # how long logs of deleted jobs are kept


@dataclass(frozen=True, slots=True)
class Provision:
    """The run spec of a container, with the limits and cgroups of the run."""

    spec: SpecFields
    limits: ResourceLimits
    cgroup: Cgroup


class Provisioner:
    """Provides for the runs of all containers of an agent."""

    def __init__(self, dependencies: ProcessDependencies) -> None:
        self._deps = dependencies
        users = dependencies.agent.users
        self._users = PodUsers(dependencies.folders, users) if users else None
        self._turns = WeakValueDictionary[Uid, asyncio.Lock]()

    async def provide(self, pod: BoundPod, container: BoundContainer, attempt: int) -> Provision:
        """Returns the provision of a run.

        Raises ContainerConfigError when the pod asks for something that is not there, TimeoutError
        when the cluster does not say so in time, and OSError from the disk. Nothing that the run
        was given is kept then.
        """
        deps, uid = self._deps, pod.metadata.uid
        user = self._user(pod, container)
        async with asyncio.timeout(READ_S):
            referenced = await deps.informers.read(pod.metadata.namespace, referenced_names(pod))
        try:
            for volume in written_volumes(pod):
                await self._write_volume(pod, volume, referenced)
        except ContainerConfigError as error:
            raise ContainerConfigError(
                str(error), CREATING
            ) from error  # as kubelets report a volume that is not there yet
        folder, log_folder = deps.folders.run(uid, container.name, attempt), self.log_folder(pod)
        paths = RunPaths(
            work=folder / "work",
            message=folder / MESSAGE,
            stage=deps.folders.stage,
            log=log_file(log_folder, container.name, attempt),
            hosts=deps.hosts.hosts(pod.metadata.namespace, for_others=user is not None),
            volumes=self._volume_folders(pod, referenced.claims),
        )
        for made in (paths.work, paths.stage, log_folder):
            make_private_folder(made)
        keep_entries_private(paths.work)
        os.close(open_private(paths.message, os.O_WRONLY | os.O_TRUNC))
        if user is not None:
            self._give(pod, paths, user)
        _make_sub_paths(container, paths.volumes)
        limits = limits_of(container, deps.processes_max)
        name = run_name(deps.folders.home, uid, container.name, attempt)
        with ExitStack() as undo:
            undo.callback(self.release, pod, container, attempt)
            given = self._gpu_env(pod, container)
            cgroup = deps.cgroups.make(name, limits)
            if not cgroup.folders:
                given[MARK] = str(folder)
            inputs = RunInputs(
                referenced,
                self._context(pod),
                given,
                cgroup.entries,
                deps.hosts.substitute,
                user,
                self._hidden(),
            )
            spec = run_spec(pod, container, deps.host, paths, inputs)
            if limits.processes is not None and not cgroup.limits_processes:
                spec["processes_max"] = limits.processes
            undo.pop_all()
        return Provision(spec, limits, cgroup)

    def _user(self, pod: BoundPod, container: BoundContainer) -> RunUser | None:
        """The user of a container; None for the agent's own."""
        own = self._users.of(pod.metadata.uid) if self._users is not None else None
        user = run_user(self._deps.agent, pod, container, own)
        if user is not None and self._deps.host.namespace != "root":
            why = "its folders cannot be mounted for another user here"
            raise ContainerConfigError(f"runAsUser {user.uid} cannot be had: {why}")
        return user

    def _hidden(self) -> tuple[str, ...]:
        """The folders that an isolated container of the agent's own user must not see.

        Besides the state folder these are places where other programs of the user listen.
        """
        agent = self._deps.agent
        if not agent.isolated or agent.users is not None:
            return ()
        home = str(self._deps.folders.home)
        return (home, f"/run/user/{agent.uid}", "/tmp", "/dev/shm")  # noqa: S108

    def _check_host_path(self, volume: BoundVolume, path: Path) -> None:
        """Refuse an isolated pod a folder by which it would get around its isolation.

        A mount leaves out the closed folders above it. Where a pod keeps the agent's user, a mount
        of a folder around a covered one would show that.
        """
        if not self._deps.agent.isolated:
            return
        real, hidden = path.resolve(), self._hidden()
        for folder in (Path(name).resolve() for name in hidden or (str(self._deps.folders.home),)):
            if real.is_relative_to(folder) or (hidden and folder.is_relative_to(real)):
                why = f"with --isolate {folder} is closed to pods"
                raise ContainerConfigError(f"{path} of volume {volume.name} cannot be had: {why}")

    def _give(self, pod: BoundPod, paths: RunPaths, user: RunUser) -> None:
        """Let the user of a container have its folders and read its volumes."""
        for place in (paths.work, paths.message):
            os.chown(place, user.uid, user.gid)
        for volume in written_volumes(pod):
            give_volume(paths.volumes[volume.name], user.uid)

    def release(self, pod: BoundPod, container: BoundContainer, attempt: int) -> None:
        """Take back the cgroups and GPUs of a run that was not started."""
        name = run_name(self._deps.folders.home, pod.metadata.uid, container.name, attempt)
        self._deps.cgroups.named(name).get(name, Cgroup()).remove()
        self.board(pod).take_back(pod.metadata.uid, container.name)

    def log_folder(self, pod: BoundPod) -> Path:
        return log_folder_of(self._deps.folders.logs, pod.metadata)

    async def renew_volumes(self, pod: BoundPod) -> list[RenewFailure]:
        """Write the volumes that show API objects, from these objects as they are now.

        Each volume has its own time, so that one that cannot be read holds up no other. Returns
        why some could not be renewed.
        """
        failures: list[RenewFailure] = []
        for volume in written_volumes(pod):
            try:
                async with asyncio.timeout(READ_S):
                    namespace, names = pod.metadata.namespace, volume_names(volume)
                    referenced = await self._deps.informers.read(namespace, names)
                await self._write_volume(pod, volume, referenced, is_renewal=True)
            except RENEW_FAILURES as error:
                failures.append(error)
        return failures

    def turn(self, uid: Uid) -> asyncio.Lock:
        """Returns what is held while a volume of a pod is written, and while its folder goes."""
        return self._turns.setdefault(uid, asyncio.Lock())

    async def _write_volume(
        self,
        pod: BoundPod,
        volume: BoundVolume,
        referenced: ReferencedObjects,
        *,
        is_renewal: bool = False,
    ) -> None:
        """Write a volume in a thread: its files may be of many megabytes.

        One at a time of each pod, so that the newest content is written last. The pod may go while
        what a renewal needs is read: nothing is written then, for nobody would remove it.
        """
        context = self._context(pod)
        async with self.turn(pod.metadata.uid):
            if is_renewal and not self._deps.folders.pod(pod.metadata.uid).exists():
                return
            files = await asyncio.to_thread(volume_files, pod, volume, referenced, context)
            if not self._deps.host.namespace:
                with_addresses = self._deps.hosts.substitute
                files = {p: replace(c, text=with_addresses(c.text)) for p, c in files.items()}
            folder = self._deps.folders.volume(pod.metadata.uid, volume.name)
            await asyncio.to_thread(self._write_files, folder, files)

    def _write_files(self, folder: Path, files: Files) -> None:
        owner = folder.stat().st_uid if folder.exists() else self._deps.agent.uid
        if write_volume(folder, files) and owner != self._deps.agent.uid:
            give_volume(folder, owner)

    def board(self, pod: BoundPod) -> GpuBoard:
        return self._deps.boards.setdefault(pod.spec.node_name, GpuBoard(()))

    def restore(self, pod: BoundPod, container: BoundContainer, folder: Path) -> Provision | None:
        """Returns the provision that an earlier agent made; None when its spec file is gone."""
        try:
            raw = (folder / supervisor.SPEC_FILE).read_bytes()
        except OSError:
            return None
        fields: SpecFields = marshal.loads(raw)  # noqa: S302 (written by an agent, for its owner alone)
        written = supervisor.RunSpec(**fields)  # type: ignore[arg-type]
        if _n_gpus(container):
            self.board(pod).restore(
                pod.metadata.uid, container.name, _indexes(written.env.get(VISIBLE_GPUS, ""))
            )
        cgroup = Cgroup(tuple(Path(entry).parent for entry in written.cgroups))
        return Provision(fields, limits_of(container, self._deps.processes_max), cgroup)

    def _context(self, pod: BoundPod) -> NodeContext:
        return NodeContext(self._deps.hosts.address(pod), HOST_IP, self._deps.allocatable)

    def _volume_folders(self, pod: BoundPod, claims: Mapping[str, Path]) -> dict[str, Path]:
        folders: dict[str, Path] = {}
        for volume in pod.spec.volumes:
            check_volume(volume)
            if volume.persistent_volume_claim is not None:
                path = claims[volume.persistent_volume_claim.claim_name]
                if not path.exists():
                    path.mkdir(parents=True)
                    # The mode of an emptyDir: pods of several users may share the claim.
                    path.chmod(0o777)
                folders[volume.name] = path
                continue
            if volume.host_path is None:
                folders[volume.name] = self._deps.folders.volume(pod.metadata.uid, volume.name)
                make_private_folder(folders[volume.name])
                if volume.empty_dir is not None:
                    # The mode that containers see with a kubelet. The way to it is closed above.
                    folders[volume.name].chmod(0o777)
                    keep_entries_private(folders[volume.name])
                continue
            path = Path(volume.host_path.path)
            self._check_host_path(volume, path)
            if not path.exists():
                if volume.host_path.type not in {"", "DirectoryOrCreate"}:
                    raise ContainerConfigError(f"{path} of volume {volume.name} does not exist")
                path.mkdir(parents=True)
            folders[volume.name] = path
        return folders

    def _gpu_env(self, pod: BoundPod, container: BoundContainer) -> dict[str, str]:
        board, wanted = self.board(pod), _n_gpus(container)
        if not wanted:
            return {VISIBLE_GPUS: ""} if board.indexes else {}
        given = board.give(pod.metadata.uid, container.name, wanted)
        if given is None:
            raise ContainerConfigError("the node has too few free GPUs", "CreateContainerError")
        return {VISIBLE_GPUS: ",".join(str(index) for index in given)}


def _make_sub_paths(container: BoundContainer, volumes: Mapping[str, Path]) -> None:
    """Make a folder for every sub-path that the volume does not contain."""
    for mount in container.volume_mounts:
        if mount.sub_path and mount.name in volumes:
            root = volumes[mount.name].resolve()
            inner = part_of(root, mount.sub_path, mount.name).relative_to(root)
            if not inner.parts:
                continue
            try:
                os.close(open_beneath(str(root), str(inner), make=True))
            except OSError as error:
                why = f"subPath {mount.sub_path} of {mount.name} cannot be had: {error.strerror}"
                raise ContainerConfigError(why) from error


def limits_of(container: BoundContainer, processes_max: int) -> ResourceLimits:
    limits = container.resources.limits
    memory, cpu = limits.get("memory"), limits.get("cpu")
    return ResourceLimits(
        parse(memory).value() if memory is not None else None,
        parse(cpu).milli_value() if cpu is not None else None,
        processes_max or None,
    )


def _n_gpus(container: BoundContainer) -> int:
    resources = container.resources
    wanted = resources.limits.get(GPU) or resources.requests.get(GPU)
    return parse(wanted).value() if wanted else 0


def _indexes(text: str) -> Sequence[int]:
    return [int(word) for word in text.split(",") if word.isdigit()]
