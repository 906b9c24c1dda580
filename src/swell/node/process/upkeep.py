"""Keeps what running containers see in step with the cluster: hosts files, volumes and logs.

Every pod's volumes are renewed on their own, and every other step has its own retries: one that
fails, or is not answered, holds up nothing else. A change that comes while a pod's volumes are
being renewed has them renewed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from swell.api.meta import Uid
from swell.node.pods import BoundPod
from swell.node.process.container import PodEntry
from swell.node.process.folders import TRAINING_JOBS
from swell.node.process.keptlogs import prune
from swell.node.process.setup.environment import ContainerConfigError
from swell.node.process.setup.provision import ProcessDependencies, Provisioner
from swell.node.process.setup.resources import WATCH_S, usage_below
from swell.node.process.setup.volumes import mounts_secrets
from swell.runtime.logs import get_logger
from swell.runtime.manager import Bug, contain, run_workers
from swell.runtime.queue import QueueClosedError, WorkQueue

log = get_logger(__name__)

CURRENT_S = 0.1
# After the disk has refused a hosts file or the removal of a log.
RETRY_S = 3.0
# Kept logs are counted this often; all of their files are looked at.
PRUNE_S = 300.0
# Secrets are not watched: an agent would have to watch all of them.
SECRETS_S = 20.0
# Where the logs of either kind of job are, below the folder of all logs.
_AI_TRAINING_JOB_LOGS, _TRAINING_JOB_LOGS = "*", f"*/{TRAINING_JOBS}"
# Pods whose volumes are renewed at once. One of them waits for the cluster a few seconds at most.
N_WORKERS = 8


class PodUpkeep:
    """The upkeep of the pods in `entries`. Run each of its loops."""

    def __init__(
        self,
        dependencies: ProcessDependencies,
        provisioner: Provisioner,
        entries: Mapping[Uid, PodEntry],
    ) -> None:
        self._deps = dependencies
        self._provisioner = provisioner
        self._entries = entries
        self._stale = WorkQueue[Uid](clock=dependencies.clock, random=dependencies.random)
        self._logs_to_check = {_AI_TRAINING_JOB_LOGS, _TRAINING_JOB_LOGS}
        self._hosts_version = 0

    # -- volumes -----------------------------------------------------------------------------

    def mark(self, uid: Uid) -> None:
        """Mark the volumes of a pod as out of date."""
        self._stale.add(uid)

    def mark_where(self, concerns: Callable[[BoundPod], bool]) -> None:
        """Mark the volumes of some pods as out of date."""
        for entry in self._entries.values():
            if entry.pod is not None and not entry.pod.is_final and concerns(entry.pod):
                self._stale.add(entry.uid)

    async def renew(self) -> None:
        """Renew volumes that are marked, until `stop`."""
        await run_workers(self._worker, N_WORKERS)

    def stop(self) -> None:
        self._stale.close()

    async def _worker(self) -> None:
        while True:
            try:
                uid = await self._stale.get()
            except QueueClosedError:
                return
            result = await contain(self._renew(uid))
            if isinstance(result, Bug):
                log.error("bug", pod=str(uid), trace=result.trace)
            if result is True:
                self._stale.forget(uid)
            else:
                self._stale.retry(uid)
            self._stale.done(uid)

    async def _renew(self, uid: Uid) -> bool:
        """Renew the volumes of one pod; False when some must be tried again."""
        entry = self._entries.get(uid)
        if entry is None or entry.pod is None or entry.pod.is_final:
            return True
        is_done = True
        for failure in await self._provisioner.renew_volumes(entry.pod):
            # For a key that was removed the files stay as they are, as with a kubelet.
            is_done &= isinstance(failure, ContainerConfigError)
            log.info("volume left as it is", pod=str(entry.key), why=str(failure))
        return is_done

    # -- names, logs and secrets -------------------------------------------------------------

    async def keep_current(self) -> None:
        """Keep hosts files in step, put logs of deleted jobs away, and look at secrets at times."""
        await self._deps.informers.wait_synced()
        informers = self._deps.informers
        informers.jobs.add_handler(lambda _: self._logs_to_check.add(_AI_TRAINING_JOB_LOGS))
        informers.training_jobs.add_handler(lambda _: self._logs_to_check.add(_TRAINING_JOB_LOGS))
        clock = self._deps.clock
        names_at = logs_at = secrets_at = clock.monotonic()
        while True:
            now = clock.monotonic()
            if now >= names_at and not self._refresh_names():
                names_at = now + RETRY_S
            if now >= logs_at and not self._retire_orphaned_logs():
                logs_at = now + RETRY_S
            if now >= secrets_at:
                secrets_at = now + SECRETS_S
                self.mark_where(mounts_secrets)
            await clock.sleep(CURRENT_S)

    def _refresh_names(self) -> bool:
        """Write the hosts files that are out of date; False when one could not be written."""
        hosts = self._deps.hosts
        hosts.update_names()
        if self._hosts_version != hosts.version:
            self._hosts_version = hosts.version
            if not self._deps.host.namespace:
                # Without a hosts file of their own, containers read addresses in their volumes.
                self.mark_where(lambda _: True)
        failures = hosts.write_files()
        for failure in failures:
            log.warning("hosts file is not up to date", why=str(failure))
        return not failures

    def _retire_orphaned_logs(self) -> bool:
        """Put the logs of jobs that were deleted to those kept, of kinds whose jobs are known.

        Returns False when some could not be moved.
        """
        informers = self._deps.informers
        known = {
            _AI_TRAINING_JOB_LOGS: informers.job_uids,
            _TRAINING_JOB_LOGS: informers.training_job_uids,
        }
        is_done = True
        for logs in sorted(self._logs_to_check):
            uids = known[logs]()
            if uids is None:
                continue  # looked at again when the jobs are known
            failures = self._deps.folders.retire_logs(logs, uids)
            for failure in failures:
                log.warning("log is not put away", why=str(failure))
            if failures:
                is_done = False
            else:
                self._logs_to_check.discard(logs)
        return is_done

    async def prune_logs(self) -> None:
        """Remove kept logs that are old or too many. A slow disk holds up nothing else by that."""
        while True:
            await asyncio.to_thread(self._prune_kept_logs)
            await self._deps.clock.sleep(PRUNE_S)

    def _prune_kept_logs(self) -> None:
        kept_s, now = self._deps.keep_logs_s, self._deps.clock.now()
        for failure in prune(self._deps.folders.kept_logs, now, kept_s):
            log.warning("kept log is not removed", why=str(failure))

    # -- usage -------------------------------------------------------------------------------

    async def watch_usage(self) -> None:
        """Kill containers that exceed a limit which no cgroup enforces.

        Version 1 of cgroups kills one process for want of memory. The others are killed here, as
        version 2 does by itself.
        """
        while True:
            await self._deps.clock.sleep(WATCH_S)
            slots = [slot for entry in self._entries.values() for slot in entry.slots.values()]
            for slot in slots:
                if slot.is_live and slot.limits.memory_bytes is not None and slot.has_oom_kill():
                    slot.kill_for_memory()
            watched = {slot.supervisor_pid: slot for slot in slots if slot.is_watched}
            if not watched:
                continue
            usage = await asyncio.to_thread(usage_below, list(watched))
            for pid, used in usage.items():
                watched[pid].kill_if_over(used)
