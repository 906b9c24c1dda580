"""Keeps the failures that jobs blame on nodes as marks on those nodes, where everybody reads them.

    a job's status names a fault -> its node is noted -> after BATCH_S the node is read consistently
        -> new marks are added in one patch, with the taint if it is a suspect to be tainted

The faults are on record in the jobs: a crash loses nothing that the next look does not find again.
Nodes are counted by a consistent list just before one is tainted, which is seldom.
"""

from __future__ import annotations

from typing import Generic

from swell.api.core import Node
from swell.api.kinds import NODES
from swell.api.meta import Key
from swell.api.node_faults import FaultMark, read_faults, with_marks
from swell.operator.framework.fault_marks import (
    NodeCensus,
    is_tainted,
    plan_marks,
    wants_taint,
)
from swell.operator.framework.kind import FaultRules, JobT
from swell.operator.framework.settings import OperatorSettings
from swell.runtime.cache import StaleListError, parse_version
from swell.runtime.clock import Clock
from swell.runtime.cluster import EVERYTHING, Cluster
from swell.runtime.errors import (
    ClusterError,
    ForbiddenError,
    MalformedError,
    NotFoundError,
    UnreachableError,
)
from swell.runtime.executor import EventSink, Executor
from swell.runtime.informer import Informer
from swell.runtime.logs import get_logger
from swell.runtime.queue import WorkQueue

log = get_logger(__name__)

# The marks of all jobs that a node has struck within this time are one write.
BATCH_S = 1.0
_PAGE = 500
_FAILURES = (ClusterError, UnreachableError, MalformedError, StaleListError, TimeoutError)


class FaultKeeper(Generic[JobT]):
    """Brings the marks of one kind's jobs to nodes. Run `run`; the handlers only note."""

    def __init__(
        self,
        cluster: Cluster,
        jobs: Informer[JobT],
        nodes: Informer[Node],
        rules: FaultRules[JobT],
        settings: OperatorSettings,
        *,
        queue: WorkQueue[Key],
        clock: Clock,
        sink: EventSink,
    ) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self._nodes = nodes
        self._rules = rules
        self._settings = settings
        self._queue = queue
        self._clock = clock
        self._executor = Executor(cluster, informers=[nodes], events=sink, clock=clock)
        # Tainted nodes, and suspects for which there was no room among them.
        self._tainted: set[Key] = set()
        self._refused: set[Key] = set()
        self._is_forbidden = False
        # The version of the newest taint that was read: a list of before would not count it.
        self._tainted_at = 0
        jobs.add_handler(self._note_job)
        nodes.add_handler(self._note_node)

    def _note_job(self, key: Key) -> None:
        job = self._jobs.get(key)
        if job is None:
            return
        for name in self._rules.nodes_of(job):
            node = self._nodes.get(Key("", name))
            if node is None or self._new_marks(node, job):
                self._queue.add_after(Key("", name), BATCH_S)

    def _note_node(self, key: Key) -> None:
        """Note a suspect that is to be tainted, and room for one when a taint is taken away."""
        node = self._nodes.get(key)
        if node is not None and any(
            self._new_marks(node, job) for job in self._jobs.by_index(self._rules.index, key.name)
        ):
            self._queue.add_after(key, BATCH_S)
        if node is not None and is_tainted(node):
            self._tainted.add(key)
            self._refused.discard(key)
            return
        if key in self._tainted:
            self._tainted.discard(key)
            for other in sorted(self._refused):
                self._queue.add_after(other, BATCH_S)
            self._refused.clear()
        if node is None or key in self._refused:
            return
        if wants_taint(node, self._settings, self._clock.now()):
            self._queue.add_after(key, BATCH_S)

    async def run(self) -> None:
        """Mark nodes until cancelled."""
        await self._jobs.wait_synced()
        while True:
            key = await self._queue.get()
            try:
                is_done = await self._mark(key)
            except ForbiddenError as error:
                # With the rights of an older release nodes cannot be patched: jobs do without.
                if not self._is_forbidden:
                    log.warning("nodes cannot be marked", why=str(error))
                self._is_forbidden = is_done = True
            except _FAILURES as error:
                log.info("node not marked yet", node=key.name, why=str(error))
                is_done = False
            self._queue.done(key)
            if is_done:
                self._queue.forget(key)
            else:
                self._queue.retry(key)

    async def _mark(self, key: Key) -> bool:
        """Read the node, decide, write; whether nothing is left to do."""
        try:
            node = await self._read(key)
        except NotFoundError:
            return True
        now = self._clock.now()
        jobs = self._jobs.by_index(self._rules.index, key.name)
        marks = [mark for job in jobs for mark in self._marks_of(job, node)]
        read_at = parse_version(node.metadata.resource_version)
        floor = max(read_at, self._nodes.version, self._tainted_at)
        census = await self._census(floor) if self._may_taint(node, marks, now) else None
        plan = plan_marks(node, marks, self._settings, census, now)
        if census is not None and not census.allows_one_more(self._settings.suspects_max_share):
            self._refused.add(key)
        outcome = await self._executor.execute(plan, decided_s=self._clock.monotonic())
        failure = outcome.worst
        if failure is None:
            if census is not None:
                await self._read(key)  # for its version
            return True
        log.info("node not marked yet", node=key.name, why=failure.message)
        return False

    async def _read(self, key: Key) -> Node:
        """Read a node consistently, and remember the newest version of a taint."""
        node = await self._cluster.get(NODES, key)
        if is_tainted(node):
            self._tainted_at = max(self._tainted_at, parse_version(node.metadata.resource_version))
        return node

    def _marks_of(self, job: JobT, node: Node) -> list[FaultMark]:
        """The marks of a job on a node, none of which is of a machine of the same name before."""
        created = node.metadata.creation_timestamp or ""
        return [
            FaultMark(
                job=str(job.metadata.key), time=one.time, reason=one.reason, message=one.message
            )
            for one in self._rules.faults_of(job)
            if one.blamed and one.node == node.metadata.name and one.time >= created
        ]

    def _new_marks(self, node: Node, job: JobT) -> bool:
        record = read_faults(node.metadata.annotations)
        marks = self._marks_of(job, node)
        return with_marks(record, marks, self._clock.now()) is not None

    def _may_taint(self, node: Node, marks: list[FaultMark], now: float) -> bool:
        if not self._settings.cordon_suspects or is_tainted(node):
            return False
        record = read_faults(node.metadata.annotations)
        return (with_marks(record, marks, now) or record).is_suspect(now)

    async def _census(self, floor: int) -> NodeCensus:
        """Count the nodes; StaleListError by a server that lags behind what was seen already."""
        n_nodes = n_tainted = 0
        token = ""
        while True:
            page = await self._cluster.list(NODES, EVERYTHING, limit=_PAGE, continue_token=token)
            if parse_version(page.resource_version) < floor:
                raise StaleListError(parse_version(page.resource_version), floor)
            n_nodes += len(page.items) + len(page.malformed)
            # One that cannot be read may be tainted: then fewer others are.
            n_tainted += sum(map(is_tainted, page.items)) + len(page.malformed)
            token = page.continue_token
            if not token:
                return NodeCensus(n_nodes, n_tainted)
