"""The scheduler as a subject of the simulator, with the operator, both under faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from swell.api.meta import Key
from swell.cluster.embedded.builtin.devices import DEVICES
from swell.cluster.embedded.builtin.podgroups import GATES
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.settings import NATIVE_GANGS
from swell.scheduler.config import DEFAULT, Arguments, PluginOption
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.settings import SchedulerSettings
from swell.sim.leadership import in_pair, lead
from swell.sim.process import Main, Ports
from swell.sim.scenario import SimulationSubject
from tests.sim.operator.subject import Flaw as OperatorFlaw
from tests.sim.operator.subject import run_operator
from tests.sim.scheduler.device_rules import device_liveness, device_safety
from tests.sim.scheduler.disturbances import FRAGILE, make_fragile, scheduler_disturbances
from tests.sim.scheduler.eviction_rules import DECIDED, DecidedEvictions
from tests.sim.scheduler.liveness import end_state, liveness, next_admission_change_s
from tests.sim.scheduler.native_rules import native_safety
from tests.sim.scheduler.observation import SCHEDULER
from tests.sim.scheduler.rules import safety
from tests.sim.scheduler.scenarios import (
    IN_A_TREE,
    IN_DOMAINS,
    IN_STORAGE,
    SCENARIOS,
    WITH_DEVICES,
    WITH_NATIVE_GROUPS,
    WITH_SAVERS,
)
from tests.sim.undecodable import HalfBlindCluster

OPERATOR = "operator"
# No device is tainted here.
SETTINGS = AITrainingJobSettings(workers=2, gpu_fault_after_s=0, gpu_fault_device_taints=())
LEASES = {SCHEDULER: Key("default", "swell-scheduler"), OPERATOR: Key("default", "swell-operator")}
# Limits hold at every level of the tree, and leaves take back from each other.
TREE = SchedulerSettings(
    config=replace(
        DEFAULT,
        tiers=(
            tuple(
                PluginOption("capacity", {"enableHierarchy": True}) if o.name == "proportion" else o
                for o in DEFAULT.tiers[0]
            ),
            DEFAULT.tiers[1],
        ),
    )
)
# Volumes and devices have a minute to be there, so that a run sees some that are not.
HURRIED = SchedulerSettings(
    config=replace(
        DEFAULT,
        tiers=tuple(
            tuple(
                replace(o, arguments=Arguments({"volumebinding.bindTimeoutSeconds": 60}))
                if o.name == "predicates"
                else o
                for o in tier
            )
            for tier in DEFAULT.tiers
        ),
    )
)
IN_PAIR = frozenset({"bind", "oust", "recreate", "preempt"})

# Plants a bug in a scheduler that has been put together and does not run yet.
Flaw = Callable[[Scheduler], None]


def scheduler_subject(flaw: Flaw | None = None) -> SimulationSubject:
    async def schedule(ports: Ports) -> None:
        await run_scheduler(ports, flaw)

    return _subject({OPERATOR: operate, SCHEDULER: schedule})


def scheduler_pair(flaw: Flaw | None = None, *, guarded: bool = True) -> SimulationSubject:
    """Two of each, of which one leads."""

    async def operate_leading(ports: Ports) -> None:
        await lead(ports, LEASES[OPERATOR], operate)

    async def schedule_leading(ports: Ports) -> None:
        def work(own: Ports) -> Awaitable[None]:
            return run_scheduler(own, flaw)

        await lead(ports, LEASES[SCHEDULER], work, guarded=guarded)

    subject = _subject({OPERATOR: operate_leading, SCHEDULER: schedule_leading})
    scenarios = tuple(scenario for scenario in SCENARIOS if scenario.name in IN_PAIR)
    return in_pair(replace(subject, scenarios=scenarios), LEASES[SCHEDULER])


def scheduler_tree(flaw: Flaw | None = None) -> SimulationSubject:
    """The scheduler with the plugin capacity and a tree of queues."""

    async def schedule(ports: Ports) -> None:
        await run_scheduler(ports, flaw, TREE)

    subject = _subject({OPERATOR: operate, SCHEDULER: schedule})
    return replace(subject, name=f"{SCHEDULER} tree", scenarios=IN_A_TREE)


def scheduler_domains(flaw: Flaw | None = None) -> SimulationSubject:
    """The scheduler on a network of racks and blocks."""

    async def schedule(ports: Ports) -> None:
        await run_scheduler(ports, flaw)

    subject = _subject({OPERATOR: operate, SCHEDULER: schedule})
    return replace(subject, name=f"{SCHEDULER} domains", scenarios=IN_DOMAINS)


def scheduler_savers(flaw: Flaw | None = None) -> SimulationSubject:
    """The scheduler with victims that save before they leave."""

    async def schedule(ports: Ports) -> None:
        await run_scheduler(ports, flaw)

    subject = _subject({OPERATOR: operate, SCHEDULER: schedule})
    return replace(subject, name=f"{SCHEDULER} savers", scenarios=WITH_SAVERS)


def scheduler_storage(flaw: Flaw | None = None) -> SimulationSubject:
    """The scheduler with gangs that need volumes."""

    async def schedule(ports: Ports) -> None:
        await run_scheduler(ports, flaw, HURRIED)

    subject = _subject({OPERATOR: operate, SCHEDULER: schedule})
    return replace(subject, name=f"{SCHEDULER} storage", scenarios=IN_STORAGE)


def scheduler_devices(flaw: Flaw | None = None) -> SimulationSubject:
    """The scheduler with gangs that need devices."""

    async def schedule(ports: Ports) -> None:
        await run_scheduler(ports, flaw, HURRIED)

    subject = _subject({OPERATOR: operate, SCHEDULER: schedule})
    return replace(
        subject,
        name=f"{SCHEDULER} devices",
        scenarios=WITH_DEVICES,
        safety=device_safety,
        liveness=device_liveness,
        gates=frozenset({DEVICES}),
    )


def scheduler_native(
    operator_flaw: OperatorFlaw | None = None, flaw: Flaw | None = None
) -> SimulationSubject:
    """The scheduler and an operator that writes groups of Kubernetes, on a server that has them."""
    settings = replace(SETTINGS, gang_api=NATIVE_GANGS)

    async def operate_natively(ports: Ports) -> None:
        await run_operator(ports, settings, operator_flaw)

    async def schedule(ports: Ports) -> None:
        await run_scheduler(ports, flaw)

    subject = _subject({OPERATOR: operate_natively, SCHEDULER: schedule})
    return replace(
        subject,
        name=f"{SCHEDULER} native",
        scenarios=WITH_NATIVE_GROUPS,
        safety=native_safety,
        gates=frozenset(GATES),
    )


async def operate(ports: Ports) -> None:
    await run_operator(ports, SETTINGS)


async def run_scheduler(
    ports: Ports,
    flaw: Flaw | None = None,
    settings: SchedulerSettings = SchedulerSettings(),  # noqa: B008
) -> None:
    cluster = HalfBlindCluster(ports.cluster)
    scheduler = Scheduler(cluster, settings, clock=ports.clock, random=ports.random)
    if flaw is not None:
        flaw(scheduler)
    ports.exposed[DECIDED] = DecidedEvictions(scheduler)
    ports.exposed[FRAGILE] = make_fragile(scheduler)
    ports.exposed[SCHEDULER] = scheduler
    ports.exposed.update({str(one.resource): one for one in scheduler.informers.every})
    await asyncio.gather(*(service.run() for service in scheduler.services))


def _subject(components: dict[str, Main]) -> SimulationSubject:
    return SimulationSubject(
        name=SCHEDULER,
        components=components,
        scenarios=SCENARIOS,
        safety=safety,
        liveness=liveness,
        end_state=end_state,
        disturbances=scheduler_disturbances,
        calls_per_min_max=2500,
        next_due_s=next_admission_change_s,
    )
