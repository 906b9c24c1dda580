"""Finds the log of a pod's container: for API servers in this process, and for the log server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from swell.api.codec import convert
from swell.api.meta import Body, Uid
from swell.api.times import parse_time
from swell.cluster.embedded.http.logs import LogRequest
from swell.cluster.embedded.refusals import bad_request
from swell.node.pods import BoundPod
from swell.node.process.folders import log_file, log_folder_of
from swell.node.process.logfiles import LogQuery, log_segments, read_log
from swell.runtime.clock import Clock

IsLive = Callable[[Uid, str], bool]


class FileLogs:
    """The logs under one home. `is_live` says whether a pod's container has a process."""

    def __init__(self, logs: Path, is_live: IsLive, clock: Clock) -> None:
        self._logs = logs
        self._is_live = is_live
        self._clock = clock

    def read(self, pod: Body, request: LogRequest) -> AsyncIterator[bytes]:
        """The log in pieces; ClusterError when there is none to be had."""
        return self.read_pod(convert(pod, BoundPod), request)

    def read_pod(self, pod: BoundPod, request: LogRequest) -> AsyncIterator[bytes]:
        name, uid = request.container, pod.metadata.uid
        statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
        attempt = next((s.restart_count for s in statuses if s.name == name), 0)
        if request.previous:
            if attempt == 0:
                message = f"previous terminated container {name!r} in pod {pod.metadata.name!r}"
                raise bad_request(f"{message} not found")
            attempt -= 1
        path = log_file(log_folder_of(self._logs, pod.metadata), name, attempt)
        is_current = self._is_live(uid, name) and not request.previous
        if not log_segments(path) and not is_current:
            shown = f'container "{name}" in pod "{pod.metadata.name}"'
            raise bad_request(f"{shown} is waiting to start: ContainerCreating")
        follow = request.follow and not request.previous
        query = LogQuery(
            follow, request.timestamps, request.tail_lines, request.limit_bytes,
            self._since(request),
        )  # fmt: skip
        return read_log(path, query, lambda: self._is_live(uid, name), self._clock)

    def _since(self, request: LogRequest) -> float | None:
        if request.since_seconds is not None:
            return self._clock.now() - request.since_seconds
        return parse_time(request.since_time) if request.since_time else None
