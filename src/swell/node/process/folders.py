"""The layout of the process runtime's folders on disk.

HOME/pods/UID/pod                      which pod this is
HOME/pods/UID/volumes/NAME/            its volumes
HOME/pods/UID/containers/NAME/ATTEMPT/      one run: the protocol files, work/, message
HOME/hosts/NAMESPACE                   the hosts file of a namespace's containers
HOME/logs/NAMESPACE/JOB/ROLE-INDEX.RESTARTCOUNT/CONTAINER.log
HOME/logs/NAMESPACE/_pods/NAME.UID/CONTAINER.log    of pods that belong to no job
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swell.api.meta import Key, ObjectMeta, Uid
from swell.cluster.private import make_private_folder, write_private
from swell.node.pods import JOB_LABEL, BoundPod

JOB_KIND = "AITrainingJob"
ROLE_LABEL = "TrainingJobReplicaName"
INDEX_LABEL = "TrainingJobReplicaIndex"
RESTART_LABEL = "RestartCount"
BARE = "_pods"
OWNER_FILE = ".owner"


@dataclass(frozen=True, slots=True)
class RecordedPod:
    """A pod that has a folder, as its `pod` file records it."""

    uid: Uid
    key: Key
    log_folder: Path


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders below one home."""

    home: Path

    @property
    def pods(self) -> Path:
        return self.home / "pods"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def stage(self) -> Path:
        return self.home / "node" / "stage"

    def pod(self, uid: Uid) -> Path:
        return self.pods / uid

    def volume(self, uid: Uid, name: str) -> Path:
        return self.pod(uid) / "volumes" / name

    def run(self, uid: Uid, container: str, attempt: int) -> Path:
        return self.pod(uid) / "containers" / container / str(attempt)

    def hosts(self, namespace: str) -> Path:
        return self.home / "hosts" / namespace

    def make_pod(self, pod: BoundPod) -> None:
        """Make the folder of a pod, with a file that says which pod it is.

        It comes before anything is started, so that a later agent finds all that runs.
        """
        folder = self.pod(pod.metadata.uid)
        if (folder / "pod").exists():
            return
        make_private_folder(folder)
        metadata = pod.metadata
        log_folder = log_folder_of(self.logs, metadata)
        owner = metadata.controller
        if log_folder.parent.name != BARE and owner is not None:
            _own(log_folder.parent, owner.uid)
        make_private_folder(log_folder)
        note = {
            "namespace": metadata.namespace,
            "name": metadata.name,
            "logs": str(log_folder.relative_to(self.logs)),
        }
        write_private(folder / "pod", json.dumps(note))

    def recorded_pods(self) -> Iterator[RecordedPod]:
        """Returns every pod that has a folder, and removes folders that were not finished."""
        if not self.pods.exists():
            return
        for folder in sorted(self.pods.iterdir()):
            note = folder / "pod"
            if not note.exists():
                shutil.rmtree(folder, ignore_errors=True)
                continue
            recorded = json.loads(note.read_text())
            key = Key(recorded["namespace"], recorded["name"])
            yield RecordedPod(Uid(folder.name), key, self.logs / recorded["logs"])

    def runs(self, uid: Uid) -> Iterator[tuple[str, int, Path]]:
        """Returns every run of a pod's containers: name, attempt and folder, oldest first."""
        containers = self.pod(uid) / "containers"
        if not containers.exists():
            return
        for container in sorted(containers.iterdir()):
            for run in sorted(container.iterdir(), key=lambda path: int(path.name)):
                yield container.name, int(run.name), run


def _own(folder: Path, owner: Uid) -> None:
    """Make a folder of logs a job's own: remove the logs of a former job of the same name."""
    note = folder / OWNER_FILE
    if note.exists() and note.read_text() == owner:
        return
    shutil.rmtree(folder, ignore_errors=True)
    make_private_folder(folder)
    write_private(note, owner)


def remove_tree(folder: Path) -> None:
    """Remove a folder with everything in it; OSError when something is left.

    A container may have made folders that their owner cannot write to.
    """
    if not folder.exists():
        return
    try:
        shutil.rmtree(folder)
    except PermissionError:
        for place, _, _ in os.walk(folder, onerror=_permit_entry):
            Path(place).chmod(0o700)
        shutil.rmtree(folder)


def _permit_entry(error: OSError) -> None:
    """Open a folder that could not be listed; its content is found by the removal itself."""
    Path(error.filename).chmod(0o700)


def log_folder_of(logs: Path, metadata: ObjectMeta) -> Path:
    """Returns the folder of a pod's logs. Only logs of a job's pods outlive the pod."""
    labels, owner = metadata.labels, metadata.controller
    job, role, index = (labels.get(name, "") for name in (JOB_LABEL, ROLE_LABEL, INDEX_LABEL))
    if job and role and index and owner is not None and owner.kind == JOB_KIND:
        count = labels.get(RESTART_LABEL, "0")
        return logs / metadata.namespace / job / f"{role}-{index}.{count}"
    return logs / metadata.namespace / BARE / f"{metadata.name}.{metadata.uid}"


def log_file(folder: Path, container: str, attempt: int) -> Path:
    """Returns the log file of one run of a container; that of the first has no number."""
    return folder / (f"{container}.{attempt}.log" if attempt else f"{container}.log")
