"""Many runs of the bus under faults, and their report: `python -m tests.sim.train.campaign`.

A campaign passes when no rule was broken, every kind of fault occurred, every planted bug was
found, and the same seeds gave the same runs again. `--seed N` tells one run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

import msgspec

from swell.sim.campaign.trial import shrink
from tests.sim.train.flaws import PLANTED, run_mutant
from tests.sim.train.story import ActionKind, Story, draw_story, write_story
from tests.sim.train.world import RunResult

STORIES = Path(__file__).parents[2] / "data" / "bus_stories"
# Of each planted bug as many seeds are tried.
MUTANT_SEEDS = 3000
_CHUNK = 50


def try_seed(seed: int) -> RunResult:
    return run_mutant("", draw_story(seed))


def find_mutant(name: str, seeds: range) -> tuple[int, RunResult] | None:
    """The first seed that shows a planted bug, and how many were tried."""
    for n_tried, seed in enumerate(seeds, 1):
        result = run_mutant(name, draw_story(seed))
        if result.broken:
            return n_tried, result
    return None


def search(seeds: range, n_workers: int) -> Iterator[RunResult]:
    if n_workers < 2 or len(seeds) < 2 * _CHUNK:
        yield from map(try_seed, seeds)
        return
    with ProcessPoolExecutor(n_workers, get_context("fork")) as pool:
        yield from pool.map(try_seed, seeds, chunksize=_CHUNK)


def digest(seeds: range) -> str:
    """A number of all that happens in some runs: equal wherever they are run."""
    found = sha256()
    for seed in seeds:
        found.update("\n".join(run_mutant("", draw_story(seed), keep=True).trace).encode())
    return found.hexdigest()


def shrunk(name: str, result: RunResult) -> Story:
    """The shortest story found that still breaks the same rule in a mutant, and in no other way.

    The correct bus survives it.
    """
    story, rule = result.story, result.broken[0].rule

    def shows(actions: Sequence[object]) -> bool:
        shorter = msgspec.structs.replace(story, actions=tuple(actions))
        return run_mutant(name, shorter).breaks(rule)

    least = tuple(shrink(story.actions, shows))
    return msgspec.structs.replace(story, actions=least, mutant=name, violates=rule)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.train.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="tell one run")
    parser.add_argument("--mutant", default="", help="with this planted bug")
    parser.add_argument("--store", action="store_true", help="write the stories of planted bugs")
    chosen = parser.parse_args(argv)
    if chosen.seed is not None:
        return tell(chosen.mutant, chosen.seed)
    begun = time.monotonic()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    failures, figures, hits = 0, Counter[str](), Counter[str]()
    for result in search(seeds, os.cpu_count() or 1):
        hits += result.hits
        figures["seeds"] += 1
        figures["steps"] += result.n_steps
        figures["plans"] += result.n_plans
        figures["checks"] += result.n_checks
        figures["virtual seconds"] += int(result.virtual_s)
        for broken in result.broken:
            failures += 1
            _print(f"seed {result.story.seed}: {broken.rule}: {broken.message} at {broken.at:.1f}")
    missed = [kind.value for kind in ActionKind if not hits[kind]]
    survivors = _kill_all(store=chosen.store)
    same = digest(range(5)) == digest(range(5))
    passed = not failures and not survivors and not missed and same
    summary = {
        **figures,
        "broken": failures,
        "faults": dict(sorted(hits.items())),
        "faults that never occurred": missed,
        "planted": len(PLANTED),
        "planted and not found": survivors,
        "deterministic": same,
        "seconds": round(time.monotonic() - begun, 1),
        "passed": passed,
    }
    _print(json.dumps(summary))
    return 0 if passed else 1


def _kill_all(*, store: bool) -> list[str]:
    """Look for every planted bug, and return those that no seed has shown."""
    survivors = []
    look = partial(find_mutant, seeds=range(MUTANT_SEEDS))
    with ProcessPoolExecutor(os.cpu_count(), get_context("fork")) as pool:
        for name, found in zip(PLANTED, pool.map(look, PLANTED), strict=True):
            if found is None:
                _print(f"planted: {name}: not found in {MUTANT_SEEDS} seeds")
                survivors.append(name)
                continue
            n_tried, result = found
            rule = result.broken[0].rule
            _print(f"planted: {name}: found after {n_tried} seeds, by {rule!r}")
            if store:
                STORIES.mkdir(exist_ok=True)
                write_story(STORIES / f"{name.replace(' ', '-')}.json", shrunk(name, result))
    return survivors


def tell(mutant: str, seed: int) -> int:
    result = run_mutant(mutant, draw_story(seed), keep=True)
    for line in result.trace:
        _print(line)
    for broken in result.broken:
        _print(f"broken: {broken.rule}: {broken.message}")
    return int(bool(result.broken))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
