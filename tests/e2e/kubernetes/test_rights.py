"""Everything that was played on the cluster, looked at for what Swell may do and what it did.

Runs after all other tests of this folder, and tells of all of them. That no right is without use is
held in `tests/e2e/deploy`, on a control plane that serves every kind behind a gate.
"""

from __future__ import annotations

import pytest

from tests.e2e.kubernetes.installed import DEPLOYMENTS
from tests.e2e.kubernetes.machine import RealMachine
from tests.e2e.kubernetes.recorder import uses


@pytest.mark.parametrize("account", DEPLOYMENTS)
def test_nothing_was_always_refused(machine: RealMachine, account: str) -> None:
    """The roles of the deploy files are enough: what was refused was let through at other times.

    A server that has just started knows no roles yet, and removing them overtakes who has them.
    """
    seen = uses(machine, account)
    allowed = {(use.right, use.namespace) for use in seen if use.is_allowed}
    refused = {(use.right, use.namespace) for use in seen if not use.is_allowed}

    assert sorted(f"{right} in {where or 'all'}" for right, where in refused - allowed) == []
