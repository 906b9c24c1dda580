"""A client that sends a small request every 20 ms until its input ends, then tells how it went.

python -m tests.attack.bystander KUBECONFIG
"""

from __future__ import annotations

import http.client
import json
import select
import sys
import time
from pathlib import Path

from tests.contract.raw import Raw

INTERVAL_S = 0.02
PATH = "/api/v1/namespaces/default"


def main(kubeconfig: str) -> None:
    waits: list[float] = []
    failures: list[str] = []
    with Raw(Path(kubeconfig)) as raw:
        raw.ask("GET", PATH)
        print("ready", flush=True)  # noqa: T201
        while not select.select([sys.stdin], [], [], INTERVAL_S)[0]:
            begun = time.monotonic()
            try:
                code = raw.ask("GET", PATH).code
                if code != 200:
                    failures.append(str(code))
            except (OSError, http.client.HTTPException) as error:
                failures.append(repr(error))
                raw.close()
            waits.append(time.monotonic() - begun)
    waits.sort()
    told = {
        "n_requests": len(waits),
        "longest_s": round(waits[-1], 3) if waits else 0.0,
        "median_s": round(waits[len(waits) // 2], 4) if waits else 0.0,
        "failures": failures[:5],
    }
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
