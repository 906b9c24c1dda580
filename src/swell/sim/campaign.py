"""Many runs, and the figures they give. A campaign passes when nothing was violated, every
planted bug was found and the same seeds gave the same runs in another process.

Controllers register what they want tried (`Entry`); nothing here knows any of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from swell.sim.plan import FaultPlan, write_plan
from swell.sim.scenario import Subject
from swell.sim.search import Kill, hunt, scenario_of, search_at_random, search_every_write
from swell.sim.trial import Result, shrink_faults, try_seed

DIGEST_SEEDS = 50
HASH_SEEDS = ("1", "4242")


@dataclass(frozen=True, slots=True)
class Entry:
    """A subject, and its planted bugs: the same subject with one flaw each."""

    subject: Subject
    mutants: Mapping[str, Subject] = field(default_factory=dict)


@dataclass(slots=True)
class Figures:
    """Sums over the runs of a campaign."""

    runs: int = 0
    systematic_runs: int = 0
    virtual_s: float = 0.0
    crashes: int = 0
    evaluations: int = 0
    commits: int = 0
    calls: int = 0
    calls_by_scenario: Counter[str] = field(default_factory=Counter)
    runs_by_scenario: Counter[str] = field(default_factory=Counter)
    drawn: Counter[str] = field(default_factory=Counter)
    hit: Counter[str] = field(default_factory=Counter)
    failures: list[Result] = field(default_factory=list)

    def add(self, result: Result, *, systematic: bool = False) -> None:
        self.runs += 1
        self.systematic_runs += systematic
        self.virtual_s += result.virtual_s
        self.crashes += result.crashes
        self.evaluations += result.evaluations
        self.commits += result.commits
        self.calls += result.calls
        self.calls_by_scenario[result.scenario] += result.calls
        self.runs_by_scenario[result.scenario] += 1
        self.drawn.update(fault.kind for fault in result.faults)
        self.hit.update(result.hits)
        if result.violations:
            self.failures.append(result)


def main(entries: Sequence[Entry], module: str, argv: Sequence[str], out: TextIO) -> int:
    """The command line. `module` is what to run with -m for the same entries elsewhere."""
    options = _options(argv)
    if options.digest:
        out.write(digest(entries, options.digest) + "\n")
        return 0
    if options.seed is not None:
        return _tell_one(entries, options.seed, out)
    if options.record:
        return _record_plans(entries, options.mutant_seeds, options.record, out)
    return _run(entries, module, options, out)


def digest(entries: Sequence[Entry], n_seeds: int) -> str:
    """One hash of many runs: equal in every process, or something leaks in from outside."""
    total = sha256()
    for entry in entries:
        for result in search_at_random(entry.subject, range(n_seeds)):
            total.update(result.digest.encode())
    return total.hexdigest()


def digests_elsewhere(module: str, n_seeds: int) -> list[str]:
    """The digest as processes with other hash seeds compute it."""
    command = [sys.executable, "-m", module, "--digest", str(n_seeds)]
    return [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in HASH_SEEDS
    ]


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Simulated faults, many seeds.")
    parser.add_argument("--seeds", type=int, default=2000, help="random runs per subject")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one and tell its story")
    parser.add_argument("--mutant-seeds", type=int, default=1000, help="to find a planted bug in")
    parser.add_argument("--record", type=Path, help="write planted bugs' shrunk plans here")
    parser.add_argument("--digest", type=int, default=0, help="only print a hash of n runs")
    return parser.parse_args(argv)


def _run(entries: Sequence[Entry], module: str, options: argparse.Namespace, out: TextIO) -> int:
    started_s = time.perf_counter()
    figures = Figures()
    for entry in entries:
        seeds = range(options.first, options.first + options.seeds)
        for result in search_at_random(entry.subject, seeds):
            figures.add(result)
    random_s = time.perf_counter() - started_s
    n_random = figures.runs
    for entry in entries:
        for scenario in entry.subject.scenarios:
            for result in search_every_write(entry.subject, scenario, seed=options.first):
                figures.add(result, systematic=True)
    kills, survivors = _hunt_all(entries, options.mutant_seeds)
    same = len(set(digests_elsewhere(module, DIGEST_SEEDS))) == 1
    report = {
        "seeds": n_random,
        "seeds_per_s": round(n_random / random_s, 1),
        "systematic_runs": figures.systematic_runs,
        "virtual_hours": round(figures.virtual_s / 3600, 1),
        "faults_drawn": dict(sorted(figures.drawn.items())),
        "faults_hit": dict(sorted(figures.hit.items())),
        "crashes": figures.crashes,
        "invariant_evaluations": figures.evaluations,
        "commits": figures.commits,
        "api_calls_per_run": {
            name: round(calls / figures.runs_by_scenario[name], 1)
            for name, calls in sorted(figures.calls_by_scenario.items())
        },
        "violations": sum(len(result.violations) for result in figures.failures),
        "failure_rate_below": round(3 / n_random, 6) if not figures.failures else None,
        "mutants_killed": {kill.mutant: kill.seeds for kill in kills},
        "mutants_survived": survivors,
        "deterministic": same,
        "seconds": round(time.perf_counter() - started_s, 1),
    }
    _print_report(report, figures, kills, out)
    return 0 if not figures.failures and not survivors and same else 1


def _hunt_all(entries: Sequence[Entry], n_seeds: int) -> tuple[list[Kill], list[str]]:
    kills: list[Kill] = []
    survivors: list[str] = []
    for name, mutant in _mutants(entries):
        kill = hunt(mutant, name, range(n_seeds))
        if kill is None:
            survivors.append(name)
        else:
            kills.append(kill)
    return kills, survivors


def _mutants(entries: Sequence[Entry]) -> Iterator[tuple[str, Subject]]:
    for entry in entries:
        yield from entry.mutants.items()


def _print_report(
    report: Mapping[str, object], figures: Figures, kills: Sequence[Kill], out: TextIO
) -> None:
    out.write(f"{'fault':32}{'drawn':>9}{'hit':>9}\n")
    for kind in sorted(figures.drawn):
        out.write(f"{kind:32}{figures.drawn[kind]:9}{figures.hit[kind]:9}\n")
    for kill in kills:
        out.write(f"killed {kill.mutant!r} at seed {kill.seeds} by {kill.invariant}\n")
    for result in figures.failures:
        out.write(f"FAILED {result.scenario}, seed {result.seed}\n")
        for violation in result.violations:
            out.write(f"  {violation}\n")
    for name, value in report.items():
        if not isinstance(value, dict):
            out.write(f"{name.replace('_', ' ')}: {value}\n")
    out.write(json.dumps(report) + "\n")


def _tell_one(entries: Sequence[Entry], seed: int, out: TextIO) -> int:
    n_violations = 0
    for entry in entries:
        scenario = scenario_of(entry.subject, seed)
        result = try_seed(entry.subject, scenario, seed, keep_story=True)
        out.write(f"{entry.subject.name}, scenario {scenario.name}, seed {seed}\n")
        for line in result.story:
            out.write(line + "\n")
        for fault in result.faults:
            out.write(f"fault {fault.kind} at {fault.site} #{fault.nth} ({fault.amount:.3f})\n")
        for violation in result.violations:
            out.write(f"VIOLATED {violation}\n")
        n_violations += len(result.violations)
    out.write(json.dumps({"seed": seed, "violations": n_violations}) + "\n")
    return 1 if n_violations else 0


def _record_plans(entries: Sequence[Entry], n_seeds: int, folder: Path, out: TextIO) -> int:
    for name, mutant in _mutants(entries):
        kill = hunt(mutant, name, range(n_seeds))
        if kill is None:
            out.write(f"{name}: survives {n_seeds} seeds\n")
            continue
        faults = shrink_faults(mutant, kill.result, kill.invariant)
        plan = FaultPlan(
            subject=mutant.name,
            scenario=kill.result.scenario,
            seed=kill.result.seed,
            mutant=name,
            violates=kill.invariant,
            faults=faults,
        )
        path = folder / f"{name.replace(' ', '-')}.json"
        write_plan(path, plan)
        n_faults = len(kill.result.faults)
        out.write(f"{path.name}: {n_faults} faults shrunk to {len(faults)}\n")
    return 0
