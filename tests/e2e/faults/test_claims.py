"""Gangs with claims on a real kube-apiserver, whose scheduler ends before or after every write.

They end as they do without faults, and no pod has a node before all claims of its gang are ready:
so no gang is left with some of its pods bound. `SWELL_CLAIM_SITES=n` tries only the first n writes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.faults.claim_stage import WAYS, Run, claim_stage, play_every_write
from tests.e2e.faults.claim_worlds import STORIES, ClaimStory
from tests.testbed.control_plane import CONTROLLERS, ControlPlane, running_control_plane

_N_SITES = int(os.environ.get("SWELL_CLAIM_SITES", "0"))
_OF_CLAIMS = (
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "resourceclaim-controller",
)
# Status and conditions may be written more or less often than in the run without faults, and what
# has failed is not tried anew in the same order.
_CERTAIN = (
    "persistentvolumes",
    "persistentvolumeclaims",
    "resourceclaims",
    "resourceclaims/status",
    "pods/binding",
)


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    with running_control_plane(controllers=(*CONTROLLERS, *_OF_CLAIMS)) as plane:
        yield plane


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_scheduler_may_end_at_every_write(
    story: ClaimStory, plane: ControlPlane, tmp_path: Path
) -> None:
    """Every claim and binding is met in three ways, and all ends as without faults."""

    async def main() -> tuple[Run, list[Run]]:
        async with claim_stage(plane, tmp_path) as stage:
            return await play_every_write(stage, story, _N_SITES)

    calm, runs = asyncio.run(main())

    assert calm.violations == []
    assert sum(calm.end_state["pods"].values()) == story.size
    assert [(run.fault, run.violations) for run in runs if run.violations] == []
    differ = [(run.fault, run.end_state) for run in runs if run.end_state != calm.end_state]
    assert differ == []
    certain = [run for run in runs if run.rule and run.rule.what in _CERTAIN and run.rule.nth == 1]
    assert [run.fault for run in certain if not run.struck] == []
    # A claim and a binding for each pod.
    assert _N_SITES or len(certain) >= len(WAYS) * 2 * story.size
