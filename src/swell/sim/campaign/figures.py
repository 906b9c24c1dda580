"""Sums over the runs of a campaign, printed as a table and as one line of JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, TextIO

from swell.sim.campaign.search import Kill
from swell.sim.campaign.trial import TrialResult

_FAILURES_SHOWN = 20


class FailedRun(NamedTuple):
    """A run that broke a rule, and whether its faults were drawn from its seed."""

    result: TrialResult
    is_drawn: bool


@dataclass(slots=True)
class CampaignFigures:
    """The sums of a campaign so far."""

    seeds: Counter[str] = field(default_factory=Counter)  # by subject, as all counters below
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_s: float = 0.0  # of the runs from seeds
    jobs: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    extra_runs: Counter[str] = field(default_factory=Counter)  # by way of searching
    virtual_s: float = 0.0
    crashes: int = 0
    evaluations: int = 0
    commits: int = 0
    drawn: Counter[str] = field(default_factory=Counter)
    hit: Counter[str] = field(default_factory=Counter)
    failures: list[FailedRun] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    deterministic: bool = False

    def add(self, result: TrialResult) -> None:
        """Add a run from a seed."""
        self.seeds[result.subject] += 1
        self.jobs[result.subject] += result.n_submitted
        self.calls[result.subject] += result.calls
        self._add(result, is_drawn=True)

    def add_extra(self, search: str, result: TrialResult) -> None:
        """Add a run of another kind of search."""
        self.extra_runs[search] += 1
        self._add(result, is_drawn=False)

    def _add(self, result: TrialResult, *, is_drawn: bool) -> None:
        self.virtual_s += result.virtual_s
        self.crashes += result.crashes
        self.evaluations += result.evaluations
        self.commits += result.commits
        self.drawn.update(fault.kind for fault in result.faults)
        self.hit.update(result.hits)
        if result.violations:
            self.failures.append(FailedRun(result, is_drawn))

    def add_time(self, subject: str, seconds: float) -> None:
        self.seconds[subject] = seconds

    def add_hunt(self, mutant: str, kill: Kill | None) -> None:
        if kill is None:
            self.survivors.append(mutant)
        else:
            self.kills.append(kill)

    @property
    def passed(self) -> bool:
        return not self.failures and not self.survivors and self.deterministic

    def report(self) -> dict[str, object]:
        n_seeds = sum(self.seeds.values())
        return {
            "passed": self.passed,
            "seeds": n_seeds,
            "seeds_per_s": round(n_seeds / max(sum(self.seconds.values()), 1e-9), 1),
            # Unlike wall time, cpu time does not depend on the load of the machine.
            "seeds_per_cpu_s": round(n_seeds / max(self.cpu_s, 1e-9), 1),
            "seeds_by_subject": dict(self.seeds),
            "seeds_per_s_by_subject": {
                s: round(self.seeds[s] / t, 1) for s, t in self.seconds.items()
            },
            "virtual_hours": round(self.virtual_s / 3600, 1),
            "systematic_runs": self.extra_runs["every write"],
            "differential_runs": self.extra_runs["compared"],
            "crashes": self.crashes,
            "commits": self.commits,
            "invariant_evaluations": self.evaluations,
            "violations": sum(len(failed.result.violations) for failed in self.failures),
            # The rule of three: if none of N runs failed, the failure rate is below 3/N with 95 %
            # confidence.
            "failure_rate_below": round(3 / n_seeds, 6) if n_seeds and not self.failures else None,
            "mutants_killed": f"{len(self.kills)} of {len(self.kills) + len(self.survivors)}",
            "seeds_to_kill": {kill.mutant: kill.seeds for kill in self.kills},
            "mutants_survived": self.survivors,
            "api_calls_per_job": {s: round(self.calls[s] / n, 1) for s, n in self.jobs.items()},
            "deterministic": self.deterministic,
            "faults_drawn": dict(sorted(self.drawn.items())),
            "faults_hit": dict(sorted(self.hit.items())),
        }


def replay_command(result: TrialResult, module: str) -> str:
    """The command that repeats a run from a seed, also when scenarios have been added since."""
    names = f'--subject "{result.subject}" --scenario "{result.scenario}"'
    return f"python -m {module} {names} --seed {result.seed}"


def print_report(figures: CampaignFigures, module: str, out: TextIO) -> None:
    """Write what a campaign of this module found, and how to run again what failed."""
    out.write(f"{'fault':32}{'drawn':>9}{'hit':>9}\n")
    for kind in sorted(figures.drawn):
        out.write(f"{kind:32}{figures.drawn[kind]:9}{figures.hit[kind]:9}\n")
    for kill in figures.kills:
        out.write(f"planted bug found: {kill.mutant}, seeds {kill.seeds}, by: {kill.invariant}\n")
    for name in figures.survivors:
        out.write(f"PLANTED BUG NOT FOUND: {name}\n")
    for result, is_drawn in figures.failures[:_FAILURES_SHOWN]:
        out.write(f"FAILED: {result.subject}, scenario {result.scenario}, seed {result.seed}\n")
        if is_drawn:
            out.write(f"  again: {replay_command(result, module)}\n")
        for violation in result.violations:
            out.write(f"  {violation}\n")
    report = figures.report()
    for name, value in report.items():
        if not name.startswith("faults_"):
            out.write(f"{name.replace('_', ' ')}: {value}\n")
    out.write(json.dumps(report) + "\n")
