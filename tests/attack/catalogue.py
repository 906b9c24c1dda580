"""All attacks by name, and a program that runs them and prints what each did.

python -m tests.attack.catalogue [NAME PART ...]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.attack import (
    connections,
    crowds,
    definitions,
    floods,
    growth,
    objects,
    owners,
    payloads,
    rights,
)
from tests.attack.harness import Attack, measure, target_server

ATTACKS: Mapping[str, Attack] = {
    **payloads.ATTACKS,
    **objects.ATTACKS,
    **definitions.ATTACKS,
    **crowds.ATTACKS,
    **connections.ATTACKS,
    **owners.ATTACKS,
    **growth.ATTACKS,
    **rights.ATTACKS,
    **floods.ATTACKS,
}
# One of each class, together some seconds.
SAMPLE = (
    "yaml brackets",
    "json nested lists",
    "json numbers",
    "json duplicates",
    "patch copies 9999 of 500 KB",
    "patch moves",
    "gzip bombs",
    "column of 60000 blanks",
    "rules doubling a text",
    "rules sharing a list",
    "defaults of small items",
    "selectors",
    "chunks",
    "unknown methods",
    "plain HTTP to TLS",
)


def main(wanted: list[str]) -> int:
    n_bad = 0
    with tempfile.TemporaryDirectory() as home, target_server(Path(home)) as target:
        for name, attack in ATTACKS.items():
            if wanted and not any(part in name for part in wanted):
                continue
            harm = measure(target, name, attack)
            print(harm, *harm.problems(), sep="\n    ", flush=True)  # noqa: T201
            n_bad += bool(harm.problems())
            if not harm.is_alive:
                break
    return min(n_bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
