"""Runs `python -m swell.cluster.embedded.http --home DIR [--port N]`: the API server alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from swell.cluster.embedded.http.credentials import PortError
from swell.cluster.embedded.http.serving import Served, serve
from swell.cluster.home import AlreadyRunningError


def main() -> int:
    parser = argparse.ArgumentParser(prog="swell-server", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="the state folder")
    parser.add_argument("--port", type=int, help="default: the last one, else a free one")
    flags = parser.parse_args()
    try:
        serve(flags.home, flags.port, on_ready=_announce)
    except (AlreadyRunningError, PortError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _announce(served: Served) -> None:
    sys.stdout.write(f"export KUBECONFIG={served.kubeconfig}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
