"""Run every bench module, or those named, and print a table and then one line of JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import signal
import sys
from types import FrameType

import bench


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="modules to run; all of them by default")
    for number in _ENDS:
        signal.signal(number, _end)
    names = parser.parse_args().names or sorted(
        module.name for module in pkgutil.iter_modules(bench.__path__) if module.name[0] != "_"
    )
    figures: dict[str, dict[str, object]] = {}
    for name in names:
        module = importlib.import_module(f"bench.{name}")
        if not hasattr(module, "run"):
            continue
        print(f"\n{name}")
        figures[name] = module.run()
        for label, value in figures[name].items():
            print(f"  {label:<44} {_shown(value):>14}")
        sys.stdout.flush()
    print()
    print(json.dumps(figures))
    return 0


# A module ends what it started when it is left by an exception, which these would not be.
_ENDS = (signal.SIGTERM, signal.SIGHUP)


def _end(number: int, _frame: FrameType | None) -> None:
    for one in (*_ENDS, signal.SIGINT):
        signal.signal(one, signal.SIG_IGN)  # a second signal must not interrupt the ending
    raise SystemExit(128 + number)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}" if abs(value) < 1 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
