"""How a failed pod counts by podFailurePolicy."""

from __future__ import annotations

import pytest

from swell.api.codec import convert
from swell.api.meta import Body
from swell.api.workloads import PodFailurePolicy
from swell.cluster.embedded.controllers.job.failurepolicy import FailureAction, failure_outcome
from tests.unit.cluster.embedded.controllers.builders import a_job_pod, exited


def policy(*rules: Body) -> PodFailurePolicy:
    return convert({"rules": list(rules)}, PodFailurePolicy)


def codes(action: str, operator: str, *values: int, container: str | None = None) -> Body:
    requirement: Body = {"operator": operator, "values": list(values)}
    if container:
        requirement["containerName"] = container
    return {"action": action, "onExitCodes": requirement}


@pytest.mark.parametrize(
    ("rule", "action"),
    [
        (codes("Ignore", "In", 1, 42), FailureAction.IGNORE),
        (codes("Ignore", "NotIn", 1, 2), FailureAction.IGNORE),
        (codes("Ignore", "In", 1), FailureAction.COUNT),
        (codes("Ignore", "NotIn", 42), FailureAction.COUNT),
        (codes("FailIndex", "In", 42, container="main"), FailureAction.FAIL_INDEX),
        (codes("FailJob", "In", 42, container="other"), FailureAction.COUNT),
        (codes("Unheard", "In", 42), FailureAction.COUNT),
    ],
)
def test_exit_codes(rule: Body, action: FailureAction) -> None:
    """A rule applies by the exit code of the container it names, or of any."""
    pod = a_job_pod("p", "Failed", status={"containerStatuses": [exited(42)]})

    assert failure_outcome(policy(rule), pod).action is action


def test_success_of_a_container_matches_nothing() -> None:
    """Exit code 0 is not a failure, not even for NotIn."""
    pod = a_job_pod("p", "Failed", status={"containerStatuses": [exited(0)]})

    assert failure_outcome(policy(codes("Ignore", "NotIn", 5)), pod).action is FailureAction.COUNT


def test_init_containers_count_too() -> None:
    """The exit code of an init container counts too."""
    pod = a_job_pod("p", "Failed", status={"initContainerStatuses": [exited(42, name="init")]})

    assert failure_outcome(policy(codes("FailJob", "In", 42)), pod).action is FailureAction.FAIL_JOB


@pytest.mark.parametrize(("status", "ignored"), [("True", True), ("False", False)])
def test_conditions(status: str, ignored: bool) -> None:
    """A condition matches by type and status, which is True by default."""
    conditions = [{"type": "DisruptionTarget", "status": status}]
    rule: Body = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    pod = a_job_pod("p", "Failed", status={"conditions": conditions})

    assert failure_outcome(policy(rule), pod).is_counted is not ignored


def test_first_match_decides_and_says_why() -> None:
    """The first matching rule decides; the message names pod, container, code and rule."""
    rules = codes("Count", "In", 7), codes("FailJob", "In", 42), codes("Ignore", "In", 42)
    pod = a_job_pod("p", "Failed", status={"containerStatuses": [exited(42)]})
    outcome = failure_outcome(policy(*rules), pod)

    assert outcome.action is FailureAction.FAIL_JOB
    for word in ("main", "default/p", "42", "rule 1"):
        assert word in outcome.message


def test_no_policy_counts() -> None:
    """Without a policy every failure counts."""
    assert failure_outcome(None, a_job_pod("p", "Failed")).is_counted
