"""Real processes: their output on disk, rotated, followed, and kept as long as the job is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Body, Key
from swell.cluster.embedded.http.logs import LogRequest
from swell.node.process.folders import Folders
from swell.node.process.logserver import ContainerLogs
from swell.runtime.errors import BadRequestError
from tests.e2e.node.cluster import NAMESPACE, Site, meta, play, pod_body


def logs_of(site: Site) -> ContainerLogs:
    assert site.runtime
    return ContainerLogs(Folders(site.home).logs, site.runtime.is_live, site.clock)


async def text_of(site: Site, name: str, **wanted: object) -> str:
    pod = await site.get(name)
    request = LogRequest(container="main", **wanted)  # type: ignore[arg-type]
    pieces = [piece async for piece in logs_of(site).read_pod(pod, request)]
    return b"".join(pieces).decode()


def test_followed_log_ends_with_the_container(tmp_path: Path) -> None:
    """What is written while it is followed arrives, and the end is seen."""

    async def act(site: Site) -> None:
        await site.pod("p", "sh", "-c", "for i in 1 2 3 4; do echo $i; sleep 0.2; done; exit 1")
        await site.running("p")
        async with asyncio.timeout(10):
            text = await text_of(site, "p", follow=True)

        assert text == "1\n2\n3\n4\n"
        assert (await site.ended("p")).is_final

    play(tmp_path, act)


def test_part_of_a_log_can_be_asked_for(tmp_path: Path) -> None:
    """The last lines, the first bytes, what came lately, and when each line came."""

    async def act(site: Site) -> None:
        await site.pod("p", "sh", "-c", "seq 1 5; sleep 1.6; seq 6 7")
        pod = await site.ended("p")
        stamped = (await text_of(site, "p", timestamps=True)).splitlines()

        assert await text_of(site, "p", tail_lines=2) == "6\n7\n"
        assert await text_of(site, "p", tail_lines=0) == ""
        assert await text_of(site, "p", limit_bytes=3) == "1\n2"
        assert await text_of(site, "p", since_seconds=1) == "6\n7\n"
        assert stamped[0].split()[0] < stamped[6].split()[0]
        assert [line.split()[1] for line in stamped] == list("1234567")
        with pytest.raises(BadRequestError):
            logs_of(site).read_pod(pod, LogRequest("main", previous=True))

    play(tmp_path, act)


def test_large_log_is_rotated_and_read_as_one(tmp_path: Path) -> None:
    """Files have a bounded size; nothing is lost before there are too many of them."""

    async def act(site: Site) -> None:
        await site.pod("p", "sh", "-c", "seq 1 2500000")
        await site.ended("p")
        text = await text_of(site, "p")
        folder = next((tmp_path / "logs").glob("**/main.log")).parent
        sizes = [
            path.stat().st_size for path in folder.glob("main.log*") if path.suffix != ".times"
        ]

        assert text.splitlines()[:2] == ["1", "2"]
        assert text.count("\n") == 2500000
        assert len(sizes) == 2
        assert max(sizes) <= 10 << 20

    play(tmp_path, act)


def test_logs_of_a_job_are_kept_until_it_is_deleted(tmp_path: Path) -> None:
    """The pods may go before; a new job of the name begins with nothing."""

    async def act(site: Site) -> None:
        job = await site.cluster.create(AI_TRAINING_JOBS, job_body())
        labels = {
            "TrainingJobName": "fit",
            "TrainingJobReplicaName": "trainer",
            "TrainingJobReplicaIndex": "0",
            "RestartCount": "2",
        }
        body = pod_body("fit-trainer-0", "echo", "hello")
        owner = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": "fit"}
        body["metadata"]["labels"] = labels
        body["metadata"]["ownerReferences"] = [
            {**owner, "uid": job.metadata.uid, "controller": True}
        ]
        await site.cluster.create(PODS, body)
        await site.ended("fit-trainer-0")
        await site.delete("fit-trainer-0")
        await site.gone("fit-trainer-0")
        log = tmp_path / "logs" / NAMESPACE / "fit" / "trainer-0.2" / "main.log"
        kept = log.read_text()
        await site.cluster.delete(AI_TRAINING_JOBS, Key(NAMESPACE, "fit"))
        await site.until(lambda: not log.parent.parent.exists())

        assert kept == "hello\n"

    play(tmp_path, act)


def job_body() -> Body:
    container = {"name": "aitj-main", "image": "local", "command": ["true"]}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": meta("fit"),
        "spec": {"replicaSpecs": {"trainer": {"replicas": 1, "template": template}}},
    }
