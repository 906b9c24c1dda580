"""Runs containers as processes of this machine: the agent's `Runtime` port over supervisors.

What is on disk is the truth: a run's folder is made before its supervisor starts, and an agent
that starts takes up every run it finds there. What belongs to no pod of ours is ended.
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
from swell.node.process.setup.volumes import described, mounted_maps, mounts_secrets
from swell.node.process.supervised import Supervised
from swell.node.runs import Exited, Run, Runs, Waiting, lost, reported_runs
from swell.node.status import Addresses
from swell.runtime.errors import ClusterError, UnreachableError
from swell.runtime.logs import get_logger

log = get_logger(__name__)

START_S = 5.0
RETRY_S = 3.0
REMOVE_S = 10.0
FOLLOW_S = 0.1
EXEC_S_MAX = 3600.0
SECRETS_S = 20.0  # nobody tells of changed secrets: they are read again now and then


@dataclass(slots=True)
class PodEntry:
    """A pod that has a folder. Without `pod` it is one that an earlier agent left."""

    uid: Uid
    key: Key
    log_folder: Path
    pod: BoundPod | None = None
    boxes: dict[str, ContainerSlot] = field(default_factory=dict)


class ProcessRuntime:
    """See the module's docstring. `wake` is called with a pod's key and a delay."""

    def __init__(self, machinery: ProcessDependencies, wake: Callable[[Key, float], None]) -> None:
        self._m = machinery
        self._provisioner = Provisioner(machinery)
        self._wake = wake
        self._held: dict[Uid, PodEntry] = {}
        self._stale: dict[Uid, None] = {}  # pods whose volumes show what was
        self._errands = ExecRunner(machinery.launcher, machinery.clock)
        machinery.inputs.config_maps.add_handler(self._on_config_map)
        machinery.inputs.services.add_handler(lambda _: machinery.naming.mark())

    # -- the agent's port --------------------------------------------------------------------

    def runs(self, pod: BoundPod) -> Runs:
        held = self._held.get(pod.metadata.uid)
        if held is not None:
            self._meet(held, pod)
        found = {name: box.shown() for name, box in held.boxes.items()} if held else {}
        if pod.is_final:
            self._provisioner.board(pod).take_back(pod.metadata.uid)
        # A process that the status tells of and nothing is known of has gone without a trace.
        now = self._m.clock.now()
        return {name: lost(run, now) for name, run in reported_runs(pod).items()} | found

    def addresses(self, pod: BoundPod) -> Addresses:
        return Addresses(self._m.naming.address(pod), HOST_IP)

    async def start(self, pod: BoundPod, name: str, attempt: int) -> None:
        held = self._hold(pod)
        # Whatever goes wrong before there is a process: it is tried again.
        retry_at = self._m.clock.now() + RETRY_S
        box = ContainerSlot(_container(pod, name), attempt, waiting=Waiting(retry_at=retry_at))
        box.former = _former(held.boxes.get(name), self.runs(pod).get(name), attempt)
        held.boxes[name] = box
        try:
            if not self._m.naming.has_own_addresses:
                check_ports(pod, box.container, self._live_pods())
            self._m.folders.make_pod(pod)
            provision = await self._provisioner.provide(pod, box.container, attempt)
            box.limits, box.cgroup = provision.limits, provision.cgroup
            folder = self._m.folders.run(pod.metadata.uid, name, attempt)
            box.run = self._supervised(held, box, folder)
            box.run.begin(self._m.launcher, provision.order)
            box.waiting = None
        except ContainerConfigError as error:
            self._put_off(box, error.reason, str(error))
        except (ClusterError, UnreachableError, TimeoutError, OSError) as error:
            self._put_off(box, "CreateContainerError", str(error))
        else:
            await box.run.wait_started(START_S)

    async def stop(self, pod: BoundPod, name: str, grace_s: float) -> None:
        held = self._held.get(pod.metadata.uid)
        box = held.boxes.get(name) if held else None
        if held is None or box is None or box.run is None or not box.is_live:
            return
        loop = asyncio.get_running_loop()
        kill_at = loop.time() + grace_s
        if box.kill_at is None or kill_at < box.kill_at:
            box.kill_at = kill_at
            if box.kill_timer is not None:
                box.kill_timer.cancel()
            box.kill_timer = loop.call_at(kill_at, box.run.kill)
        if box.stopping is None:
            box.stopping = asyncio.create_task(self._ask_to_end(box, grace_s))

    async def remove(self, uid: Uid) -> None:
        held = self._held.get(uid)
        if held is None:
            return
        for box in held.boxes.values():
            if box.run is not None:
                box.run.kill()
        deadline = self._m.clock.monotonic() + REMOVE_S
        while any(box.is_live for box in held.boxes.values()):
            if self._m.clock.monotonic() > deadline:
                log.error("processes do not end", pod=str(held.key))
                return
            await asyncio.sleep(0.01)
        await self._clear(held)
        shutil.rmtree(self._m.folders.pod(uid), ignore_errors=True)
        if held.log_folder.parent.name == BARE:
            shutil.rmtree(held.log_folder, ignore_errors=True)
        self._held.pop(uid, None)

    async def keep_only(self, uids: Collection[Uid]) -> None:
        """End what belongs to pods that are not ours any more."""
        for uid in [uid for uid in self._held if uid not in uids]:
            log.info("ending orphans", pod=str(self._held[uid].key))
            await self.remove(uid)

    # -- beginning and ending ----------------------------------------------------------------

    def recover(self) -> None:
        """Take up what an earlier agent left running."""
        for remembered in self._m.folders.remembered():
            self._recover(remembered)

    async def close(self) -> None:
        """Let go of everything; supervisors and processes go on."""
        for held in self._held.values():
            await self._clear(held)
            for box in held.boxes.values():
                if box.run is not None:
                    box.run.close()
        self._m.launcher.close()

    @property
    def n_live(self) -> int:
        return sum(1 for box in self._boxes() if box.is_live)

    def is_live(self, uid: Uid, container: str) -> bool:
        """Whether a container has, or is about to have, a process."""
        held = self._held.get(uid)
        box = held.boxes.get(container) if held else None
        return box is not None and box.is_live

    # -- services ----------------------------------------------------------------------------

    async def follow(self) -> None:
        """Keep names and logs true to the cluster."""
        await self._m.inputs.wait_synced()
        changed = asyncio.Event()
        self._m.inputs.jobs.add_handler(lambda _: changed.set())
        changed.set()
        secrets_at = self._m.clock.monotonic()
        while True:
            pause_s = FOLLOW_S
            try:
                if self._m.naming.refresh() and not self._m.host.namespace:
                    self._mark_stale(lambda _: True)
                await self._rewrite_stale()
                if changed.is_set() and self._m.inputs.jobs.is_served:
                    self._sweep_logs()
                    changed.clear()
                if self._m.clock.monotonic() >= secrets_at:
                    secrets_at = self._m.clock.monotonic() + SECRETS_S
                    self._mark_stale(mounts_secrets)
            except (ClusterError, UnreachableError, TimeoutError, OSError) as error:
                log.warning("what containers see is not up to date", why=str(error))
                pause_s = RETRY_S
            await self._m.clock.sleep(pause_s)

    async def watch_memory(self) -> None:
        """Kill containers that outgrow their memory limit, where no cgroup does."""
        while True:
            await self._m.clock.sleep(WATCH_S)
            boxes = {box.pid: box for box in self._boxes() if box.is_watched}
            if not boxes:
                continue
            for pid, used in resident_bytes(boxes).items():
                box = boxes[pid]
                if box.run is not None and used > (box.limits.memory_bytes or used):
                    box.run.is_out_of_memory = True
                    box.run.kill()

    # -- inside ------------------------------------------------------------------------------

    def _hold(self, pod: BoundPod) -> PodEntry:
        uid = pod.metadata.uid
        held = self._held.get(uid)
        if held is None:
            held = PodEntry(uid, pod.metadata.key, self._provisioner.log_folder(pod), pod)
            self._held[uid] = held
        return held

    def _boxes(self) -> Iterator[ContainerSlot]:
        for held in self._held.values():
            yield from held.boxes.values()

    def _meet(self, held: PodEntry, pod: BoundPod) -> None:
        """Note what a pod is now; of one that was recovered, learn what it is at all."""
        known, held.pod = held.pod, pod
        if known is not None:
            if described(known) != described(pod):
                self._stale[held.uid] = None
            return
        for name, box in held.boxes.items():
            box.container = _container(pod, name)
            if box.run is None or not box.is_live:
                continue
            restored = self._provisioner.restore(pod, box.container, box.run.folder)
            if restored is not None:
                box.limits, box.cgroup = restored.limits, restored.cgroup
            if box.run.started_at is not None:
                self._begin_probes(held, box)

    def _recover(self, remembered: RecordedPod) -> None:
        held = PodEntry(remembered.uid, remembered.key, remembered.log_folder)
        self._held[remembered.uid] = held
        for name, attempt, folder in self._m.folders.runs(remembered.uid):
            before = held.boxes.get(name)
            former = before.run.ended if before and before.run else None
            box = ContainerSlot(BoundContainer(name=name), attempt, former=former)
            box.run = self._supervised(held, box, folder)
            if box.run.resume():
                held.boxes[name] = box

    def _supervised(self, held: PodEntry, box: ContainerSlot, folder: Path) -> Supervised:
        path = log_file(held.log_folder, box.container.name, box.attempt)

        def changed() -> None:
            self._on_change(held, box)

        def told(code: int) -> str:
            return termination_message(folder / MESSAGE, path, box.container.message_policy, code)

        return Supervised(folder, self._m.clock, changed, box.runs_out_of_memory, told)

    def _on_change(self, held: PodEntry, box: ContainerSlot) -> None:
        if box.is_live and box.run is not None and box.run.started_at is not None:
            self._begin_probes(held, box)
        elif box.run is not None and box.run.refusal:
            self._put_off(box, "CreateContainerError", box.run.refusal)
        elif not box.is_live:
            self._settle(box)
        self._wake(held.key, 0.0)

    def _settle(self, box: ContainerSlot) -> None:
        """A container has ended: nothing more is to be done for it."""
        if box.kill_timer is not None:
            box.kill_timer.cancel()
        if box.prober is not None:
            box.prober.cancel()
        box.cgroup.remove()

    def _live_pods(self) -> Iterator[BoundPod]:
        for held in self._held.values():
            if held.pod is not None and any(box.is_live for box in held.boxes.values()):
                yield held.pod

    def _put_off(self, box: ContainerSlot, reason: str, message: str) -> None:
        box.run = None
        box.waiting = Waiting(reason, message, self._m.clock.now() + RETRY_S)

    async def _clear(self, held: PodEntry) -> None:
        """Stop everything the agent does for a pod."""
        for box in held.boxes.values():
            if box.prober is not None:
                await box.prober.close()
                box.prober = None
            if box.kill_timer is not None:
                box.kill_timer.cancel()
            if box.stopping is not None:
                box.stopping.cancel()
                await asyncio.gather(box.stopping, return_exceptions=True)
        for board in self._m.boards.values():
            board.take_back(held.uid)

    def _on_config_map(self, key: Key) -> None:
        """Volumes follow, and what waited for the map need not wait longer."""
        if self._m.inputs.config_maps.get(key) is None:
            return
        now = self._m.clock.now()
        self._mark_stale(lambda pod: key in mounted_maps(pod))
        for held in self._held.values():
            waiting = [box for box in held.boxes.values() if box.waiting is not None]
            if held.key.namespace == key.namespace and waiting:
                for box in waiting:
                    box.waiting = box.waiting and replace(box.waiting, retry_at=now)
                self._wake(held.key, 0.0)

    def _mark_stale(self, concerns: Callable[[BoundPod], bool]) -> None:
        """Have the volumes of some pods brought up to date soon."""
        for held in self._held.values():
            if held.pod is not None and not held.pod.is_final and concerns(held.pod):
                self._stale[held.uid] = None

    async def _rewrite_stale(self) -> None:
        """Bring marked volumes up to date. What the disk or the cluster refuses stays marked."""
        for uid in list(self._stale):
            held = self._held.get(uid)
            try:
                if held is not None and held.pod is not None:
                    await self._provisioner.renew_volumes(held.pod)
            except ContainerConfigError as error:
                # A key that was there is there no more: what was written stays, as it would.
                log.info("volume left as it is", pod=str(uid), why=str(error))
            self._stale.pop(uid, None)

    # -- talking to a running container ------------------------------------------------------

    def _begin_probes(self, held: PodEntry, box: ContainerSlot) -> None:
        container = box.container
        if box.prober is not None or held.pod is None:
            return

        async def execute(command: tuple[str, ...], within_s: float) -> bool:
            return await self._errands.succeeds(box, command, within_s)

        address = self._m.naming.address(held.pod)
        box.prober = Prober(
            container, address, execute, lambda: self._wake(held.key, 0.0), clock=self._m.clock
        )
        box.prober.start()

    async def _ask_to_end(self, box: ContainerSlot, grace_s: float) -> None:
        """preStop, then SIGTERM; the kill is on its timer whatever happens here."""
        handler = box.container.lifecycle.pre_stop if box.container.lifecycle else None
        if handler is not None and grace_s > 0:
            await self._pre_stop(box, handler, grace_s)
        if box.run is not None:
            box.run.terminate()

    async def _pre_stop(
        self, box: ContainerSlot, handler: LifecycleHandler, grace_s: float
    ) -> None:
        try:
            async with asyncio.timeout(grace_s):
                if handler.exec_ is not None:
                    await self._errands.succeeds(box, handler.exec_.command, EXEC_S_MAX)
                elif handler.http_get is not None and box.prober is not None:
                    await box.prober.get(handler.http_get)
                elif handler.sleep is not None:
                    await self._m.clock.sleep(handler.sleep.seconds)
        except (OSError, ValueError, TimeoutError) as error:
            log.info("preStop failed", container=box.container.name, why=str(error))

    # -- logs --------------------------------------------------------------------------------

    def _sweep_logs(self) -> None:
        """Remove the logs of jobs that are gone."""
        uids = self._m.inputs.job_uids()
        for owner in sorted(self._m.folders.logs.glob(f"*/*/{OWNER_FILE}")):
            if owner.read_text() not in uids:
                shutil.rmtree(owner.parent, ignore_errors=True)


def _container(pod: BoundPod, name: str) -> BoundContainer:
    return next(c for c in (*pod.spec.init_containers, *pod.spec.containers) if c.name == name)


def _former(before: ContainerSlot | None, shown: Run | None, attempt: int) -> Exited | None:
    """How the run before the new one ended."""
    if before is not None and before.attempt == attempt:
        return before.former
    return shown.state if shown is not None and isinstance(shown.state, Exited) else None
