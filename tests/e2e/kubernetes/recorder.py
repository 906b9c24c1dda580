"""What Swell asked of the API server from inside the cluster, by the server's audit log."""

from __future__ import annotations

from collections import Counter

from tests.e2e.deploy.rights import Right, Use, used
from tests.e2e.kubernetes.installed import DEPLOYMENTS, NAMESPACE
from tests.e2e.kubernetes.machine import RealMachine

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def uses(machine: RealMachine, account: str) -> list[Use]:
    """All requests of a service account until now, in order."""
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    return used(machine.cluster.site.audit_log, user)


def writes(machine: RealMachine) -> Counter[Right]:
    """How often operator and scheduler have changed what, but for their leases."""
    asked = (use.right for account in DEPLOYMENTS for use in uses(machine, account))
    return Counter(one for one in asked if one.verb in WRITES and one.resource != "leases")
