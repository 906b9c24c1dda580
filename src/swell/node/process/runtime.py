"""Runs containers as processes of this machine: the agent's `Runtime` port over supervisors.

The disk is the source of truth. The folder of a run is made before its supervisor starts, and a
new agent takes over every run that it finds there. Runs of pods that are not ours are ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

from swell.api.meta import Body, Key, Uid
from swell.cluster.embedded.http.streams import ExecCommand
from swell.cluster.trees import remove_tree
from swell.node.pods import BoundContainer, BoundPod, LifecycleHandler
from swell.node.process.container import ContainerSlot, ExecRunner, PodEntry
from swell.node.process.exec_sessions import ExecSession
from swell.node.process.folders import BARE, RecordedPod, log_file
from swell.node.process.logfiles import MESSAGE, termination_message
from swell.node.process.orphans import run_cgroup
from swell.node.process.probes import Prober
from swell.node.process.setup.addresses import check_ports
from swell.node.process.setup.environment import ContainerConfigError
from swell.node.process.setup.provision import HOST_IP, ProcessDependencies, Provisioner
from swell.node.process.setup.resources import Cgroup, home_prefix
from swell.node.process.setup.volumes import mounted_maps, mutable_fields
from swell.node.process.supervised import SupervisedRun
from swell.node.process.upkeep import PodUpkeep
from swell.node.runs import Exited, Run, Runs, Waiting, lost, reported_runs
from swell.node.status import Addresses
from swell.runtime.errors import ClusterError, UnreachableError
from swell.runtime.logs import get_logger

log = get_logger(__name__)

# How long a start is waited for, so that the first status already says that the container runs.
START_S = 5.0
# After a container could not be started.
RETRY_S = 3.0
# How long a removal waits for processes, when it kills supervisors that do not react, and how
# often it looks. A removal that was in vain is tried again by the agent.
REMOVE_S, FORCE_S, REMOVE_POLL_S = 10.0, 5.0, 0.01
# A preStop command is bounded by the grace period; this only bounds the command itself.
EXEC_S_MAX = 3600.0


class ProcessRuntime:
    """See the module's docstring. `wake` is called with a pod's key and a delay."""

    def __init__(
        self, dependencies: ProcessDependencies, wake: Callable[[Key, float], None]
    ) -> None:
        self._deps = dependencies
        self._provisioner = Provisioner(dependencies)
        self._wake = wake
        self._entries: dict[Uid, PodEntry] = {}
        self.upkeep = PodUpkeep(dependencies, self._provisioner, self._entries)
        self._exec = ExecRunner(dependencies.launcher, dependencies.clock)
        dependencies.informers.config_maps.add_handler(self._on_config_map)
        dependencies.informers.services.add_handler(lambda _: dependencies.hosts.mark())

    # -- the agent's port --------------------------------------------------------------------

    def observe(self, pod: BoundPod) -> None:
        """Take in a pod's current object, and take the GPUs of a pod that is over back."""
        entry = self._entries.get(pod.metadata.uid)
        if entry is not None:
            self._note_pod(entry, pod)
        if pod.is_final and (entry is None or not entry.is_live):
            self._provisioner.board(pod).take_back(pod.metadata.uid)

    def runs(self, pod: BoundPod) -> Runs:
        entry = self._entries.get(pod.metadata.uid)
        found = {name: slot.current_run() for name, slot in entry.slots.items()} if entry else {}
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
            slot.kill_timer = loop.call_at(kill_at, _kill, slot, slot.run)
        if slot.stopping is None:
            slot.stopping = asyncio.create_task(self._stop_gracefully(slot, grace_s))

    async def remove(self, uid: Uid) -> bool:
        """Remove everything of a pod: processes, cgroups, GPUs, and its folders."""
        entry = self._entries.get(uid)
        if entry is None:
            return True
        if not await self._end_processes(entry):
            log.error("processes do not end", pod=str(entry.key))
            return False
        for cgroup in self._cgroups(uid):
            cgroup.kill()  # of an earlier run, whose cgroup could not be removed at its end
            cgroup.remove()
        await self._stop_tasks(entry)
        for board in self._deps.boards.values():
            board.take_back(uid)
        try:
            await self._remove_folders(entry)
        except OSError as error:  # a TimeoutError is one
            log.warning("folder is not removed", pod=str(entry.key), why=str(error))
            return False
        self._entries.pop(uid, None)
        return True

    async def _remove_folders(self, entry: PodEntry) -> None:
        """Remove the folders of a pod, after the volume that is being written, if there is one."""
        folders = [self._deps.folders.pod(entry.uid)]
        if entry.log_folder.parent.name == BARE:
            folders.append(entry.log_folder)
        turn = self._provisioner.turn(entry.uid)
        async with asyncio.timeout(REMOVE_S):
            await turn.acquire()
        try:
            for folder in folders:
                # A volume may have very many files, so it is not done in the event loop.
                await asyncio.to_thread(remove_tree, folder)
        finally:
            turn.release()

    async def keep_only(self, uids: Collection[Uid]) -> tuple[Uid, ...]:
        """End the processes of pods that are not ours any more; returns those that do not end."""
        gone = [uid for uid in self._entries if uid not in uids]
        for uid in gone:
            log.info("ending orphans", pod=str(self._entries[uid].key))
        # All at once: one that does not end must not hold up the others.
        removed = await asyncio.gather(*(self.remove(uid) for uid in gone))
        return tuple(uid for uid, done in zip(gone, removed, strict=True) if not done)

    async def _end_processes(self, entry: PodEntry) -> bool:
        """Kill all processes of a pod; False when some are left after REMOVE_S."""
        clock = self._deps.clock
        for slot in entry.slots.values():
            if slot.run is not None:
                slot.run.kill()
        began = clock.monotonic()
        is_forced = False
        while not all(slot.is_gone() for slot in entry.slots.values()):
            waited_s = clock.monotonic() - began
            if waited_s > REMOVE_S:
                return False
            if waited_s > FORCE_S and not is_forced:
                is_forced = True
                for slot in entry.slots.values():
                    if slot.run is not None:
                        slot.run.kill_supervisor()
                    slot.cgroup.kill()
            await clock.sleep(REMOVE_POLL_S)
        return True

    # -- start and end of the agent ----------------------------------------------------------

    def recover(self) -> None:
        """Take over the runs of an earlier agent, and end what is left of those that ended."""
        for recorded in self._deps.folders.recorded_pods():
            self._recover(recorded)
        live = {folder for slot in self._slots() if slot.is_live for folder in slot.cgroup.folders}
        for cgroup in self._cgroups():
            if live.isdisjoint(cgroup.folders):
                cgroup.kill()
                cgroup.remove()

    async def close(self) -> None:
        """Stop following all runs; supervisors and processes go on."""
        for entry in self._entries.values():
            await self._stop_tasks(entry)
            for slot in entry.slots.values():
                if slot.run is not None:
                    slot.run.close()
        self._deps.launcher.close()

    def execute(self, pod: Body, container: str, command: ExecCommand) -> ExecSession:
        """Start a command of a user's in a running container; LookupError when it does not run."""
        entry = self._entries.get(Uid(pod["metadata"]["uid"]))
        slot = entry.slots.get(container) if entry else None
        if slot is None or slot.run is None or not slot.is_live:
            raise LookupError(container)
        return ExecSession(self._exec, slot.run, command)

    def is_live(self, uid: Uid, container: str) -> bool:
        """Whether a container has, or is about to have, a process."""
        entry = self._entries.get(uid)
        slot = entry.slots.get(container) if entry else None
        return slot is not None and slot.is_live

    # -- pods and their runs -----------------------------------------------------------------

    def _entry(self, pod: BoundPod) -> PodEntry:
        uid = pod.metadata.uid
        entry = self._entries.get(uid)
        if entry is None:
            entry = PodEntry(uid, pod.metadata.key, self._provisioner.log_folder(pod), pod)
            self._entries[uid] = entry
        return entry

    def _cgroups(self, uid: str = "") -> Collection[Cgroup]:
        """Returns the cgroups of this home, or of one pod."""
        prefix = home_prefix(self._deps.folders.home)
        return self._deps.cgroups.named(f"{prefix}{uid}").values()

    def _slots(self) -> Iterator[ContainerSlot]:
        for entry in self._entries.values():
            yield from entry.slots.values()

    def _note_pod(self, entry: PodEntry, pod: BoundPod) -> None:
        """Take in the pod's current object; the first one completes what was recovered."""
        known, entry.pod = entry.pod, pod
        if known is not None:
            if mutable_fields(known) != mutable_fields(pod):
                self.upkeep.mark(entry.uid)
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
            slot.cgroup = run_cgroup(folder)
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
            slot.cgroup.remove()  # nothing was started in it
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
            if entry.pod is not None and entry.is_live:
                yield entry.pod

    def _retry_later(self, slot: ContainerSlot, reason: str, message: str) -> None:
        slot.run = None
        slot.waiting = Waiting(reason, message, self._deps.clock.now() + RETRY_S)

    async def _stop_tasks(self, entry: PodEntry) -> None:
        """Stop all timers, probes and stops of a pod."""
        for slot in entry.slots.values():
            if slot.prober is not None:
                await slot.prober.close()
                slot.prober = None
            if slot.kill_timer is not None:
                slot.kill_timer.cancel()
            if slot.stopping is not None:
                slot.stopping.cancel()
                await asyncio.gather(slot.stopping, return_exceptions=True)

    def _on_config_map(self, key: Key) -> None:
        """Renew volumes that show the map, and retry containers that may have waited for it."""
        if self._deps.informers.config_maps.get(key) is None:
            return
        now = self._deps.clock.now()
        self.upkeep.mark_where(lambda pod: key in mounted_maps(pod))
        for entry in self._entries.values():
            waiting = [slot for slot in entry.slots.values() if slot.waiting is not None]
            if entry.key.namespace == key.namespace and waiting:
                for slot in waiting:
                    slot.waiting = slot.waiting and replace(slot.waiting, retry_at=now)
                self._wake(entry.key, 0.0)

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


def _kill(slot: ContainerSlot, run: SupervisedRun) -> None:
    """Kill a run, and its supervisor as well if that does not react."""
    run.kill()
    loop = asyncio.get_running_loop()
    slot.kill_timer = loop.call_later(FORCE_S, run.kill_supervisor)


def _container(pod: BoundPod, name: str) -> BoundContainer:
    # A pod whose containers cannot be read still runs those that were started.
    every = (*pod.spec.init_containers, *pod.spec.containers)
    return next((c for c in every if c.name == name), BoundContainer(name=name))


def _former(before: ContainerSlot | None, latest: Run | None, attempt: int) -> Exited | None:
    """Returns how the run before the new one ended.

    A retry of the same attempt is no new run, so it keeps the former end.
    """
    if before is not None and before.attempt == attempt:
        return before.former
    return latest.state if latest is not None and isinstance(latest.state, Exited) else None
