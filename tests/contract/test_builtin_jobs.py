"""batch/v1 Jobs behave the same on the embedded cluster and on a real one."""

from __future__ import annotations

from swell.api.kinds import JOBS, PODS
from swell.api.meta import Body
from tests.contract.controller_world import (
    INDEX,
    TRACKING,
    Opened,
    World,
    finished,
    has,
    index_of,
    is_active,
    play,
    reasons,
)

HELD = "contract.example/held"


def test_job_makes_its_pods(opened: Opened) -> None:
    """Pods carry the Job's labels and the finalizer that keeps them until they are counted."""

    async def scenario(world: World) -> None:
        job = await world.job("a", parallelism=2, completions=3)
        pods = await world.until_pods(2)
        uid = job["metadata"]["uid"]

        for pod in pods:
            metadata = pod["metadata"]
            assert metadata["labels"] == {
                "batch.kubernetes.io/controller-uid": uid,
                "batch.kubernetes.io/job-name": "a",
                "controller-uid": uid,
                "job-name": "a",
            }
            assert metadata["finalizers"] == [TRACKING]
            assert metadata["generateName"] == "a-"
            assert metadata["ownerReferences"][0]["uid"] == uid
            assert metadata["ownerReferences"][0]["controller"] is True

    play(opened, scenario)


def test_job_status_of_a_running_job(opened: Opened) -> None:
    """The status shows the active pods, and the zeros that are always shown."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=2, completions=2)
        pods = await world.until_pods(2)
        await world.make_ready(pods[0])
        status = await world.until_status(JOBS, "a", lambda s: s.get("ready") == 1)

        assert status.pop("startTime")
        assert status == {
            "active": 2,
            "ready": 1,
            "terminating": 0,
            "uncountedTerminatedPods": {},
        }

    play(opened, scenario)


def test_job_completes(opened: Opened) -> None:
    """With all completions in, the Job is Complete, its pods are free and counted."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=1, completions=2)
        for _ in range(2):
            (pod,) = await world.until_pods(1)
            await world.succeed(pod)
        status = await finished(world, "a", "Complete")

        assert status["succeeded"] == 2
        assert status["completionTime"]
        assert status["uncountedTerminatedPods"] == {}
        assert "active" not in status
        assert reasons(status) == {
            "SuccessCriteriaMet": "CompletionsReached",
            "Complete": "CompletionsReached",
        }
        assert all("finalizers" not in pod["metadata"] for pod in await world.pods())

    play(opened, scenario)


def test_job_of_no_completions_is_complete(opened: Opened) -> None:
    """Nothing to do is done at once."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=1, completions=0)
        status = await finished(world, "a", "Complete")

        assert "succeeded" not in status
        assert await world.pods() == []

    play(opened, scenario)


def test_job_without_completions_ends_with_the_first_success(opened: Opened) -> None:
    """One success is enough; the other active pods may finish."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=2)
        pods = await world.until_pods(2)
        await world.succeed(pods[0])
        await world.until_status(JOBS, "a", lambda s: s.get("succeeded") == 1)
        await world.until_pods(1)
        await world.succeed(pods[1])
        status = await finished(world, "a", "Complete")

        assert status["succeeded"] == 2

    play(opened, scenario)


def test_indexed_job_tells_pods_their_index(opened: Opened) -> None:
    """Name, host name, annotation, label and variable all contain the index."""

    async def scenario(world: World) -> None:
        await world.job("a", completionMode="Indexed", parallelism=2, completions=2)
        pods = await world.until_pods(2)

        for index, pod in enumerate(pods):
            assert pod["metadata"]["name"].startswith(f"a-{index}-")
            assert pod["metadata"]["generateName"] == f"a-{index}-"
            assert pod["metadata"]["annotations"][INDEX] == str(index)
            assert pod["metadata"]["labels"][INDEX] == str(index)
            assert pod["spec"]["hostname"] == f"a-{index}"
            (variable,) = pod["spec"]["containers"][0]["env"]
            assert variable["name"] == "JOB_COMPLETION_INDEX"
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            assert path == f"metadata.labels['{INDEX}']"

    play(opened, scenario)


def test_indexed_job_keeps_completed_indexes(opened: Opened) -> None:
    """Completed indexes are written as ranges, and are not worked on again."""

    async def scenario(world: World) -> None:
        await world.job("a", completionMode="Indexed", parallelism=6, completions=6)
        pods = await world.until_pods(6)
        for index in (0, 2, 3, 4):
            await world.succeed(pods[index])
        status = await world.until_status(JOBS, "a", lambda s: s.get("succeeded") == 4)
        left = await world.until_pods(2)

        assert status["completedIndexes"] == "0,2-4"
        assert [index_of(pod) for pod in left] == [1, 5]

    play(opened, scenario)


def test_indexed_job_replaces_a_failed_index(opened: Opened) -> None:
    """A failed pod's index is worked on again, and the failure counted."""

    async def scenario(world: World) -> None:
        await world.job("a", completionMode="Indexed", parallelism=2, completions=2)
        pods = await world.until_pods(2)
        await world.fail(pods[1])
        await world.until_status(JOBS, "a", lambda s: s.get("failed") == 1)
        again = await world.until_pods(2)

        assert [index_of(pod) for pod in again] == [0, 1]
        assert again[1]["metadata"]["uid"] != pods[1]["metadata"]["uid"]

    play(opened, scenario)


def test_elastic_indexed_job_shrinks_and_grows(opened: Opened) -> None:
    """Completions and parallelism may change together; the highest indexes go first."""

    async def scenario(world: World) -> None:
        await world.job("a", completionMode="Indexed", parallelism=3, completions=3)
        await world.until_pods(3)
        await world.change(JOBS, "a", {"spec": {"parallelism": 1, "completions": 1}})
        (left,) = await world.until_pods(1)
        await world.change(JOBS, "a", {"spec": {"parallelism": 4, "completions": 4}})
        pods = await world.until_pods(4)
        status = await world.until_status(JOBS, "a", lambda s: s.get("active") == 4)

        assert index_of(left) == 0
        assert [index_of(pod) for pod in pods] == [0, 1, 2, 3]
        assert "failed" not in status

    play(opened, scenario)


def test_elastic_indexed_job_forgets_indexes_it_no_longer_has(opened: Opened) -> None:
    """A completed index beyond the new completions does not count any more."""

    async def scenario(world: World) -> None:
        await world.job("a", completionMode="Indexed", parallelism=3, completions=3)
        pods = await world.until_pods(3)
        await world.succeed(pods[2])
        await world.until_status(JOBS, "a", lambda s: s.get("completedIndexes") == "2")
        await world.change(JOBS, "a", {"spec": {"parallelism": 2, "completions": 2}})
        status = await world.until_status(JOBS, "a", lambda s: "completedIndexes" not in s)

        assert "succeeded" not in status
        assert [index_of(pod) for pod in await world.until_pods(2)] == [0, 1]

    play(opened, scenario)


def test_job_failure_waits_for_pods_on_their_way_out(opened: Opened) -> None:
    """The end is recorded at once, and final only when no pod is terminating."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=2, completions=2, backoffLimit=0)
        pods = await world.until_pods(2)
        name = pods[1]["metadata"]["name"]
        await world.change(PODS, name, {"metadata": {"finalizers": [TRACKING, HELD]}})
        await world.fail(pods[0])
        status = await world.until_status(
            JOBS, "a", lambda s: has(s, "FailureTarget") and s.get("terminating") == 1
        )

        assert not has(status, "Failed")
        await world.stays(lambda: ending_of(world, "a"))
        await world.change(PODS, name, {"metadata": {"finalizers": None}})
        status = await finished(world, "a", "Failed")
        assert status["terminating"] == 0

    play(opened, scenario)


async def ending_of(world: World, name: str) -> object:
    return reasons((await world.get(JOBS, name))["status"])


def test_job_restarting_in_place_fails_by_restarts(opened: Opened) -> None:
    """With restartPolicy OnFailure the containers' restarts are the failures."""

    async def scenario(world: World) -> None:
        await world.job("a", restart="OnFailure", backoffLimit=2)
        (pod,) = await world.until_pods(1)
        status = {"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": 2}
        await world.report(pod, {"phase": "Running", "containerStatuses": [status]})
        ended = await finished(world, "a", "Failed")

        assert reasons(ended)["Failed"] == "BackoffLimitExceeded"

    play(opened, scenario)


def test_job_ends_at_its_deadline(opened: Opened) -> None:
    """A Job that runs longer than activeDeadlineSeconds fails, and its pods go."""

    async def scenario(world: World) -> None:
        # The start is written in whole seconds: of one second there may be next to nothing left.
        await world.job("a", activeDeadlineSeconds=3)
        await world.until_pods(1)
        status = await finished(world, "a", "Failed")

        assert reasons(status)["Failed"] == "DeadlineExceeded"
        await world.until_pods(0)

    play(opened, scenario)


def test_job_follows_its_parallelism(opened: Opened) -> None:
    """Fewer or more pods run as the spec says, never more than are still to complete."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=1, completions=3)
        await world.until_pods(1)
        await world.change(JOBS, "a", {"spec": {"parallelism": 5}})
        await world.until_pods(3)
        await world.change(JOBS, "a", {"spec": {"parallelism": 0}})
        await world.until_pods(0)
        status = await world.until_status(JOBS, "a", lambda s: "active" not in s)

        assert "failed" not in status

    play(opened, scenario)


def test_job_counts_a_deleted_pod_as_failed(opened: Opened) -> None:
    """A pod that is deleted counts as failed."""

    async def scenario(world: World) -> None:
        await world.job("a")
        (pod,) = await world.until_pods(1)
        await world.delete(PODS, pod["metadata"]["name"])
        status = await world.until_status(JOBS, "a", lambda s: s.get("failed") == 1)

        assert status["uncountedTerminatedPods"] == {}
        await world.until_gone(PODS, pod["metadata"]["name"])

    play(opened, scenario)


def test_deleted_job_takes_its_pods_along(opened: Opened) -> None:
    """Pods of a Job deleted in the background go, their finalizers taken off."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=2, completions=2)
        for pod in await world.until_pods(2):
            await world.bind(pod, "node-1")
        await world.delete(JOBS, "a", propagation="Background")
        await world.until_gone(JOBS, "a")
        await world.until(
            lambda: listed(world),
            lambda found: all(is_leaving(pod["metadata"]) for pod in found["items"]),
        )

    play(opened, scenario)


def is_leaving(metadata: Body) -> bool:
    return "deletionTimestamp" in metadata and "finalizers" not in metadata


def test_orphaned_pods_of_a_job_are_let_go(opened: Opened) -> None:
    """Pods a Job left behind keep running, without owner and finalizer."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=2, completions=2)
        await world.until_pods(2)
        await world.delete(JOBS, "a", propagation="Orphan")
        await world.until_gone(JOBS, "a")
        pods = await world.until(
            lambda: listed(world),
            lambda found: all("finalizers" not in pod["metadata"] for pod in found["items"]),
        )

        assert len(pods["items"]) == 2
        assert all("ownerReferences" not in pod["metadata"] for pod in pods["items"])
        assert all(is_active(pod) for pod in pods["items"])

    play(opened, scenario)


async def listed(world: World) -> Body:
    return {"items": await world.pods()}


def test_job_of_another_controller_is_left_alone(opened: Opened) -> None:
    """A Job with managedBy of another controller is left alone."""

    async def scenario(world: World) -> None:
        await world.job("a", managedBy="contract.example/other")
        await world.stays(lambda: world.get(JOBS, "a"))

        assert "startTime" not in (await world.get(JOBS, "a")).get("status", {})
        assert await world.pods() == []

    play(opened, scenario)
