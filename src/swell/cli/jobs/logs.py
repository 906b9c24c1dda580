"""The output of a job's containers, line by line.

On the embedded cluster the log files are read, which outlive the pods; elsewhere the API server
is asked for the log of every pod.
"""

from __future__ import annotations

import os
import queue
import random
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import urlencode

from swell.api.kinds import PODS
from swell.api.meta import Body, Uid
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection
from swell.cli.job_kinds import FoundJob
from swell.cli.jobs.job_pods import log_folder, pod_selector, replica_of, roles_of
from swell.cluster.kube import calls
from swell.cluster.kube.access import Access
from swell.cluster.kube.oneshot import OneShot
from swell.cluster.kube.watching import WatchedObjects
from swell.node.process.folders import OWNER_FILE
from swell.node.process.logfiles import log_segments
from swell.runtime.cluster import Selection
from swell.runtime.errors import ClusterError, UnreachableError

# Lines that readers may be ahead of what is printed; then they wait, and so does the server.
LINES_MAX = 10_000
# How long the end of a log is waited for after its job has ended, as long as nothing comes.
REST_S = 5.0
# How often a follower of pods looks whether their logs have ended.
POLL_S = 0.2
CHUNK_BYTES = 1 << 20
# A longer line is handed out in pieces of this size, so that memory stays bounded.
LINE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class ContainerFilter:
    """Selects containers of a job; an empty field selects all."""

    role: str = ""
    index: int | None = None
    container: str = ""

    def matches(self, role: str, index: str, container: str) -> bool:
        wanted = "" if self.index is None else str(self.index)
        return (
            self.role.lower() in {"", role.lower()}
            and wanted in {"", index}
            and self.container in {"", container}
        )


ALL_CONTAINERS = ContainerFilter()


def check_filter(job: FoundJob, filter_: ContainerFilter) -> None:
    """Refuse a filter that no container of the job can ever match."""
    name, roles = job.key.name, roles_of(job)
    chosen = {filter_.role.lower(): roles.get(filter_.role.lower())} if filter_.role else roles
    found = [role for role in chosen.values() if role is not None]
    if not found:
        raise CommandError(f"{name} has no role {filter_.role}", f"its roles: {_listed(roles)}")
    if filter_.index is not None and filter_.index >= max(role.maximum for role in found):
        hint = "indexes count from 0"
        raise CommandError(f"{name} never has a pod of index {filter_.index} there", hint)
    names = {name for role in found for name in role.containers}
    if filter_.container and filter_.container not in names:
        hint = f"its containers: {_listed(names)}"
        raise CommandError(f"{name} has no container {filter_.container}", hint)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line without its end, and the pod that printed it."""

    source: str  # role-index
    text: bytes


class JobLogs(Protocol):
    """The output of one job. Every line is handed out once."""

    def new_lines(self) -> Iterator[LogLine]:
        """Return the lines that have come since the last call; does not wait for any."""
        ...

    def last_lines(self) -> Iterator[LogLine]:
        """Return what is left when the containers have ended, an unfinished line included."""
        ...

    def current_lines(self) -> Iterator[LogLine]:
        """Return all lines there are now, for a reader that does not follow."""
        ...


def logs_of(
    connection: ClusterConnection, job: FoundJob, filter_: ContainerFilter = ALL_CONTAINERS
) -> JobLogs:
    if connection.home is not None:
        return FileJobLogs(log_folder(connection.home, job), job.uid, filter_)
    return ServerJobLogs(connection, job, filter_)


class FileJobLogs:
    """Reads ROLE-INDEX.NUMBER/CONTAINER.log in the folder of a job's logs.

    The number grows from one pod of an index to the next.
    """

    def __init__(self, folder: Path, uid: Uid, filter_: ContainerFilter) -> None:
        self._folder = folder
        self._uid = uid
        self._filter = filter_
        self._tails: dict[Path, tuple[str, LogTail]] = {}

    def new_lines(self) -> Iterator[LogLine]:
        self._find()
        for source, tail in self._tails.values():
            yield from (LogLine(source, text) for text in tail.new_lines())

    def last_lines(self) -> Iterator[LogLine]:
        yield from self.new_lines()
        for source, tail in self._tails.values():
            yield from (LogLine(source, text) for text in tail.last_line())

    def current_lines(self) -> Iterator[LogLine]:
        yield from self.last_lines()

    def _find(self) -> None:
        """Look for new files, unless the folder is of a former job of that name."""
        try:
            if (self._folder / OWNER_FILE).read_text() != self._uid:
                return
        except FileNotFoundError:
            return  # no pod of the job has started yet
        for path in sorted(self._folder.glob("*/*.log"), key=_read_order):
            source = path.parent.name.rpartition(".")[0]
            role, _, index = source.rpartition("-")
            if path not in self._tails and self._filter.matches(role, index, _container(path)):
                self._tails[path] = source, LogTail(path)


def _read_order(path: Path) -> tuple[str, int, str, int, str]:
    source, _, count = path.parent.name.rpartition(".")
    role, _, index = source.rpartition("-")
    # Indexes are in the order of numbers; those that are the end of a pod's name are as long.
    return role, len(index), index, int(count), path.name


def _container(path: Path) -> str:
    """Return the container's name: it has no dots, and after one comes the number of the run."""
    return path.name.split(".")[0]


class LogTail:
    """Follows a growing log on disk, through its rotation, one whole line at a time.

    The file that is being read stays open, so that neither a rotation nor a removal takes away
    lines that have not been read yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def new_lines(self) -> Iterator[bytes]:
        """Return the lines that have come since the last call, without their ends."""
        if self._file is None:
            self._file = _opened(log_segments(self._path))
        while self._file is not None:
            # Looked up before reading: a file that is rotated away meanwhile may still grow, and
            # is read to its end by the next call.
            newer = self._newer(self._file)
            yield from self._lines(self._file)
            following = _opened(newer)
            if following is None:
                return
            self._file.close()
            self._file = following

    def last_line(self) -> Iterator[bytes]:
        """Return the last line if it has no end, and close the log."""
        if self._rest:
            yield self._rest
        self._rest = b""
        if self._file is not None:
            self._file.close()

    def _newer(self, file: BinaryIO) -> list[Path]:
        """Return the files that were begun after this one, the oldest first.

        Files are compared by inode: a rotation changes their names.
        """
        number = os.fstat(file.fileno()).st_ino
        segments = log_segments(self._path)
        for at, segment in enumerate(segments):
            try:
                if segment.stat().st_ino == number:
                    return segments[at + 1 :]
            except FileNotFoundError:
                continue
        return segments

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        while chunk := file.read(CHUNK_BYTES):
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            yield from whole
            if len(self._rest) > LINE_BYTES_MAX:
                yield self._rest
                self._rest = b""


def _opened(paths: list[Path]) -> BinaryIO | None:
    """Open the first of these files that exists."""
    for path in paths:
        try:
            return path.open("rb")
        except FileNotFoundError:
            continue
    return None


class ServerJobLogs:
    """Asks the API server. To follow, it needs one thread for every container.

    A log that is followed is one answer that does not end, and the client is a blocking one.
    """

    def __init__(
        self,
        connection: ClusterConnection,
        job: FoundJob,
        filter_: ContainerFilter,
        query: str = "",
    ) -> None:
        """Takes as `query` further parameters of the requests for logs."""
        self._query = query
        self._connection = connection
        self._job = job
        self._filter = filter_
        self._lines: queue.Queue[LogLine] = queue.Queue(LINES_MAX)
        self._readers: dict[_PodLog, threading.Thread] = {}
        selection = Selection(job.key.namespace, labels=pod_selector(job))
        rng = random.Random()  # noqa: S311
        self._pods = WatchedObjects(connection.client, PODS.untyped(), selection, rng)

    def new_lines(self) -> Iterator[LogLine]:
        self._find()
        yield from self._queued()

    def last_lines(self) -> Iterator[LogLine]:
        for reader in self._readers.values():
            while reader.is_alive():
                # As long as lines come, the log is waited for, however long it is.
                reader.join(REST_S)
                n_before = self._lines.qsize()
                yield from self._queued()
                if not n_before:
                    break
        self._pods.close()
        yield from self._queued()

    def current_lines(self) -> Iterator[LogLine]:
        for log in self._logs():
            answer = self._connection.client.send(calls.raw(log.path, accept="*/*"))
            yield from (LogLine(log.source, text) for text in answer.splitlines())

    def _queued(self) -> Iterator[LogLine]:
        while True:
            try:
                yield self._lines.get_nowait()
            except queue.Empty:
                return

    def _find(self) -> None:
        for log in self._logs():
            if log not in self._readers:
                reader = threading.Thread(
                    target=_read, args=(self._connection.access, log, self._lines), daemon=True
                )
                self._readers[log] = reader
                reader.start()

    def _logs(self) -> Iterator[_PodLog]:
        """Return the logs of all containers that have begun."""
        self._pods.poll(0.0)  # lists the first time, and takes up changes later
        for pod in self._pods.objects.values():
            replica = replica_of(self._job, pod)
            if replica is not None:
                yield from self._logs_of_pod(pod, *replica)

    def _logs_of_pod(self, pod: Body, role: str, index: str) -> Iterator[_PodLog]:
        meta = pod["metadata"]
        for status in pod.get("status", {}).get("containerStatuses") or []:
            name, state = status["name"], status.get("state") or {}
            # A log of a container that has not begun is an error of the server's.
            has_begun = "running" in state or "terminated" in state
            if has_begun and self._filter.matches(role, index, name):
                path = PODS.path(self._job.key.namespace, meta["name"])
                query = urlencode({"container": name})
                further = f"&{self._query}" if self._query else ""
                where = f"{path}/log?{query}{further}"
                yield _PodLog(f"{role}-{index}", Uid(meta["uid"]), where)


class PodLogs:
    """The logs of some pods, as the API server has them."""

    def __init__(
        self, connection: ClusterConnection, pods: Iterable[Body], container: str, query: str
    ) -> None:
        self._connection = connection
        self._logs = [log for pod in pods for log in _logs_in(pod, container, query)]

    def current_lines(self) -> Iterator[LogLine]:
        """Return all lines there are now."""
        for log in self._logs:
            answer = self._connection.client.send(calls.raw(log.path, accept="*/*"))
            yield from (LogLine(log.source, text) for text in answer.splitlines())

    def followed(self) -> Iterator[list[LogLine]]:
        """Yield lines as they come, until every container has ended."""
        lines: queue.Queue[LogLine] = queue.Queue(LINES_MAX)
        readers = [
            threading.Thread(target=_read, args=(self._connection.access, log, lines), daemon=True)
            for log in self._logs
        ]
        for reader in readers:
            reader.start()
        while any(reader.is_alive() for reader in readers) or not lines.empty():
            try:
                yield [lines.get(timeout=POLL_S)]
            except queue.Empty:
                continue


def _logs_in(pod: Body, container: str, query: str) -> Iterator[_PodLog]:
    meta, spec = pod["metadata"], pod["spec"]
    names = [one["name"] for one in spec["containers"]]
    known = [*names, *(one["name"] for one in spec.get("initContainers") or ())]
    if container and container not in known:
        message = f"pod {meta['name']} has no container {container}"
        raise CommandError(message, f"its containers: {_listed(known)}")
    for name in [container] if container else names:
        source = meta["name"] if len(names) == 1 or container else f"{meta['name']}/{name}"
        path = PODS.path(meta.get("namespace", ""), meta["name"])
        parameters = "&".join(filter(None, (urlencode({"container": name}), query)))
        yield _PodLog(source, Uid(meta["uid"]), f"{path}/log?{parameters}")


@dataclass(frozen=True, slots=True)
class _PodLog:
    """A container's log. The uid tells it from that of a former pod of the same name."""

    source: str
    uid: Uid
    path: str


def _read(access: Access, log: _PodLog, lines: queue.Queue[LogLine]) -> None:
    """Put every line of a log into a queue, until the container ends."""
    client = OneShot(access, random.Random())  # noqa: S311
    try:
        for text in client.lines(calls.raw(f"{log.path}&follow=true", accept="*/*")):
            lines.put(LogLine(log.source, text))
    except (ClusterError, UnreachableError) as error:
        lines.put(LogLine(log.source, f"(the log cannot be read on: {error})".encode()))
