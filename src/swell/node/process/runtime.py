"""Runs containers as processes of this machine: the agent's `Runtime` port over supervisors.

The disk is the source of truth. The folder of a run is made before its supervisor starts, and a
new agent takes over every run that it finds there. Runs of pods that are not ours are ended.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from swell.api.meta import Key, Uid
from swell.node.pods import BoundContainer, BoundPod, LifecycleHandler
from swell.node.process.container import ContainerSlot, ExecRunner
from swell.node.process.folders import BARE, OWNER_FILE, RecordedPod, log_file
from swell.node.process.logfiles import MESSAGE, termination_message
from swell.node.process.probes import Prober
from swell.node.process.setup.addresses import check_ports
from swell.node.process.setup.environment import ContainerConfigError
from swell.node.process.setup.provision import HOST_IP, ProcessDependencies, Provisioner
from swell.node.process.setup.resources import WATCH_S, resident_bytes
from swell.node.process.setup.volumes import mounted_maps, mounts_secrets, mutable_fields
from swell.node.process.supervised import SupervisedRun
from swell.node.runs import Exited, Run, Runs, Waiting, lost, reported_runs
from swell.node.status import Addresses
from swell.runtime.errors import ClusterError, UnreachableError
from swell.runtime.logs import get_logger

log = get_logger(__name__)

# How long a start is waited for, so that the first status already says that the container runs.
START_S = 5.0
# After a container could not be started, and after the disk or the cluster refused something.
RETRY_S = 3.0
REMOVE_S = 10.0
CURRENT_S = 0.1
# A preStop command is bounded by the grace period; this only bounds the command itself.
EXEC_S_MAX = 3600.0
# Secrets are not watched: an agent would have to watch all of them.
SECRETS_S = 20.0


@dataclass(slots=True)
class PodEntry:
    """A pod that has a folder. `pod` is None for one of an earlier agent, until it is seen."""

    uid: Uid
    key: Key
    log_folder: Path
    pod: BoundPod | None = None
    slots: dict[str, ContainerSlot] = field(default_factory=dict)


class ProcessRuntime:
    """See the module's docstring. `wake` is called with a pod's key and a delay."""

    def __init__(
        self, dependencies: ProcessDependencies, wake: Callable[[Key, float], None]
    ) -> None:
        self._deps = dependencies
        self._provisioner = Provisioner(dependencies)
        self._wake = wake
        self._entries: dict[Uid, PodEntry] = {}
        self._stale: dict[Uid, None] = {}  # pods whose volumes are out of date
        self._exec = ExecRunner(dependencies.launcher, dependencies.clock)
        dependencies.informers.config_maps.add_handler(self._on_config_map)
        dependencies.informers.services.add_handler(lambda _: dependencies.hosts.mark())

    # -- the agent's port --------------------------------------------------------------------

    def runs(self, pod: BoundPod) -> Runs:
        entry = self._entries.get(pod.metadata.uid)
        if entry is not None:
            self._note_pod(entry, pod)
        found = {name: slot.current_run() for name, slot in entry.slots.items()} if entry else {}
        if pod.is_final:
            self._provisioner.board(pod).take_back(pod.metadata.uid)
        # A run that was reported and has no folder has vanished, with the disk for example.
        now = self._deps.clock.now()
        return {name: lost(run, now) for name, run in reported_runs(pod).items()} | found

    def addresses(self, pod: BoundPod) -> Addresses:
        return Addresses(self._deps.hosts.address(pod), HOST_IP)

    async def start(self, pod: BoundPod, name: str, attempt: int) -> None:
        entry = self._entry(pod)
        # Until there is a process, every failure is retried.
        retry_at = self._deps.clock.now() + RETRY_S
        slot = ContainerSlot(_container(pod, name), attempt, waiting=Waiting(retry_at=retry_at))
        slot.former = _former(entry.slots.get(name), self.runs(pod).get(name), attempt)
        entry.slots[name] = slot
        try:
            if not self._deps.hosts.has_own_addresses:
                check_ports(pod, slot.container, self._live_pods())
            self._deps.folders.make_pod(pod)
            provision = await self._provisioner.provide(pod, slot.container, attempt)
            slot.limits, slot.cgroup = provision.limits, provision.cgroup
            folder = self._deps.folders.run(pod.metadata.uid, name, attempt)
            slot.run = self._supervised(entry, slot, folder)
            slot.run.start(self._deps.launcher, provision.spec)
            slot.waiting = None
        except ContainerConfigError as error:
            self._retry_later(slot, error.reason, str(error))
        except (ClusterError, UnreachableError, TimeoutError, OSError) as error:
            self._retry_later(slot, "CreateContainerError", str(error))
        else:
            await slot.run.wait_started(START_S)

    async def stop(self, pod: BoundPod, name: str, grace_s: float) -> None:
        entry = self._entries.get(pod.metadata.uid)
        slot = entry.slots.get(name) if entry else None
        if entry is None or slot is None or slot.run is None or not slot.is_live:
            return
        loop = asyncio.get_running_loop()
        kill_at = loop.time() + grace_s
        if slot.kill_at is None or kill_at < slot.kill_at:
            slot.kill_at = kill_at
            if slot.kill_timer is not None:
                slot.kill_timer.cancel()
            slot.kill_timer = loop.call_at(kill_at, slot.run.kill)
        if slot.stopping is None:
            slot.stopping = asyncio.create_task(self._stop_gracefully(slot, grace_s))

    async def remove(self, uid: Uid) -> None:
        entry = self._entries.get(uid)
        if entry is None:
            return
        for slot in entry.slots.values():
            if slot.run is not None:
                slot.run.kill()
        deadline = self._deps.clock.monotonic() + REMOVE_S
        while any(slot.is_live for slot in entry.slots.values()):
            if self._deps.clock.monotonic() > deadline:
                log.error("processes do not end", pod=str(entry.key))
                return
            await asyncio.sleep(0.01)
        await self._stop_tasks(entry)
        shutil.rmtree(self._deps.folders.pod(uid), ignore_errors=True)
        if entry.log_folder.parent.name == BARE:
            shutil.rmtree(entry.log_folder, ignore_errors=True)
        self._entries.pop(uid, None)

    async def keep_only(self, uids: Collection[Uid]) -> None:
        """End the processes of pods that are not ours any more."""
        for uid in [uid for uid in self._entries if uid not in uids]:
            log.info("ending orphans", pod=str(self._entries[uid].key))
            await self.remove(uid)

    # -- start and end of the agent ----------------------------------------------------------

    def recover(self) -> None:
        """Take over the runs of an earlier agent."""
        for recorded in self._deps.folders.recorded_pods():
            self._recover(recorded)

    async def close(self) -> None:
        """Stop following all runs; supervisors and processes go on."""
        for entry in self._entries.values():
            await self._stop_tasks(entry)
            for slot in entry.slots.values():
                if slot.run is not None:
                    slot.run.close()
        self._deps.launcher.close()

    def is_live(self, uid: Uid, container: str) -> bool:
        """Whether a container has, or is about to have, a process."""
        entry = self._entries.get(uid)
        slot = entry.slots.get(container) if entry else None
        return slot is not None and slot.is_live

    # -- services ----------------------------------------------------------------------------

    async def keep_current(self) -> None:
        """Keep hosts files, volumes and logs in step with the cluster. Run it as a service."""
        await self._deps.informers.wait_synced()
        changed = asyncio.Event()
        self._deps.informers.jobs.add_handler(lambda _: changed.set())
        changed.set()
        secrets_at = self._deps.clock.monotonic()
        while True:
            pause_s = CURRENT_S
            try:
                if self._deps.hosts.refresh() and not self._deps.host.namespace:
                    self._mark_stale(lambda _: True)
                await self._rewrite_stale()
                if changed.is_set() and self._deps.informers.jobs.is_served:
                    self._remove_orphaned_logs()
                    changed.clear()
                if self._deps.clock.monotonic() >= secrets_at:
                    secrets_at = self._deps.clock.monotonic() + SECRETS_S
                    self._mark_stale(mounts_secrets)
            except (ClusterError, UnreachableError, TimeoutError, OSError) as error:
                log.warning("what containers see is not up to date", why=str(error))
                pause_s = RETRY_S
            await self._deps.clock.sleep(pause_s)

    async def watch_memory(self) -> None:
        """Kill containers that outgrow their memory limit, where no cgroup enforces it."""
        while True:
            await self._deps.clock.sleep(WATCH_S)
            slots = {slot.pid: slot for slot in self._slots() if slot.is_watched}
            if not slots:
                continue
            for pid, used in resident_bytes(slots).items():
                slot = slots[pid]
                if slot.run is not None and used > (slot.limits.memory_bytes or used):
                    slot.run.is_out_of_memory = True
                    slot.run.kill()

    # -- pods and their runs -----------------------------------------------------------------

    def _entry(self, pod: BoundPod) -> PodEntry:
        uid = pod.metadata.uid
        entry = self._entries.get(uid)
        if entry is None:
            entry = PodEntry(uid, pod.metadata.key, self._provisioner.log_folder(pod), pod)
            self._entries[uid] = entry
        return entry

    def _slots(self) -> Iterator[ContainerSlot]:
        for entry in self._entries.values():
            yield from entry.slots.values()

    def _note_pod(self, entry: PodEntry, pod: BoundPod) -> None:
        """Take in the pod's current object; the first one completes what was recovered."""
        known, entry.pod = entry.pod, pod
        if known is not None:
            if mutable_fields(known) != mutable_fields(pod):
                self._stale[entry.uid] = None
            return
        for name, slot in entry.slots.items():
            slot.container = _container(pod, name)
            if slot.run is None or not slot.is_live:
                continue
            restored = self._provisioner.restore(pod, slot.container, slot.run.folder)
            if restored is not None:
                slot.limits, slot.cgroup = restored.limits, restored.cgroup
            if slot.run.started_at is not None:
                self._start_probes(entry, slot)

    def _recover(self, recorded: RecordedPod) -> None:
        entry = PodEntry(recorded.uid, recorded.key, recorded.log_folder)
        self._entries[recorded.uid] = entry
        for name, attempt, folder in self._deps.folders.runs(recorded.uid):
            before = entry.slots.get(name)
            former = before.run.ended if before and before.run else None
            slot = ContainerSlot(BoundContainer(name=name), attempt, former=former)
            slot.run = self._supervised(entry, slot, folder)
            if slot.run.resume():
                entry.slots[name] = slot

    def _supervised(self, entry: PodEntry, slot: ContainerSlot, folder: Path) -> SupervisedRun:
        path = log_file(entry.log_folder, slot.container.name, slot.attempt)

        def changed() -> None:
            self._on_change(entry, slot)

        def message(code: int) -> str:
            return termination_message(folder / MESSAGE, path, slot.container.message_policy, code)

        return SupervisedRun(folder, self._deps.clock, changed, slot.has_oom_kill, message)

    def _on_change(self, entry: PodEntry, slot: ContainerSlot) -> None:
        if slot.is_live and slot.run is not None and slot.run.started_at is not None:
            self._start_probes(entry, slot)
        elif slot.run is not None and slot.run.refusal:
            self._retry_later(slot, "CreateContainerError", slot.run.refusal)
        elif not slot.is_live:
            self._clean_up_ended(slot)
        self._wake(entry.key, 0.0)

    def _clean_up_ended(self, slot: ContainerSlot) -> None:
        """Stop the timers and probes of a container that has ended, and remove its cgroup."""
        if slot.kill_timer is not None:
            slot.kill_timer.cancel()
        if slot.prober is not None:
            slot.prober.cancel()
        slot.cgroup.remove()

    def _live_pods(self) -> Iterator[BoundPod]:
        for entry in self._entries.values():
            if entry.pod is not None and any(slot.is_live for slot in entry.slots.values()):
                yield entry.pod

    def _retry_later(self, slot: ContainerSlot, reason: str, message: str) -> None:
        slot.run = None
        slot.waiting = Waiting(reason, message, self._deps.clock.now() + RETRY_S)

    async def _stop_tasks(self, entry: PodEntry) -> None:
        """Stop all timers, probes and stops of a pod, and give back its GPUs."""
        for slot in entry.slots.values():
            if slot.prober is not None:
                await slot.prober.close()
                slot.prober = None
            if slot.kill_timer is not None:
                slot.kill_timer.cancel()
            if slot.stopping is not None:
                slot.stopping.cancel()
                await asyncio.gather(slot.stopping, return_exceptions=True)
        for board in self._deps.boards.values():
            board.take_back(entry.uid)

    def _on_config_map(self, key: Key) -> None:
        """Renew volumes that show the map, and retry containers that may have waited for it."""
        if self._deps.informers.config_maps.get(key) is None:
            return
        now = self._deps.clock.now()
        self._mark_stale(lambda pod: key in mounted_maps(pod))
        for entry in self._entries.values():
            waiting = [slot for slot in entry.slots.values() if slot.waiting is not None]
            if entry.key.namespace == key.namespace and waiting:
                for slot in waiting:
                    slot.waiting = slot.waiting and replace(slot.waiting, retry_at=now)
                self._wake(entry.key, 0.0)

    def _mark_stale(self, concerns: Callable[[BoundPod], bool]) -> None:
        """Mark the volumes of some pods as out of date."""
        for entry in self._entries.values():
            if entry.pod is not None and not entry.pod.is_final and concerns(entry.pod):
                self._stale[entry.uid] = None

    async def _rewrite_stale(self) -> None:
        """Write the volumes that are marked. On a refusal the mark stays."""
        for uid in list(self._stale):
            entry = self._entries.get(uid)
            try:
                if entry is not None and entry.pod is not None:
                    await self._provisioner.renew_volumes(entry.pod)
            except ContainerConfigError as error:
                # A key was removed. As with a kubelet, the files stay as they are.
                log.info("volume left as it is", pod=str(uid), why=str(error))
            self._stale.pop(uid, None)

    # -- probes and preStop ------------------------------------------------------------------

    def _start_probes(self, entry: PodEntry, slot: ContainerSlot) -> None:
        container = slot.container
        if slot.prober is not None or entry.pod is None:
            return

        async def execute(command: tuple[str, ...], within_s: float) -> bool:
            return await self._exec.succeeds(slot, command, within_s)

        address = self._deps.hosts.address(entry.pod)
        slot.prober = Prober(
            container, address, execute, lambda: self._wake(entry.key, 0.0), clock=self._deps.clock
        )
        slot.prober.start()

    async def _stop_gracefully(self, slot: ContainerSlot, grace_s: float) -> None:
        """Run preStop, then send SIGTERM. The kill at the end of the grace period has a timer."""
        handler = slot.container.lifecycle.pre_stop if slot.container.lifecycle else None
        if handler is not None and grace_s > 0:
            await self._pre_stop(slot, handler, grace_s)
        if slot.run is not None:
            slot.run.terminate()

    async def _pre_stop(
        self, slot: ContainerSlot, handler: LifecycleHandler, grace_s: float
    ) -> None:
        try:
            async with asyncio.timeout(grace_s):
                if handler.exec_ is not None:
                    await self._exec.succeeds(slot, handler.exec_.command, EXEC_S_MAX)
                elif handler.http_get is not None and slot.prober is not None:
                    await slot.prober.get(handler.http_get)
                elif handler.sleep is not None:
                    await self._deps.clock.sleep(handler.sleep.seconds)
        except (OSError, ValueError, TimeoutError) as error:
            log.info("preStop failed", container=slot.container.name, why=str(error))

    # -- logs --------------------------------------------------------------------------------

    def _remove_orphaned_logs(self) -> None:
        """Remove the logs of jobs that were deleted."""
        uids = self._deps.informers.job_uids()
        for owner in sorted(self._deps.folders.logs.glob(f"*/*/{OWNER_FILE}")):
            if owner.read_text() not in uids:
                shutil.rmtree(owner.parent, ignore_errors=True)


def _container(pod: BoundPod, name: str) -> BoundContainer:
    return next(c for c in (*pod.spec.init_containers, *pod.spec.containers) if c.name == name)


def _former(before: ContainerSlot | None, latest: Run | None, attempt: int) -> Exited | None:
    """Returns how the run before the new one ended.

    A retry of the same attempt is no new run, so it keeps the former end.
    """
    if before is not None and before.attempt == attempt:
        return before.former
    return latest.state if latest is not None and isinstance(latest.state, Exited) else None
