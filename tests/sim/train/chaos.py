"""Many jobs of real processes under random disturbances: `python -m tests.sim.train.chaos`.

Processes are killed, also by twos and in the midst of a change, frozen for 5 s, resized twice in
a row, cut off in one direction, and have clocks that step. A run passes when all that train to the
end have the weights of an undisturbed process, every sample was used once, no two groups trained
at a time, and nothing stood still for 20 s. `--seed N` repeats one run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.unit.train.chaos import Chaos, undisturbed_weights

HANG_S = 20.0
EPOCHS = 16


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.train.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="repeat one run")
    chosen = parser.parse_args(argv)
    first, n_runs = (chosen.first, chosen.runs) if chosen.seed is None else (chosen.seed, 1)
    seeds = range(first, first + n_runs)
    undisturbed, begun = undisturbed_weights(EPOCHS), time.monotonic()
    kinds, n_broken, longest = Counter[str](), 0, 0.0
    for seed in seeds:
        done, paused, message = run_one(seed, undisturbed)
        kinds.update(done)
        longest = max(longest, paused)
        n_broken += bool(message)
        said = message or f"stood still for {paused:.1f} s at most"
        sys.stdout.write(f"seed {seed}: {', '.join(done)}: {said}\n")
        sys.stdout.flush()
    summary = {
        "runs": len(seeds),
        "broken": n_broken,
        "disturbances": dict(sorted(kinds.items())),
        "longest stand in s": round(longest, 1),
        "seconds": round(time.monotonic() - begun, 1),
        "passed": not n_broken,
    }
    sys.stdout.write(json.dumps(summary) + "\n")
    return int(bool(n_broken))


def run_one(seed: int, undisturbed: np.ndarray) -> tuple[list[str], float, str]:
    """The disturbances of a seed, the longest stand after them, and the rule that was broken."""
    folder, paused, message = Path(tempfile.mkdtemp(prefix="swell-chaos-")), 0.0, ""
    chaos = Chaos(folder / "job", seed, epochs=EPOCHS)
    try:
        paused = chaos.run(HANG_S)
        chaos.check(undisturbed)
    except AssertionError as broken:
        message = f"BROKEN {broken}"
    finally:
        chaos.close()
        shutil.rmtree(folder)
    return chaos.done, paused, message


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
