"""Run every bench module, or those named, and print a table and then one line of JSON.

A figure of which something is asked is printed with its ratio to that, at least 1 where it is met.
The figures that miss what is asked are listed at the end.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import signal
import sys
from collections.abc import Mapping
from types import FrameType

import bench
from bench.budgets import Budget


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="modules to run; all of them by default")
    for number in _ENDS:
        signal.signal(number, _end)
    names = parser.parse_args().names or sorted(
        module.name for module in pkgutil.iter_modules(bench.__path__) if module.name[0] != "_"
    )
    figures: dict[str, dict[str, object]] = {}
    ratios: dict[str, dict[str, float]] = {}
    for name in names:
        module = importlib.import_module(f"bench.{name}")
        if not hasattr(module, "run"):
            continue
        print(f"\n{name}")
        found, asked = module.run(), getattr(module, "ASKED", {})
        figures[name], ratios[name] = found, ratios_of(found, asked)
        for label, value in found.items():
            ratio = ratios[name].get(label)
            against = "" if ratio is None else f"  asked {asked[label]}: ratio {ratio:.2f}"
            print(f"  {label:<60} {_shown(value):>14}{against}")
        sys.stdout.flush()
    _summarise(ratios)
    print()
    print(json.dumps({**figures, "ratios to what is asked": ratios}))
    return 0


# A module ends what it started when it is left by an exception, which these would not be.
_ENDS = (signal.SIGTERM, signal.SIGHUP)


def _end(number: int, _frame: FrameType | None) -> None:
    for one in (*_ENDS, signal.SIGINT):
        signal.signal(one, signal.SIG_IGN)  # a second signal must not interrupt the ending
    raise SystemExit(128 + number)


def ratios_of(found: Mapping[str, object], asked: Mapping[str, Budget]) -> dict[str, float]:
    """Return how far each figure is from what is asked of it, of those that were measured."""
    measured = {label: found.get(label) for label in asked}
    return {
        label: asked[label].ratio(value)
        for label, value in measured.items()
        if isinstance(value, int | float)
    }


def _summarise(ratios: Mapping[str, Mapping[str, float]]) -> None:
    every = [(name, label, ratio) for name, of in ratios.items() for label, ratio in of.items()]
    if not every:
        return
    missed = [one for one in every if one[2] < 1]
    print(f"\n{len(every) - len(missed)} of {len(every)} figures are as asked")
    for name, label, ratio in missed:
        print(f"  missed: {name}: {label}: ratio {ratio:.2f}")


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}" if abs(value) < 1 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
