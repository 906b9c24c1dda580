"""`python -m tests.e2e.faults --times 5`: each plan so often, and how many runs went well.

A run on real time is not the same twice, so a rate is told; the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.e2e.faults.plans import NO_FAULTS, PLANS
from tests.e2e.faults.stage import Result, play_pause, play_plans
from tests.testbed.control_plane import running_control_plane


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.faults", description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    n_times = parser.parse_args().times
    well: Counter[str] = Counter()
    struck: Counter[str] = Counter()
    for _ in range(n_times):
        results = _once()
        expected = results[NO_FAULTS.name].end_state
        for name, result in results.items():
            is_well = not result.failures and not result.violations
            well[name] += is_well and result.end_state == expected
            struck.update(text.partition(" at ")[0] for text in result.struck)
            for reported in (*result.violations, *map(str, result.failures.values())):
                sys.stdout.write(f"{name}: {reported}\n")
    for name in (NO_FAULTS.name, *(plan.name for plan in PLANS), "paused"):
        sys.stdout.write(f"{name:<10} {well[name]} of {n_times} runs went well\n")
    figures = {"runs": n_times, "well": dict(well), "faults": dict(struck)}
    sys.stdout.write(json.dumps(figures) + "\n")
    return int(any(count < n_times for count in well.values()))


def _once() -> dict[str, Result]:
    with running_control_plane() as plane, tempfile.TemporaryDirectory() as folder:
        results = play_plans(plane, Path(folder), (NO_FAULTS, *PLANS))
        paused, late = play_pause(plane, Path(folder))
    paused.violations += [f"K1 {write.asked} after its lease ran out" for write in late]
    return {**results, "paused": paused}


if __name__ == "__main__":
    sys.exit(main())
