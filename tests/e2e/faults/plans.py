"""The jobs that are tried, and the faults that meet them. Each write site meets each fault."""

from __future__ import annotations

from dataclasses import dataclass

from swell.api.meta import Body
from tests.e2e.faults.proxy import Fault, Rule
from tests.e2e.operator.actions import deletes_job, ends, scales
from tests.e2e.operator.checks import becomes, nothing_is_left, pods_are, restarts, runs
from tests.e2e.operator.jobs import job, pods
from tests.e2e.operator.scenario import Scenario, scenario

ELASTIC: Body = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 3}

# fmt: off
STORIES: tuple[Scenario, ...] = (
    scenario("succeeds", job({"a": pods(2)}),
          runs(), ends("a-0", "a-1"), becomes("Succeed"), pods_are()),
    scenario("keeps", job({"a": pods(2, completePolicy="Rank0")}, cleanPodPolicy="None"),
          runs(), ends("a-0"), becomes("Succeed"), pods_are("a-0", "a-1")),
    scenario("restarts", job({"a": pods(2, restartPolicy="Always", restartLimit=1)}),
          runs(), ends("a-0", code=1), restarts("a-0", "a-1"), ends("a-0", code=1),
          becomes("Failed"), pods_are()),
    scenario("resizes", job({"a": pods(2, **ELASTIC)}),
          runs(), scales("a", 3), pods_are("a-0", "a-1", "a-2"),
          scales("a", 1), pods_are("a-0"), deletes_job(), nothing_is_left()),
)

# Writes of every kind that a life of these jobs is made of: verb, what, whose, which.
SITES: tuple[tuple[str, str, str, int], ...] = (
    ("PATCH", "aitrainingjobs", "succeeds", 1),  # the finalizer
    ("PUT", "aitrainingjobs/status", "succeeds", 1),  # the first
    ("PATCH", "aitrainingjobs/status", "succeeds", 2),
    ("DRY", "pods", "succeeds", 1),
    ("POST", "configmaps", "succeeds", 1),
    ("POST", "podgroups", "keeps", 1),
    ("POST", "services", "keeps", 2),
    ("POST", "pods", "keeps", 2),
    ("PATCH", "aitrainingjobs/status", "keeps", 2),
    ("PATCH", "aitrainingjobs/status", "restarts", 3),
    ("DELETE", "pods", "restarts", 1),
    ("POST", "pods", "restarts", 4),
    ("PATCH", "aitrainingjobs/status", "resizes", 2),
    ("PATCH", "configmaps", "resizes", 1),
    ("POST", "pods", "resizes", 3),
    ("DELETE", "pods", "resizes", 1),
    ("DELETE", "services", "resizes", 1),
    ("DELETE", "podgroups", "resizes", 1),
    ("PATCH", "aitrainingjobs", "resizes", 2),  # the finalizer goes
)
KILLED_AT = (
    ("PUT", "aitrainingjobs/status", "succeeds", 1),
    ("POST", "pods", "keeps", 1),
    ("PATCH", "aitrainingjobs/status", "restarts", 3),
    ("DELETE", "pods", "restarts", 1),
    ("DELETE", "services", "resizes", 1),
)
FOLLOWED = ("aitrainingjobs", "pods", "services", "configmaps", "podgroups")
# fmt: on


@dataclass(frozen=True, slots=True)
class Plan:
    """`kills`: the operator is a process, and is killed while a reply is held."""

    name: str
    rules: tuple[Rule, ...] = ()
    kills: bool = False

    @property
    def n_certain(self) -> int:
        """How many faults strike in every run: a later write of some sites may not be needed."""
        return len(self.rules) - len(self.rules) // 5

    @property
    def namespace(self) -> str:
        return f"faults-{self.name}"


def _at_sites(sites: tuple[tuple[str, str, str, int], ...], fault: Fault) -> tuple[Rule, ...]:
    return tuple(Rule(verb, what, nth, fault, name) for verb, what, name, nth in sites)


CUTS = tuple(Rule("EVENT", kind, nth, Fault.CUT) for kind in FOLLOWED for nth in (2, 5))
# A watch that was cut cannot be taken up again.
GONE = tuple(Rule("WATCH", kind, nth, Fault.GONE) for kind in FOLLOWED for nth in (2, 4))

NO_FAULTS = Plan("none")
PLANS = (
    Plan("conflict", _at_sites(SITES, Fault.CONFLICT)),
    Plan("error", _at_sites(SITES, Fault.ERROR)),
    Plan("lost", _at_sites(SITES, Fault.LOST)),
    Plan("cut", CUTS),
    Plan("gone", (*CUTS, *GONE)),
    Plan("killed", _at_sites(KILLED_AT, Fault.HELD), kills=True),
)
