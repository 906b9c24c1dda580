"""Many jobs of real processes under random disturbances: `python -m tests.sim.train.chaos`.

Processes are killed, also by twos and in the midst of a change, frozen for 5 s, resized twice in
a row, cut off in one direction, and have clocks that step. A run passes when all that train to the
end have the weights of an undisturbed process, every sample was used once, no two groups trained
at a time, and nothing stood still for 20 s. `--seed N` repeats one run; `--workers N` does so many
at once, each on a network of its own. Of many runs every kind of disturbance has to occur.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.unit.train.chaos import DISTURBANCES, Chaos, undisturbed_weights

HANG_S = 20.0
EPOCHS = 16
# Fewer runs need not have had every kind of disturbance.
MANY = 40


class Outcome(NamedTuple):
    """What was done in a run, the longest stand after it, and the rule that was broken."""

    seed: int
    done: list[str]
    paused_s: float
    message: str


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.train.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="repeat one run")
    parser.add_argument("--workers", type=int, default=1, help="so many runs at once")
    chosen = parser.parse_args(argv)
    first, n_runs = (chosen.first, chosen.runs) if chosen.seed is None else (chosen.seed, 1)
    begun = time.monotonic()
    kinds, n_broken, longest_s = Counter[str](), 0, 0.0
    for outcome in outcomes(range(first, first + n_runs), chosen.workers):
        kinds.update(outcome.done)
        longest_s = max(longest_s, outcome.paused_s)
        n_broken += bool(outcome.message)
        said = outcome.message or f"stood still for {outcome.paused_s:.1f} s at most"
        sys.stdout.write(f"seed {outcome.seed}: {', '.join(outcome.done)}: {said}\n")
        sys.stdout.flush()
    missed = [kind for kind in DISTURBANCES if not kinds[kind]] if n_runs >= MANY else []
    summary = {
        "runs": n_runs,
        "broken": n_broken,
        "disturbances": dict(sorted(kinds.items())),
        "disturbances that never occurred": missed,
        "longest stand in s": round(longest_s, 1),
        "seconds": round(time.monotonic() - begun, 1),
        "passed": not n_broken and not missed,
    }
    sys.stdout.write(json.dumps(summary) + "\n")
    return int(not summary["passed"])


def outcomes(seeds: range, n_workers: int) -> Iterator[Outcome]:
    """All runs, as they end."""
    undisturbed = undisturbed_weights(EPOCHS)
    # The network of a run follows from the number of its process: each run has one of its own.
    context = get_context("spawn")
    with ProcessPoolExecutor(n_workers, context, max_tasks_per_child=1) as pool:
        for ended in as_completed([pool.submit(run_one, seed, undisturbed) for seed in seeds]):
            yield ended.result()


def run_one(seed: int, undisturbed: np.ndarray) -> Outcome:
    folder, paused_s, message = Path(tempfile.mkdtemp(prefix="swell-chaos-")), 0.0, ""
    chaos = Chaos(folder / "job", seed, epochs=EPOCHS)
    try:
        paused_s = chaos.run(HANG_S)
        chaos.check(undisturbed)
    except AssertionError as broken:
        message = f"BROKEN {broken}"
    finally:
        chaos.close()
        shutil.rmtree(folder)
    return Outcome(seed, chaos.done, paused_s, message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
