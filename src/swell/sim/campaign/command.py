"""The command line of a campaign: many runs, a report, and an exit code.

A campaign passes when no rule was violated, every planted bug was found, and the same seeds gave
the same runs in other processes. Each controller registers a `CampaignEntry`; this module knows
none.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TextIO

from swell.sim.campaign.figures import CampaignFigures, print_report
from swell.sim.campaign.search import (
    Kill,
    kills_by_pauses,
    kills_of,
    scenario_of,
    search_at_random,
    search_differences,
    search_in_parallel,
    search_writes_in_parallel,
)
from swell.sim.campaign.trial import TrialResult, replay, shrink_faults, try_seed
from swell.sim.faults.plan import FaultPlan, read_plan, write_plan
from swell.sim.scenario import Scenario, SimulationSubject

# Runs that are repeated in other processes, to check that they are deterministic.
DIGEST_SEEDS = 50
# Of each planted bug this many runs are shrunk, and the smallest plan is kept.
KILLS_SHRUNK = 4
COMPARED_ONE_IN = 4
# What no random seed has found is looked for with this many seeds of every scenario.
PAUSED_SEEDS = 4
HASH_SEEDS = ("1", "4242")


@dataclass(frozen=True, slots=True)
class CampaignEntry:
    """A subject and its planted bugs, which are the same subject with one flaw each."""

    subject: SimulationSubject
    mutants: Mapping[str, SimulationSubject] = field(default_factory=dict)
    share: float = 1.0  # of the seeds asked for
    whose_writes: str = ""  # the component whose writes are tried one by one; by default all
    core: frozenset[str] = frozenset()  # the scenarios for that; by default all

    def core_scenarios(self) -> Iterator[Scenario]:
        for scenario in self.subject.scenarios:
            if not self.core or scenario.name in self.core:
                yield scenario

    def seeds(self, first: int, n_seeds: int) -> range:
        return range(first, first + round(n_seeds * self.share))


# Another kind of test, run before a campaign: takes the number of specs, returns an exit code.
Sweep = Callable[[int, TextIO], int]


def main(
    entries: Sequence[CampaignEntry],
    module: str,
    argv: Sequence[str],
    out: TextIO,
    *,
    first: Sequence[Sweep] = (),
) -> int:
    """Run the command line.

    `module` runs the same entries in another process, with `python -m`. Sweeps run before a whole
    campaign.
    """
    options = _options(argv)
    entries = [e for e in entries if options.subject in ("", e.subject.name)]
    if options.digest:
        out.write(digest(entries, options.digest) + "\n")
        return 0
    if options.seed is not None:
        return _print_seed(entries, options, out)
    if options.plan:
        return _print_plan(entries, read_plan(options.plan), out)
    if options.record:
        return _record_plans(entries, options.mutant_seeds, options.record, out)
    code = 0
    for sweep in first:
        code |= sweep(options.specs, out)
        out.flush()
    return code | _run(entries, module, options, out)


def digest(entries: Sequence[CampaignEntry], n_seeds: int) -> str:
    """Returns one hash of many runs. If processes differ, a run depends on something outside."""
    total = sha256()
    for entry in entries:
        for result in search_at_random(entry.subject, entry.seeds(0, n_seeds)):
            total.update(result.digest.encode())
    return total.hexdigest()


def digests_elsewhere(module: str, n_seeds: int, subject: str = "") -> list[str]:
    """Returns the digests that processes with different hash seeds compute."""
    command = [sys.executable, "-m", module, "--digest", str(n_seeds), "--subject", subject]
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


def subject_of(entries: Sequence[CampaignEntry], plan: FaultPlan) -> SimulationSubject:
    """Returns the subject of a plan, with the planted bug if it has one."""
    entry = next(entry for entry in entries if entry.subject.name == plan.subject)
    return entry.mutants[plan.mutant] if plan.mutant else entry.subject


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Simulated faults, many seeds.")
    parser.add_argument("--seeds", type=int, default=2000, help="random runs per subject")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes to run seeds in"
    )
    parser.add_argument("--subject", default="", help="only the one of this name")
    parser.add_argument("--specs", type=int, default=5000, help="of every kind, to sweep")
    parser.add_argument("--seed", type=int, help="run this one and tell its story")
    parser.add_argument(
        "--scenario",
        default="",
        help="for --seed: of this name; by default the seed's turn, which moves with new scenarios",
    )
    parser.add_argument("--plan", type=Path, help="replay a written plan and tell its story")
    parser.add_argument("--mutant-seeds", type=int, default=1000, help="to find a planted bug in")
    parser.add_argument("--record", type=Path, help="write planted bugs' shrunk plans here")
    parser.add_argument("--digest", type=int, default=0, help="only print a hash of n runs")
    return parser.parse_args(argv)


def _run(
    entries: Sequence[CampaignEntry], module: str, options: argparse.Namespace, out: TextIO
) -> int:
    figures = CampaignFigures()
    for entry in entries:
        started_s, started_cpu_s = time.perf_counter(), sum(os.times()[:4])
        seeds = entry.seeds(options.first, options.seeds)
        for result in search_in_parallel(entry.subject, seeds, options.workers):
            figures.add(result)
        figures.cpu_s += sum(os.times()[:4]) - started_cpu_s  # workers included
        figures.add_time(entry.subject.name, time.perf_counter() - started_s)
        _print_progress(f"{entry.subject.name}: {len(seeds)} seeds", figures, out)
    for entry in entries:
        for scenario in entry.core_scenarios():
            for result in search_writes_in_parallel(
                entry.subject, scenario, options.first, entry.whose_writes, options.workers
            ):
                figures.add_extra("every write", result)
        n_compared = options.seeds // COMPARED_ONE_IN
        for result in search_differences(entry.subject, entry.seeds(options.first, n_compared)):
            figures.add_extra("compared", result)
        _print_progress(f"{entry.subject.name}: a fault at every write", figures, out)
    for name, mutant in _mutants(entries):
        figures.add_hunt(name, next(_hunt(mutant, name, options.mutant_seeds), None))
    figures.deterministic = len(set(digests_elsewhere(module, DIGEST_SEEDS, options.subject))) == 1
    print_report(figures, module, out)
    return 0 if figures.passed else 1


def _print_progress(done: str, figures: CampaignFigures, out: TextIO) -> None:
    out.write(f"{done}; so far {len(figures.failures)} failed runs\n")
    out.flush()


def _mutants(entries: Sequence[CampaignEntry]) -> Iterator[tuple[str, SimulationSubject]]:
    for entry in entries:
        yield from entry.mutants.items()


def _hunt(mutant: SimulationSubject, name: str, n_seeds: int) -> Iterator[Kill]:
    """Returns the runs that find a planted bug: at random first, then by pauses."""
    yield from kills_of(mutant, name, range(n_seeds))
    yield from kills_by_pauses(mutant, name, range(PAUSED_SEEDS))


def _print_seed(entries: Sequence[CampaignEntry], options: argparse.Namespace, out: TextIO) -> int:
    seed, results = options.seed, list[TrialResult]()
    for entry in entries:
        for scenario in _scenarios_of(entry.subject, seed, options.scenario):
            results.append(try_seed(entry.subject, scenario, seed, keep_trace=True))
    if not results:
        out.write(f"no scenario of these subjects is named {options.scenario}\n")
        return 2
    for result in results:
        _print_result(result, out)
    n_violations = sum(len(result.violations) for result in results)
    out.write(json.dumps({"seed": seed, "violations": n_violations}) + "\n")
    return 1 if n_violations else 0


def _scenarios_of(subject: SimulationSubject, seed: int, name: str) -> list[Scenario]:
    """The scenario whose turn the seed is, or the one of the name if the subject has it."""
    if not name:
        return [scenario_of(subject, seed)]
    return [scenario for scenario in subject.scenarios if scenario.name == name]


def _print_plan(entries: Sequence[CampaignEntry], plan: FaultPlan, out: TextIO) -> int:
    result = replay(subject_of(entries, plan), plan, keep_trace=True)
    _print_result(result, out)
    out.write(json.dumps({"seed": plan.seed, "violations": len(result.violations)}) + "\n")
    return 1 if result.violations else 0


def _print_result(result: TrialResult, out: TextIO) -> None:
    out.write(f"{result.subject}, scenario {result.scenario}, seed {result.seed}\n")
    for line in result.trace:
        out.write(line + "\n")
    for violation in result.violations:
        out.write(f"VIOLATED {violation}\n")


def _record_plans(entries: Sequence[CampaignEntry], n_seeds: int, folder: Path, out: TextIO) -> int:
    """Find each planted bug again, several times, and write the smallest plan that shows it."""
    n_survivors = 0
    for name, mutant in _mutants(entries):
        plans = [
            _shrunk_plan(mutant, kill)
            for kill in islice(_hunt(mutant, name, n_seeds), KILLS_SHRUNK)
        ]
        if not plans:
            n_survivors += 1
            out.write(f"{name}: survives {n_seeds} seeds\n")
            continue
        plan = min(plans, key=lambda plan: len(plan.faults))
        path = folder / f"{name.replace(' ', '-')}.json"
        write_plan(path, plan)
        out.write(f"{path.name}: {len(plan.faults)} faults\n")
    return 1 if n_survivors else 0


def _shrunk_plan(mutant: SimulationSubject, kill: Kill) -> FaultPlan:
    return FaultPlan(
        subject=mutant.name,
        scenario=kill.result.scenario,
        seed=kill.result.seed,
        mutant=kill.mutant,
        violates=kill.invariant,
        faults=shrink_faults(mutant, kill.result, kill.invariant),
    )
