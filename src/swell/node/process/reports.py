"""Hands on the reports that programs without the training library write into a file.

The content of the file becomes an annotation of the pod, where the operator reads it. A file is
looked at every ten seconds, and a pod is written only if it says something new. The program owns
the file, so it is taken for nothing but a short text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from swell.api.injection import REPORT_ANNOTATION, REPORT_FILE, REPORT_VOLUME
from swell.api.kinds import PODS
from swell.api.report import REPORT_BYTES_MAX
from swell.node.pods import BoundPod
from swell.node.process.folders import Folders
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.errors import ClusterError, OutcomeUnknownError, UnreachableError
from swell.runtime.logs import get_logger

log = get_logger(__name__)

PERIOD_S = 10.0


class ReportFiles:
    """The report files of the pods of an agent. Run `run` as a service."""

    def __init__(
        self,
        cluster: Cluster,
        folders: Folders,
        *,
        clock: Clock,
        pods: Callable[[], Iterable[BoundPod]],
    ) -> None:
        self._cluster = cluster
        self._folders = folders
        self._clock = clock
        self._pods = pods

    async def run(self) -> None:
        """Look at all files, again and again."""
        while True:
            await self._clock.sleep(PERIOD_S)
            for pod in self._pods():
                if not pod.is_final and any(v.name == REPORT_VOLUME for v in pod.spec.volumes):
                    await self._hand_on(pod)

    async def _hand_on(self, pod: BoundPod) -> None:
        meta = pod.metadata
        text = read_report_file(self._folders.volume(meta.uid, REPORT_VOLUME) / REPORT_FILE)
        if not text or text == meta.annotations.get(REPORT_ANNOTATION):
            return
        note = {"uid": meta.uid, "annotations": {REPORT_ANNOTATION: text}}
        try:
            await self._cluster.patch(PODS, meta.key, merge_patch({"metadata": note}))
        except (ClusterError, UnreachableError, OutcomeUnknownError) as error:
            # The next look finds the file again.
            log.info("report is not handed on", pod=str(meta.key), why=str(error))


def read_report_file(path: Path) -> str:
    """The text of a report file; empty where there is none that can be a report.

    Links are not followed, and nothing but a regular file is read: the program must not make its
    node read another file, nor wait for a pipe.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        raw = os.read(descriptor, REPORT_BYTES_MAX + 1)
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    if len(raw) > REPORT_BYTES_MAX:
        return ""
    try:
        return raw.decode().strip()
    except UnicodeDecodeError:
        return ""
