"""What the containers of a job print, line by line, from wherever it can be had.

On the embedded cluster the files are read, which outlive the pods; elsewhere the API server is
asked for the log of every pod.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlencode

from swell.api.aitrainingjob import AITrainingJob
from swell.api.kinds import PODS
from swell.api.meta import Body, Key, Uid
from swell.cli.connection import ClusterConnection
from swell.cli.failure import CommandError
from swell.cli.jobs.tail import Tail
from swell.cluster.kube import calls
from swell.cluster.kube.access import Access
from swell.cluster.kube.oneshot import OneShot
from swell.node.process.folders import INDEX_LABEL, JOB_LABEL, OWNER_FILE, ROLE_LABEL, Folders
from swell.runtime.cluster import Selection
from swell.runtime.errors import ClusterError, UnreachableError

LINES_MAX = 10_000
REST_S = 5.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which containers; what is empty is not asked for."""

    role: str = ""
    index: int | None = None
    container: str = ""

    def has(self, role: str, index: str, container: str) -> bool:
        return (
            self.role.lower() in {"", role.lower()}
            and self.index in {None, int(index)}
            and self.container in {"", container}
        )


EVERYTHING = Wanted()


def check_wanted(job: AITrainingJob, wanted: Wanted) -> None:
    """Refuse to look for what a job cannot have: it would never be found."""
    name, specs = job.metadata.name, job.spec.replica_specs
    roles = {role.lower(): spec for role, spec in specs.items()}
    chosen = {wanted.role.lower(): roles.get(wanted.role.lower())} if wanted.role else roles
    found = [spec for spec in chosen.values() if spec is not None]
    if not found:
        raise CommandError(f"{name} has no role {wanted.role}", f"its roles: {_listed(roles)}")
    if wanted.index is not None and wanted.index >= max(spec.maximum for spec in found):
        hint = "indexes count from 0"
        raise CommandError(f"{name} never has a pod of index {wanted.index} there", hint)
    names = {name for spec in found for name in _container_names(spec.template)}
    if wanted.container and wanted.container not in names:
        hint = f"its containers: {_listed(names)}"
        raise CommandError(f"{name} has no container {wanted.container}", hint)


def _container_names(template: Body) -> Iterator[str]:
    spec = template.get("spec") or {}
    for part in ("initContainers", "containers"):
        yield from (container.get("name", "") for container in spec.get(part) or ())


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


@dataclass(frozen=True, slots=True)
class Line:
    source: str  # role-index
    text: bytes


class JobLogs(Protocol):
    """The output of one job."""

    def news(self) -> Iterator[Line]:
        """What has come since."""
        ...

    def rest(self) -> Iterator[Line]:
        """What is left when nothing more will come."""
        ...

    def once(self) -> Iterator[Line]:
        """All there is now, and no more."""
        ...


def logs_of(
    connection: ClusterConnection, job: Key, uid: Uid, wanted: Wanted = EVERYTHING
) -> JobLogs:
    if connection.home is not None:
        return FileLogs(Folders(connection.home).logs / job.namespace / job.name, uid, wanted)
    return ServerLogs(connection, job, uid, wanted)


class FileLogs:
    """Reads HOME/logs/NAMESPACE/JOB/ROLE-INDEX.RESTARTCOUNT/CONTAINER.log."""

    def __init__(self, folder: Path, uid: Uid, wanted: Wanted) -> None:
        self._folder = folder
        self._uid = uid
        self._wanted = wanted
        self._tails: dict[Path, tuple[str, Tail]] = {}

    def news(self) -> Iterator[Line]:
        self._find()
        for source, tail in self._tails.values():
            yield from (Line(source, text) for text in tail.news())

    def rest(self) -> Iterator[Line]:
        yield from self.news()
        for source, tail in self._tails.values():
            yield from (Line(source, text) for text in tail.rest())

    def once(self) -> Iterator[Line]:
        yield from self.rest()

    def _find(self) -> None:
        """Look for new files, unless they are of a former job of that name."""
        try:
            if (self._folder / OWNER_FILE).read_text() != self._uid:
                return
        except FileNotFoundError:
            return
        for path in sorted(self._folder.glob("*/*.log"), key=_order):
            source = path.parent.name.rpartition(".")[0]
            role, _, index = source.rpartition("-")
            if path not in self._tails and self._wanted.has(role, index, _container(path)):
                self._tails[path] = source, Tail(path)


def _order(path: Path) -> tuple[str, int, int, str]:
    source, _, count = path.parent.name.rpartition(".")
    role, _, index = source.rpartition("-")
    return role, int(index), int(count), path.name


def _container(path: Path) -> str:
    """Container names have no dots; what follows one is the number of the run."""
    return path.name.split(".")[0]


class ServerLogs:
    """Follows every container in a thread of its own: a log is one long answer of the server's."""

    def __init__(self, connection: ClusterConnection, job: Key, uid: Uid, wanted: Wanted) -> None:
        self._connection = connection
        self._job = job
        self._uid = uid
        self._wanted = wanted
        self._lines: queue.Queue[Line] = queue.Queue(LINES_MAX)
        self._readers: dict[_PodLog, threading.Thread] = {}

    def news(self) -> Iterator[Line]:
        self._find()
        yield from self._waiting()

    def rest(self) -> Iterator[Line]:
        for reader in self._readers.values():
            while reader.is_alive():
                reader.join(REST_S)
                n_before = self._lines.qsize()
                yield from self._waiting()
                if not n_before:
                    break
        yield from self._waiting()

    def once(self) -> Iterator[Line]:
        for log in self._logs():
            answer = self._connection.client.send(calls.raw(log.path, accept="*/*"))
            yield from (Line(log.source, text) for text in answer.splitlines())

    def _waiting(self) -> Iterator[Line]:
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
        """Who has a log now."""
        selection = Selection(self._job.namespace, labels=f"{JOB_LABEL}={self._job.name}")
        found = self._connection.client.send(calls.list_page(PODS.untyped(), selection))
        for pod in found.items:
            owners = pod["metadata"].get("ownerReferences") or []
            if any(owner.get("uid") == self._uid for owner in owners):
                yield from self._logs_of_pod(pod)

    def _logs_of_pod(self, pod: Body) -> Iterator[_PodLog]:
        meta = pod["metadata"]
        role, index = meta["labels"].get(ROLE_LABEL, ""), meta["labels"].get(INDEX_LABEL, "0")
        for status in pod.get("status", {}).get("containerStatuses") or []:
            name, state = status["name"], status.get("state") or {}
            has_begun = "running" in state or "terminated" in state
            if has_begun and self._wanted.has(role, index, name):
                path = PODS.path(self._job.namespace, meta["name"])
                query = urlencode({"container": name})
                yield _PodLog(f"{role}-{index}", Uid(meta["uid"]), f"{path}/log?{query}")


@dataclass(frozen=True, slots=True)
class _PodLog:
    """A container's log. A pod that comes again under the same name has another one."""

    source: str
    uid: Uid
    path: str


def _read(access: Access, log: _PodLog, lines: queue.Queue[Line]) -> None:
    """Put a log into a queue to its end."""
    with OneShot(access, random.Random()) as client:  # noqa: S311
        try:
            for text in client.lines(calls.raw(f"{log.path}&follow=true", accept="*/*")):
                lines.put(Line(log.source, text))
        except (ClusterError, UnreachableError) as error:
            lines.put(Line(log.source, f"(the log cannot be read on: {error})".encode()))
