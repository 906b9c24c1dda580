"""One pod with a volume and a peer's name, run by whoever runs this; see `test_ordinary_user`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.e2e.node.cluster import Site, play


async def act(site: Site) -> None:
    await site.service("peer", app="peer")
    await site.config_map("settings", word="hello")
    more = {"volumeMounts": [{"name": "m", "mountPath": "/swell-test-user/map"}]}
    volumes = [{"name": "m", "configMap": {"name": "settings"}}]
    script = "cat /swell-test-user/map/word; echo; echo $(PEER); getent hosts $(PEER)"
    env = {"env": [{"name": "PEER", "value": "peer.default"}]}
    await site.pod("p", "sh", "-c", script, container=more | env, volumes=volumes)
    pod = await site.ended("p")
    lines = site.log("p").splitlines()

    assert os.geteuid() != 0
    assert pod.status.phase.value == "Succeeded", lines
    assert lines[0] == "hello"
    assert lines[2].startswith("127.")


if __name__ == "__main__":
    play(Path(sys.argv[1]), act)
