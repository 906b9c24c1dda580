"""The operator on a real control plane, as the ServiceAccount of the deploy files and no more."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.e2e.deploy.installed import Installed, deployment, rights_of
from tests.e2e.deploy.lives import (
    FLAGS,
    NATIVELY,
    OF_NODES,
    PART,
    STORIES,
    Life,
    live,
    live_natively,
    live_on,
)
from tests.e2e.deploy.scraping import READER, accounts, free_port, metrics_flags, until_answered

PARTS = ("operator", "scheduler")
NAMESPACE = "e2e"


def test_operator_has_the_rights_it_needs_and_no_others(installed: Installed) -> None:
    """No request of a life of jobs is refused, and every right granted is made use of."""
    life = Life(installed, NAMESPACE, (*STORIES, *OF_NODES))
    port, tokens = free_port(), accounts(installed)
    with installed.running(PART, FLAGS):
        asyncio.run(live(life))
    with installed.running(PART, [*FLAGS, *metrics_flags(port)]):
        asyncio.run(live_on(life))
        asyncio.run(until_answered(port, tokens[READER], 200))
    with installed.running(PART, [*FLAGS, NATIVELY]):
        asyncio.run(live_natively(life))
    uses = installed.uses(PART)
    asked = {use.right for use in uses}
    rights = rights_of(PART)

    assert sorted({str(use.right) for use in uses if not use.is_allowed}) == []
    assert sorted(map(str, rights - asked)) == []


@pytest.mark.parametrize("part", PARTS)
def test_rights_hold_no_danger(part: str) -> None:
    """No wildcard, no reading of secrets, nothing that would let a part give itself more rights.

    The operator makes secrets for jobs whose programs train together (ADR 88).
    """
    rights = rights_of(part)
    secrets = {r.verb for r in rights if r.resource.partition("/")[0] == "secrets"}

    assert not [r for r in rights if "*" in {r.verb, r.group, r.resource}]
    assert not [r for r in rights if r.verb in {"escalate", "bind", "impersonate"}]
    assert secrets == ({"create", "delete"} if part == PART else set())


@pytest.mark.parametrize("part", PARTS)
def test_pods_are_admitted_as_restricted(installed: Installed, part: str) -> None:
    """The namespace lets in restricted pods only, and the Deployments' are such."""
    template = deployment(part)["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
    good = {**pod, "metadata": {"name": "good", "namespace": "swell-system"}}
    bad = {**good, "spec": {**pod["spec"], "securityContext": {}}}
    create = ("create", "--dry-run=server", "-f", "-")

    assert installed.kubectl.run(*create, stdin=json.dumps(good)).exit_code == 0
    assert "restricted" in installed.kubectl.run(*create, stdin=json.dumps(bad)).stderr
