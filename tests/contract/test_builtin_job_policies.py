"""The policies of batch/v1 Jobs (failure, success, replacement, limits per index) mean the same on
the embedded cluster and on a real one."""

from __future__ import annotations

from swell.api.kinds import JOBS, PODS
from tests.contract.controller_world import (
    Opened,
    World,
    finished,
    has,
    index_of,
    play,
    reasons,
)

ON_42 = {"operator": "In", "values": [42]}


def test_job_fails_beyond_its_backoff_limit(opened: Opened) -> None:
    """One failure too many ends the Job; pods still at work are deleted and count as failed."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=2, completions=2, backoffLimit=0)
        pods = await world.until_pods(2)
        await world.fail(pods[0])
        status = await finished(world, "a", "Failed")

        assert status["failed"] == 2
        assert "completionTime" not in status
        assert reasons(status) == {
            "FailureTarget": "BackoffLimitExceeded",
            "Failed": "BackoffLimitExceeded",
        }
        await world.until_gone(PODS, pods[1]["metadata"]["name"])

    play(opened, scenario)


def test_pod_failure_policy_fails_the_job(opened: Opened) -> None:
    """An exit code of a FailJob rule ends the Job whatever its limit."""

    async def scenario(world: World) -> None:
        rules = [{"action": "FailJob", "onExitCodes": ON_42}]
        await world.job("a", backoffLimit=6, podFailurePolicy={"rules": rules})
        (pod,) = await world.until_pods(1)
        await world.fail(pod, exit_code=42)
        status = await finished(world, "a", "Failed")

        assert reasons(status)["Failed"] == "PodFailurePolicy"
        assert status["failed"] == 1

    play(opened, scenario)


def test_pod_failure_policy_ignores_a_disruption(opened: Opened) -> None:
    """A failure of an Ignore rule does not count, and the pod is replaced."""

    async def scenario(world: World) -> None:
        rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
        await world.job("a", backoffLimit=0, podFailurePolicy={"rules": rules})
        (pod,) = await world.until_pods(1)
        await world.fail(pod, condition="DisruptionTarget")
        (again,) = await world.until_pods(1)
        status = await world.until_status(JOBS, "a", lambda s: s.get("active") == 1)

        assert again["metadata"]["uid"] != pod["metadata"]["uid"]
        assert "failed" not in status

    play(opened, scenario)


def test_pod_failure_policy_first_match_decides(opened: Opened) -> None:
    """Count before FailJob counts; an exit code outside all rules counts too."""

    async def scenario(world: World) -> None:
        rules = [
            {"action": "Count", "onExitCodes": ON_42},
            {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [7]}},
        ]
        await world.job("a", backoffLimit=5, podFailurePolicy={"rules": rules})
        for exit_code in (42, 7):
            (pod,) = await world.until_pods(1)
            await world.fail(pod, exit_code=exit_code)
        await world.until_pods(1)
        status = await world.until_status(JOBS, "a", lambda s: s.get("failed") == 2)

        assert not has(status, "FailureTarget")

    play(opened, scenario)


def test_backoff_limit_per_index_fails_indexes_alone(opened: Opened) -> None:
    """An index fails by its own failures; the others go on, and the Job fails when all ended."""

    async def scenario(world: World) -> None:
        await world.job(
            "a", completionMode="Indexed", parallelism=2, completions=2, backoffLimitPerIndex=0
        )
        pods = await world.until_pods(2)
        await world.fail(pods[1])
        status = await world.until_status(JOBS, "a", lambda s: s.get("failedIndexes") == "1")
        assert not has(status, "FailureTarget")

        await world.succeed(pods[0])
        status = await finished(world, "a", "Failed")
        assert reasons(status)["Failed"] == "FailedIndexes"
        assert status["completedIndexes"] == "0"
        assert (status["succeeded"], status["failed"]) == (1, 1)

    play(opened, scenario)


def test_backoff_limit_per_index_hands_the_count_on(opened: Opened) -> None:
    """A replacement says how often its index failed before it."""

    async def scenario(world: World) -> None:
        await world.job(
            "a", completionMode="Indexed", parallelism=1, completions=1, backoffLimitPerIndex=2
        )
        (pod,) = await world.until_pods(1)
        await world.fail(pod)
        (again,) = await world.until_pods(1)
        count = "batch.kubernetes.io/job-index-failure-count"

        assert pod["metadata"]["annotations"][count] == "0"
        assert again["metadata"]["annotations"][count] == "1"
        status = await world.until_status(JOBS, "a", lambda s: s.get("failed") == 1)
        assert status["failedIndexes"] == ""

    play(opened, scenario)


def test_max_failed_indexes_ends_the_job(opened: Opened) -> None:
    """More failed indexes than allowed end the Job before the others have."""

    async def scenario(world: World) -> None:
        await world.job(
            "a",
            completionMode="Indexed",
            parallelism=3,
            completions=3,
            backoffLimitPerIndex=0,
            maxFailedIndexes=1,
        )
        pods = await world.until_pods(3)
        await world.fail(pods[0])
        await world.until_status(JOBS, "a", lambda s: s.get("failedIndexes") == "0")
        await world.fail(pods[2])
        status = await finished(world, "a", "Failed")

        assert reasons(status)["Failed"] == "MaxFailedIndexesExceeded"
        assert status["failedIndexes"] == "0,2"

    play(opened, scenario)


def test_fail_index_action_fails_the_index_at_once(opened: Opened) -> None:
    """A FailIndex rule does not wait for the index's limit."""

    async def scenario(world: World) -> None:
        rules = [{"action": "FailIndex", "onExitCodes": ON_42}]
        await world.job(
            "a",
            completionMode="Indexed",
            parallelism=2,
            completions=2,
            backoffLimitPerIndex=5,
            podFailurePolicy={"rules": rules},
        )
        pods = await world.until_pods(2)
        await world.fail(pods[0], exit_code=42)
        status = await world.until_status(JOBS, "a", lambda s: s.get("failedIndexes") == "0")

        assert not has(status, "FailureTarget")
        assert [index_of(pod) for pod in await world.until_pods(1)] == [1]

    play(opened, scenario)


def test_replacement_policy_failed_waits_for_the_end(opened: Opened) -> None:
    """With podReplacementPolicy Failed a pod being deleted is replaced when it has ended."""

    async def scenario(world: World) -> None:
        await world.job("a", podReplacementPolicy="Failed")
        (pod,) = await world.until_pods(1)
        await world.bind(pod, "node-1")
        await world.delete(PODS, pod["metadata"]["name"], grace_s=300)
        status = await world.until_status(JOBS, "a", lambda s: s.get("terminating") == 1)
        assert "failed" not in status
        await world.stays(lambda: names_of(world))

        await world.fail(pod)
        await world.until_pods(1)
        await world.until_status(JOBS, "a", lambda s: s.get("failed") == 1)

    play(opened, scenario)


async def names_of(world: World) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in await world.pods())


def test_replacement_policy_default_replaces_at_once(opened: Opened) -> None:
    """By default a pod being deleted counts as failed while it still ends."""

    async def scenario(world: World) -> None:
        await world.job("a", completionMode="Indexed", parallelism=1, completions=1)
        (pod,) = await world.until_pods(1)
        await world.bind(pod, "node-1")
        await world.delete(PODS, pod["metadata"]["name"], grace_s=300)
        status = await world.until_status(JOBS, "a", lambda s: s.get("failed") == 1)

        assert status["terminating"] == 1

    play(opened, scenario)


def test_success_policy_ends_the_job(opened: Opened) -> None:
    """The indexes a rule asks for are enough; the others are given up."""

    async def scenario(world: World) -> None:
        rules = [{"succeededIndexes": "0,2", "succeededCount": 1}]
        await world.job(
            "a",
            completionMode="Indexed",
            parallelism=3,
            completions=3,
            successPolicy={"rules": rules},
        )
        pods = await world.until_pods(3)
        await world.succeed(pods[2])
        status = await finished(world, "a", "Complete")

        assert reasons(status) == {
            "SuccessCriteriaMet": "SuccessPolicy",
            "Complete": "SuccessPolicy",
        }
        assert status["completedIndexes"] == "2"
        assert "failed" not in status
        await world.until_pods(0)

    play(opened, scenario)
