"""Hands on what programs without the training library write into files: reports, and answers.

The content of a file becomes an annotation of the pod, where the operator reads it. A report is
looked at every ten seconds. The answer of a program that was asked to save and leave is looked at
much more often, because somebody waits for its room. A pod is written only if its file says
something new. The program owns the files, so they are taken for nothing but short texts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from swell.api.injection import (
    RELEASE_ANNOTATION,
    REPORT_ANNOTATION,
    REPORT_FILE,
    REPORT_VOLUME,
    SAVED_ANNOTATION,
    SAVED_FILE,
)
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
# Between two looks for an answer: short beside the second that a pod takes to stop.
ANSWER_S = 0.5
# The answer that an empty file is.
_SAVED = "saved"


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
        reports_s = 0.0
        while True:
            await self._clock.sleep(ANSWER_S)
            reports_s += ANSWER_S
            for pod in self._pods():
                if pod.is_final or not any(v.name == REPORT_VOLUME for v in pod.spec.volumes):
                    continue
                folder = self._folders.volume(pod.metadata.uid, REPORT_VOLUME)
                if RELEASE_ANNOTATION in pod.metadata.annotations:
                    await self._hand_on(pod, SAVED_ANNOTATION, _answer(folder / SAVED_FILE))
                if reports_s >= PERIOD_S:
                    text = read_report_file(folder / REPORT_FILE)
                    await self._hand_on(pod, REPORT_ANNOTATION, text)
            if reports_s >= PERIOD_S:
                reports_s = 0.0

    async def _hand_on(self, pod: BoundPod, annotation: str, text: str) -> None:
        meta = pod.metadata
        if not text or text == meta.annotations.get(annotation):
            return
        note = {"uid": meta.uid, "annotations": {annotation: text}}
        try:
            await self._cluster.patch(PODS, meta.key, merge_patch({"metadata": note}))
        except (ClusterError, UnreachableError, OutcomeUnknownError) as error:
            # The next look finds the file again.
            log.info("file is not handed on", pod=str(meta.key), why=str(error))


def _answer(path: Path) -> str:
    """The answer in a file; empty where there is none."""
    return read_report_file(path) or (_SAVED if path.is_file() else "")


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
