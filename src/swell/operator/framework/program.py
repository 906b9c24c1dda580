"""An operator as a process runs it: the CRDs it needs, leader election, readiness.

A process runs one `operate` for each job kind, each with a lease of its own.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from random import Random

from swell.api.crds import crd
from swell.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, SHARED_GROUPS
from swell.api.meta import Body, Key
from swell.api.schemas.definitions import DEFINITIONS
from swell.operator.framework.controller import ACTOR, JobOperator
from swell.operator.framework.kind import (
    ControllerDependencies,
    InformersT,
    JobKindDefinition,
    JobT,
    SnapshotT,
)
from swell.operator.framework.report_client import ask_directly
from swell.operator.framework.report_inbox import ReportInbox
from swell.operator.framework.reports import FetchReport
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Patch, PatchKind, WriteOptions
from swell.runtime.errors import AlreadyExistsError
from swell.runtime.health import HealthChecks
from swell.runtime.leader import Election, run_if_elected
from swell.runtime.manager import run_services
from swell.runtime.metrics import Metrics

# A new kind is waited for during 30 s: 150 looks, one every 0.2 s.
_LOOK_S = 0.2
_LOOKS_MAX = 150


class NotEstablishedError(Exception):
    """A CustomResourceDefinition was accepted, but its kind is still not served."""


async def operate(
    kind: JobKindDefinition[JobT, SnapshotT, InformersT],
    cluster: Cluster,
    *,
    clock: Clock,
    random: Random,
    election: Election | None = None,
    metrics: Metrics | None = None,
    health: HealthChecks | None = None,
    inbox: ReportInbox | None = None,
    fetch_report: FetchReport = ask_directly,
) -> None:
    """Run one job kind's operator until cancelled; plans that have begun are then finished.

    With an election it works only while it leads, and raises LeadershipLostError after that.
    """
    meter = kind.meter(metrics.registry) if kind.meter and metrics else None

    async def work(cluster: Cluster) -> None:
        # Made here and not before: while it leads, a replica writes through a guarded cluster.
        dependencies = ControllerDependencies(
            cluster, clock, random, metrics, metrics, metrics, metrics, fetch_report=fetch_report
        )
        operator = JobOperator(kind, dependencies, meter)
        if health is not None:
            health.ready[kind.names.readiness] = operator.problem
        with inbox.open_to(operator.take_report) if inbox is not None else nullcontext():
            await run_services(operator.services, clock)

    await run_if_elected(cluster, work, election, clock=clock, random=random, metrics=metrics)


async def install_crds(cluster: Cluster, clock: Clock) -> None:
    """Create our CustomResourceDefinitions or update those there are, and wait until served.

    Those that we share with Volcano are left as they are where Volcano installed them.
    """
    for definition in DEFINITIONS:
        body = crd(definition)
        if definition.group in SHARED_GROUPS:
            with suppress(AlreadyExistsError):
                await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, body)
        else:
            await _apply(cluster, body)
    for definition in DEFINITIONS:
        await _wait_established(cluster, clock, Key("", crd(definition)["metadata"]["name"]))


async def _apply(cluster: Cluster, body: Body) -> None:
    """Create or update by server-side apply: annotations and fields of others stay theirs.

    Of fields that another manager has set, such as kubectl at an installation, it takes over those
    that are in the body: the program that runs needs the kinds of its own version.
    """
    key = Key("", body["metadata"]["name"])
    options = WriteOptions(field_manager=ACTOR, force=True)
    await cluster.patch(CUSTOM_RESOURCE_DEFINITIONS, key, Patch(PatchKind.APPLY, body), options)


async def _wait_established(cluster: Cluster, clock: Clock, key: Key) -> None:
    for _ in range(_LOOKS_MAX):
        if _is_established(await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, key)):
            return
        await clock.sleep(_LOOK_S)
    raise NotEstablishedError(key.name)


def _is_established(definition: Body) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
