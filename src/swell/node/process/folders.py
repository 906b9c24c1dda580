"""The layout of the process runtime's folders on disk.

HOME/pods/UID/pod                      which pod this is
HOME/pods/UID/volumes/NAME/            its volumes
HOME/pods/UID/containers/NAME/ATTEMPT/      one run: the protocol files, work/, message
HOME/hosts/NAMESPACE                   the hosts file of a namespace's containers
HOME/logs/NAMESPACE/JOB/ROLE-INDEX.RESTARTCOUNT/CONTAINER.log
HOME/logs/NAMESPACE/_trainingjobs/JOB/ROLE-INDEX.NUMBER/CONTAINER.log     of a TrainingJob
HOME/logs/NAMESPACE/_pods/NAME.UID/CONTAINER.log    of pods that belong to no job
HOME/kept-logs/                        logs of jobs that are gone: see `keptlogs`
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from swell.api.meta import Key, ObjectMeta, Uid
from swell.api.times import parse_time
from swell.api.trainingjob import (
    COMPLETION_INDEX,
    JOB_NAME_LABEL,
    JOB_UID_LABEL,
    ROLE_LABELS,
)
from swell.cluster.private import make_private_folder, write_private
from swell.cluster.trees import discard_tree
from swell.node.pods import JOB_LABEL, BoundPod
from swell.node.process.keptlogs import keep

JOB_KIND = "AITrainingJob"
ROLE_LABEL = "TrainingJobReplicaName"
INDEX_LABEL = "TrainingJobReplicaIndex"
RESTART_LABEL = "RestartCount"
BARE = "_pods"
TRAINING_JOBS = "_trainingjobs"
# Numbers of pods that were created in one second still differ.
_PODS_PER_SECOND = 1_000_000
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
    def kept_logs(self) -> Path:
        return self.home / "kept-logs"

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
        owner = _job_uid(metadata)
        if log_folder.parent.name != BARE and owner:
            self._own(log_folder.parent, owner)
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
                discard_tree(folder)
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

    def retire_logs(self, jobs: str, uids: frozenset[Uid]) -> list[OSError]:
        """Put the logs below `jobs`, a pattern, whose job is not among these to those kept.

        Returns why some could not be moved.
        """
        failures: list[OSError] = []
        for owner in sorted(self.logs.glob(f"{jobs}/*/{OWNER_FILE}")):
            try:
                uid = Uid(owner.read_text())
                if uid not in uids:
                    keep(self.logs, self.kept_logs, owner.parent, uid)
            except FileNotFoundError:
                continue  # a new job of that name has moved it meanwhile
            except OSError as error:
                failures.append(error)
        return failures

    def _own(self, folder: Path, owner: Uid) -> None:
        """Make a folder of logs a job's own: those of a former job of the same name are kept."""
        note = folder / OWNER_FILE
        if note.exists():
            former = Uid(note.read_text())
            if former == owner:
                return
            keep(self.logs, self.kept_logs, folder, former)
        discard_tree(folder)
        make_private_folder(folder)
        write_private(note, owner)


def log_folder_of(logs: Path, metadata: ObjectMeta) -> Path:
    """Returns the folder of a pod's logs. Only logs of a job's pods outlive the pod."""
    labels, owner = metadata.labels, metadata.controller
    job, role, index = (labels.get(name, "") for name in (JOB_LABEL, ROLE_LABEL, INDEX_LABEL))
    if job and role and index and owner is not None and owner.kind == JOB_KIND:
        count = labels.get(RESTART_LABEL, "0")
        return logs / metadata.namespace / job / f"{role}-{index}.{count}"
    replica = training_job_replica(metadata.labels, metadata.annotations, metadata.name)
    if replica is not None and labels.get(JOB_UID_LABEL) and labels.get(JOB_NAME_LABEL):
        jobs = training_job_logs(logs, Key(metadata.namespace, labels[JOB_NAME_LABEL]))
        return jobs / f"{replica[0]}-{replica[1]}.{_number(metadata)}"
    return logs / metadata.namespace / BARE / f"{metadata.name}.{metadata.uid}"


def training_job_logs(logs: Path, job: Key) -> Path:
    """Returns the folder of a TrainingJob's logs; an AITrainingJob may have the same name."""
    return logs / job.namespace / TRAINING_JOBS / job.name


def training_job_replica(
    labels: Mapping[str, str], annotations: Mapping[str, str], name: str
) -> tuple[str, str] | None:
    """Returns role and index of a TrainingJob's pod.

    A pod of a ReplicaSet has no index when it starts. The end of its name stands for it.
    """
    role = next((role for role, label in ROLE_LABELS.items() if labels.get(label)), None)
    if role is None:
        return None
    return role, annotations.get(COMPLETION_INDEX) or name.rpartition("-")[2]


def _number(metadata: ObjectMeta) -> int:
    """Returns a number that tells the pods of one index apart, and grows with their age."""
    created = metadata.creation_timestamp
    second = int(parse_time(created)) if created else 0
    return second * _PODS_PER_SECOND + zlib.crc32(metadata.uid.encode()) % _PODS_PER_SECOND


def _job_uid(metadata: ObjectMeta) -> Uid | None:
    """Returns the UID of the pod's job: that of its owner, unless a workload owns it."""
    owner = metadata.controller
    if owner is None:
        return None
    return owner.uid if owner.kind == JOB_KIND else Uid(metadata.labels.get(JOB_UID_LABEL, ""))


def log_file(folder: Path, container: str, attempt: int) -> Path:
    """Returns the log file of one run of a container; that of the first has no number."""
    return folder / (f"{container}.{attempt}.log" if attempt else f"{container}.log")
