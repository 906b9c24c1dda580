"""What `make sim` runs: every check whose worth is in its numbers, at full size.

The tests take a small sample of each on every change. Here each runs as a program of its own, one
after the other; its output is shown as it comes, and the last line is one JSON object with the
figures of all. `--seed N` replays a single simulated seed instead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.testbed import binaries

AUTOSCALER_LAWS = (
    "tests/property/test_autoscaler.py",
    "tests/property/test_autoscaler_limits.py",
)


@dataclass(frozen=True, slots=True)
class Check:
    """A program that ends with its figures, or one sentence about them, in its last line."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SampleSizes:
    """How large the samples are whose size the caller chooses."""

    seeds: int
    kills: int  # of a whole cluster under load
    soak_s: int  # of jobs at a steady rate


def checks(sizes: SampleSizes) -> tuple[Check, ...]:
    has_testbed = _has_testbed()
    compare = ("--compare",) if has_testbed else ()
    mutated = ("tests.contract.generated.compare", "--mutations", "2000", "--least", "0.97")
    spoilt = Check("spoilt kube-apiserver", ("tests.e2e.faults", "--times", "5"))
    devices = Check("devices", ("tests.e2e.scheduler.test_device_choices", "500"))
    volumes = Check("volumes", ("tests.e2e.scheduler.test_volume_choices", "500"))
    return (
        Check("simulation", ("tests.sim.campaign", "--seeds", str(sizes.seeds))),
        Check("agreement of members", ("tests.sim.train.campaign", "--seeds", "10000")),
        Check("training under chaos", ("tests.sim.train.chaos", "--runs", "100")),
        Check("store killed", ("tests.property.kill_store", "--times", "50")),
        Check("server killed", ("tests.contract.killing", "--kills", "20")),
        Check("cluster killed", ("tests.e2e.up.killing", "--rounds", str(sizes.kills))),
        Check("cluster under load", ("tests.e2e.up.soak", "--seconds", str(sizes.soak_s))),
        Check("hostile requests", ("tests.contract.hostile", "--requests", "20000", *compare)),
        Check("fuzzed inputs", ("tests.attack.fuzzing", "--inputs", "100000", "--each")),
        Check("quantities", ("tests.property.quantities", "--samples", "100000")),
        Check("scheduler equivalence", ("tests.property.test_scheduler_equivalence", "20000")),
        Check("autoscaler equivalence", ("pytest", *AUTOSCALER_LAWS)),
        *((spoilt, devices, volumes, Check("mutated behaviours", mutated)) if has_testbed else ()),
    )


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shown", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="of each simulated subject")
    parser.add_argument("--kills", type=int, default=20, help="of a whole cluster under load")
    parser.add_argument("--soak-s", type=int, default=60, help="seconds of jobs at a steady rate")
    parser.add_argument("--seed", type=int, help="replay one simulated seed")
    parser.add_argument("--subject", default="", help="with --seed: only of this subject")
    parser.add_argument("--scenario", default="", help="with --seed: in the scenario of this name")
    chosen = parser.parse_args(argv)
    if chosen.seed is not None:
        names = ["--subject", chosen.subject, "--scenario", chosen.scenario]
        campaign = [sys.executable, "-m", "tests.sim.campaign"]
        command = [*campaign, "--seed", str(chosen.seed), *names]
        return subprocess.run(command, check=False).returncode
    failed, figures = 0, dict[str, object]()
    for check in checks(SampleSizes(chosen.seeds, chosen.kills, chosen.soak_s)):
        code, figures[check.name] = run(check)
        failed |= code
    figures["passed"] = not failed
    sys.stdout.write(json.dumps(figures) + "\n")
    return int(bool(failed))


def run(check: Check) -> tuple[int, dict[str, object]]:
    """Run a check to its end; its exit code and what its last line says."""
    sys.stdout.write(f"\n== {check.name}\n")
    sys.stdout.flush()
    begun, last = time.monotonic(), ""
    environment = {**os.environ, "AUTOSCALER_CLUSTERS": "2000"}
    with subprocess.Popen(
        [sys.executable, "-m", *check.command], stdout=subprocess.PIPE, text=True, env=environment
    ) as program:
        assert program.stdout is not None
        for line in program.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            last = line.strip() or last
    took = round(time.monotonic() - begun, 1)
    return program.returncode, {**_figures(last), "seconds": took, "exit": program.returncode}


def _figures(last: str) -> dict[str, object]:
    try:
        found = json.loads(last)
    except ValueError:
        return {"says": last}
    return found if isinstance(found, dict) else {"says": last}


def _has_testbed() -> bool:
    try:
        binaries.require()
    except binaries.BinariesMissingError as missing:
        sys.stdout.write(f"{missing}\n")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
