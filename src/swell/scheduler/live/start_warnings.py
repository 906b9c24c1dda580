"""Warns, once at the start, of what a cluster has that goes badly with this scheduler.

That is a kube-scheduler that serves the pods of the same name, and rules that set taints on devices
without their driver, which are not looked at.
"""

from __future__ import annotations

from typing import Final

from swell.api.core import Lease
from swell.api.kinds import DEVICE_TAINT_RULES, LEASES
from swell.api.meta import Key
from swell.api.times import parse_time
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import (
    ClusterError,
    ForbiddenError,
    NotFoundError,
    UnreachableError,
)
from swell.runtime.logs import get_logger

log = get_logger(__name__)

KUBE_SCHEDULER: Final = "default-scheduler"
LEASE: Final = Key("kube-system", "kube-scheduler")
_DURATION_S = 15  # the default of kube-scheduler


def rival_of(lease: Lease, now: float) -> str:
    """Returns who holds the lease, or an empty text if it was not renewed in time."""
    spec = lease.spec
    if not spec.renew_time or not spec.holder_identity:
        return ""
    ends = parse_time(spec.renew_time) + (spec.lease_duration_seconds or _DURATION_S)
    return spec.holder_identity if ends > now else ""


async def warn_of_rival(cluster: Cluster, names: tuple[str, ...], clock: Clock) -> None:
    """Log a warning if kube-scheduler serves one of these names, or if that cannot be seen."""
    if KUBE_SCHEDULER not in names:
        return
    try:
        holder = rival_of(await cluster.get(LEASES, LEASE), clock.now())
    except NotFoundError:
        return
    except (ForbiddenError, UnreachableError) as error:
        holder = f"not known: {error}"
    if holder:
        log.warning(
            "two schedulers must not serve one name: kube-scheduler has a lease",
            name=KUBE_SCHEDULER, lease=str(LEASE), holder=holder,
        )  # fmt: skip


async def warn_of_device_rules(cluster: Cluster) -> None:
    """Log a warning if the cluster serves DeviceTaintRules, whether there are any or not.

    Without the right to list them, or without an answer, it cannot be seen, and nothing is said.
    """
    try:
        await cluster.list(DEVICE_TAINT_RULES, limit=1)
    except ClusterError:
        return
    log.warning(
        "DeviceTaintRules are not looked at: have the driver of a device publish its taints",
        resource=str(DEVICE_TAINT_RULES),
    )
