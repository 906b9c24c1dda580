"""Where the logs of a pod are kept: by job, role and index, for jobs of both kinds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swell.api.meta import Key, ObjectMeta, OwnerReference, Uid
from swell.api.trainingjob import COMPLETION_INDEX
from swell.node.pods import BoundPod
from swell.node.process.folders import Folders, log_folder_of, training_job_logs
from swell.node.process.keptlogs import of_job, prune

LOGS = Path("/logs")


def pod_of(kind: str, name: str, labels: dict[str, str], **meta: object) -> ObjectMeta:
    owner = OwnerReference(kind=kind, name="owner", uid=Uid("owner"), controller=True)
    return ObjectMeta(
        name=name,
        namespace="team",
        labels=labels,
        owner_references=(owner,),
        **{"uid": Uid("pod"), "creation_timestamp": "2026-01-01T00:00:00Z", **meta},  # type: ignore[arg-type]
    )


def trainer(uid: str = "pod", second: int = 0) -> ObjectMeta:
    labels = {"paddle-job": "fit", "paddle-job-name": "fit", "paddle-job-uid": "job"}
    at = f"2026-01-01T00:00:{second:02}Z"
    index = {COMPLETION_INDEX: "3"}
    return pod_of("Job", "fit-trainer-3-x", labels, annotations=index, uid=Uid(uid),
                  creation_timestamp=at)  # fmt: skip


def test_trainer_has_the_folder_of_its_index() -> None:
    """Beside those of AITrainingJobs: a job of either kind may have the same name."""
    folder = log_folder_of(LOGS, trainer())

    assert folder.parent == training_job_logs(LOGS, Key("team", "fit"))
    assert folder.parent != LOGS / "team" / "fit"
    assert folder.name.rpartition(".")[0] == "trainer-3"


def test_pods_of_one_index_have_folders_in_the_order_of_their_age() -> None:
    """A replaced trainer's log is neither overwritten nor shown after its successor's."""
    numbers = [
        int(log_folder_of(LOGS, meta).name.rpartition(".")[2])
        for meta in (trainer("b", 1), trainer("a", 2), trainer("c", 2))
    ]

    assert numbers[0] < min(numbers[1:])
    assert len(set(numbers)) == 3


def test_pod_of_a_replica_set_goes_by_the_end_of_its_name() -> None:
    """It has no index when it starts."""
    labels = {"paddle-job-pserver": "fit", "paddle-job-name": "fit", "paddle-job-uid": "job"}

    assert log_folder_of(LOGS, pod_of("ReplicaSet", "fit-pserver-x7k2p", labels)).name.startswith(
        "pserver-x7k2p."
    )


@pytest.mark.parametrize(
    "labels", [{}, {"paddle-job": "fit"}, {"paddle-job-uid": "job", "paddle-job-name": "fit"}]
)
def test_other_pods_belong_to_no_job(labels: dict[str, str]) -> None:
    """The original controller's pods are not ours."""
    assert log_folder_of(LOGS, pod_of("Job", "a", labels)) == LOGS / "team" / "_pods" / "a.pod"


def test_logs_of_a_deleted_job_are_put_away(tmp_path: Path) -> None:
    """They outlive the pod, and then the job; one of the same name has none of them."""
    folders = Folders(tmp_path)
    folders.make_pod(BoundPod(metadata=trainer()))
    kept = training_job_logs(folders.logs, Key("team", "fit"))
    folders.retire_logs("*/_trainingjobs", frozenset({Uid("job")}))
    assert kept.exists()
    folders.retire_logs("*/_trainingjobs", frozenset({Uid("next")}))

    assert not kept.exists()
    away = of_job(folders.kept_logs, kept.relative_to(folders.logs))
    assert away is not None
    assert away.name == "fit.job"
    assert of_job(folders.kept_logs, Path("team") / "fit") is None


def test_kept_logs_go_by_age_and_then_by_size(tmp_path: Path) -> None:
    """The oldest first."""
    kept = tmp_path / "kept-logs"
    for number in range(4):
        folder = kept / "team" / f"fit.{number}"
        folder.mkdir(parents=True)
        (folder / "c.log").write_bytes(bytes(100))
        os.utime(folder, (1000.0 + number, 1000.0 + number))

    def names() -> list[str]:
        return sorted(one.name for one in (kept / "team").iterdir())

    assert prune(kept, now=1000.5, kept_s=100.0, bytes_max=1000) == []
    assert names() == ["fit.0", "fit.1", "fit.2", "fit.3"]
    prune(kept, now=1101.0, kept_s=100.0, bytes_max=1000)
    assert names() == ["fit.2", "fit.3"]
    prune(kept, now=1101.0, kept_s=100.0, bytes_max=150)
    assert names() == ["fit.3"]
    assert prune(tmp_path / "nothing", 0.0, 1.0) == []
