"""A planted leak: a process with this folder in its PYTHONPATH keeps every commit for ever.

`tests.e2e.up.soak --leak` starts a cluster with it, to show that the soak notices.
"""

from __future__ import annotations

import os
import sys

if os.environ.get("SWELL_PLANTED_LEAK") and "up" in sys.orig_argv:
    from swell.cluster.embedded.commits import Commit
    from swell.cluster.embedded.storage import Storage

    leaked: list[Commit] = []
    keep = Storage._keep

    def keep_for_ever(self: Storage, commit: Commit) -> None:
        leaked.append(commit)
        keep(self, commit)

    Storage._keep = keep_for_ever  # type: ignore[method-assign]
