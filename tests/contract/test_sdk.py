"""The SDK on the embedded server and on a real one; and one mistake in the words of all three."""

from __future__ import annotations

import asyncio
import itertools
import random
import warnings
from pathlib import Path

import pytest

import swell.aio
from swell import SwellError, SwellWarning
from swell.api import codec
from swell.api.kinds import AI_TRAINING_JOBS
from swell.cli.choice import ChosenBy, ClusterChoice
from swell.cli.connection import access_of
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.errors import ClusterError
from tests.contract.swell_command import Swell
from tests.contract.test_sweeps import end

BODY = {
    "apiVersion": "elasticdeeplearning.ai/v1",
    "kind": "AITrainingJob",
    "metadata": {"name": "fit"},
    "spec": {
        "replicaSpecs": {
            "trainer": {
                "replicas": 2,
                "template": {"spec": {"containers": [{"name": "aitj-trainer", "image": "python"}]}},
            }
        }
    },
}


def cluster_of(swell_: Swell) -> swell.Cluster:
    return swell.connect(namespace=swell_.namespace)


def test_manifest_command_and_function_are_submitted(swell: Swell, tmp_path: Path) -> None:
    """As objects of the cluster, and found by their names."""
    cluster = cluster_of(swell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SwellWarning)
        first = cluster.submit(BODY)
        cluster.submit("echo 'a b'", name="words", labels={"team": "x"})
        cluster.submit(print, args=["hello"], name="calls")
    path = tmp_path / "other.json"
    path.write_bytes(codec.encode({**BODY, "metadata": {"name": "other"}}))
    cluster.submit(path)

    assert (first.name, first.kind, first.phase, first.has_ended) == (
        "fit",
        "AITrainingJob",
        "",
        False,
    )
    assert [job.name for job in cluster.jobs()] == ["calls", "fit", "other", "words"]
    assert [job.name for job in cluster.jobs("team=x")] == ["words"]
    spec = cluster.job("words").body["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]
    assert spec["containers"][0]["command"] == ["echo", "a b"]
    assert cluster.job("fit").events() == []
    assert "fit" in cluster.job("fit").explain()


def test_job_is_awaited_stopped_and_deleted(swell: Swell) -> None:
    """Its end is seen by a watch; a time that is up is a TimeoutError."""
    cluster = cluster_of(swell)
    job = cluster.submit(BODY)
    with pytest.raises(TimeoutError, match="fit has not ended after"):
        job.wait(timeout=0.01)
    job.stop("enough", ending="Preempted")
    notes = job.refresh().body["metadata"]["annotations"]
    assert notes["Preempted"] == notes["elasticdeeplearning.ai/stopped"] == "enough"
    end(swell, {"fit": "Preempted"})

    assert job.wait(timeout=60).phase == "Preempted"
    with pytest.raises(SwellError, match="fit: Preempted: "):
        job.wait(check=True)
    assert list(job.logs(follow=True)) == []
    (life,) = job.history()
    assert (life["name"], life["phase"]) == ("fit", "Preempted")
    job.delete()
    with pytest.raises(SwellError, match="fit was deleted meanwhile"):
        job.refresh()


def test_sweep_is_submitted_from_python(swell: Swell) -> None:
    """A grid for a command, rows for a function."""
    cluster = cluster_of(swell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SwellWarning)
        grid = cluster.sweep(["train", "{lr}"], {"lr": [0.1, 0.2]}, name="grid")
        cluster.sweep(print, [{"sep": "-"}, {"sep": "+"}], name="calls", parallel=1)
    assert [row["parameters"] for row in grid.rows] == [{"lr": "0.1"}, {"lr": "0.2"}]
    end(swell, {"grid-0": "Succeed", "grid-1": "Failed"})

    assert grid.wait(timeout=60).counts == {"Succeed": 1, "Failed": 1}
    assert [job.name for job in grid.jobs] == ["grid-0", "grid-1"]
    assert grid.retry().counts == {"Accepted": 1, "Succeed": 1}
    assert grid.stop().has_ended is False
    grid.delete()
    with pytest.raises(SwellError, match="no sweep grid in namespace"):
        grid.refresh()


def test_asynchronous_form_does_the_same(swell: Swell) -> None:
    """Calls are awaited together, and changes are iterated."""
    namespace = swell.namespace

    async def main() -> list[str]:
        import swell.aio

        cluster = await swell.aio.connect(namespace=namespace)
        bodies = [{**BODY, "metadata": {"name": f"fit-{n}"}} for n in range(3)]
        await asyncio.gather(*(cluster.submit(body) for body in bodies))
        seen = []
        async for change in cluster.watch():
            seen.append(change.job.name)
            if len(seen) == 3:
                break
        return sorted(seen)

    assert asyncio.run(main()) == ["fit-0", "fit-1", "fit-2"]


def test_changes_are_watched(swell: Swell) -> None:
    """Jobs that are there, then their changes, then their going."""
    cluster = cluster_of(swell)
    job = cluster.submit(BODY)
    changes = cluster.watch()
    assert next(changes)[:1] == ("added",)
    job.stop()
    assert next(change.type for change in changes if "Failed" in str(change.job.body)) == "modified"
    job.delete()

    assert "deleted" in {change.type for change in itertools.islice(changes, 1)}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("replicas", -1, "must be"),
        ("edlPolicy", "Sometimes", "Sometimes"),
        ("minReplicas", 5, "minReplicas"),
    ],
)
def test_one_mistake_has_the_same_words_everywhere(
    swell: Swell, field: str, value: object, words: str
) -> None:
    """The command line, the SDK and the server say the same of it."""
    trainer = {**BODY["spec"]["replicaSpecs"]["trainer"], field: value}  # type: ignore[index]
    body = {**BODY, "spec": {"replicaSpecs": {"trainer": trainer}}}
    command = swell.apply(codec.encode(body).decode())
    with pytest.raises(SwellError) as refused:
        cluster_of(swell).submit(body)

    said = [line.partition(": ")[2] for line in command.err.splitlines() if "manifest" in line]
    assert [line.partition(": ")[2] for line in refused.value.details] == said
    assert words in " ".join(said)
    assert refused.value.message in command.err


def test_missing_job_has_the_same_words(swell: Swell) -> None:
    """Message and hint are those of the command line."""
    command = swell.here("logs", "nobody")
    with pytest.raises(SwellError) as refused:
        cluster_of(swell).job("nobody")

    assert command.err == f"error: {refused.value}\n  {refused.value.hint}\n"


def test_refusal_of_the_server_has_the_same_words(swell: Swell) -> None:
    """The message of the server itself reaches both."""
    body = {**BODY, "metadata": {"name": "fit", "namespace": "nowhere"}}
    import os

    kubeconfig = Path(os.environ["KUBECONFIG"])
    access = access_of(ClusterChoice(ChosenBy.KUBECONFIG, (kubeconfig,)))
    with pytest.raises(ClusterError) as server:
        OneShot(access, random.Random(1)).send(calls.create(AI_TRAINING_JOBS.untyped(), body))
    command = swell("apply", "-f", swell.file(codec.encode(body).decode()))
    import swell as sdk

    with pytest.raises(SwellError) as refused:
        sdk.connect(namespace="nowhere").submit(BODY)

    assert str(server.value) == str(refused.value)
    assert str(server.value) in command.err
