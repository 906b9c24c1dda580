"""The operator for one namespace, with rights in that namespace and nowhere else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import yaml

from tests.e2e.deploy.installed import DEPLOY, Installed
from tests.e2e.deploy.lives import (
    FLAGS,
    NATIVELY,
    PART,
    STORIES,
    Life,
    live,
    live_natively,
    live_on,
)
from tests.e2e.deploy.rights import granted

NAMESPACE = "swell-jobs"


def test_operator_of_one_namespace_needs_no_other_rights(installed: Installed) -> None:
    """No request is refused, every right is made use of, and all of them end at the namespace."""
    here = replace(installed, namespace=NAMESPACE)
    rendered = here.kubectl.ok("kustomize", str(DEPLOY / "namespaced"))
    documents = list(yaml.safe_load_all(rendered))
    here.kubectl.ok("create", "namespace", NAMESPACE)
    here.kubectl.ok("apply", "-f", "-", stdin=rendered)
    (program,) = [one for one in documents if one["kind"] == "Deployment"]
    life = Life(here, NAMESPACE, STORIES)
    with here.run(program, PART, FLAGS):
        asyncio.run(live(life))
    with here.run(program, PART, FLAGS):
        asyncio.run(live_on(life))
    with here.run(program, PART, [*FLAGS, NATIVELY]):
        asyncio.run(live_natively(life))
    uses = here.uses(PART)

    assert not [one["kind"] for one in documents if one["kind"].startswith("Cluster")]
    assert sorted({str(use.right) for use in uses if not use.is_allowed}) == []
    assert sorted(map(str, granted(rendered) - {use.right for use in uses})) == []
