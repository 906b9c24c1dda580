"""AITrainingJobs whose pods are real containers, and what runs in them: small shell scripts.

A container is told how to end through a pipe of its own; until then it waits and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.meta import Body
from tests.testbed.cluster import BUSYBOX

GRACE_S = 1
PORT = 2222
END = "/tmp/end"
WAITS = f"mkfifo {END}; read code < {END}; exit $code"
TELL = f"until [ -p {END} ]; do sleep 0.1; done; echo {{code}} > {END}"
SMALL = {"cpu": "10m", "memory": "16Mi"}


def pods(
    n: int,
    /,
    *,
    script: str = WAITS,
    image: str = BUSYBOX,
    limits: Mapping[str, str] | None = None,
    pod: Body | None = None,
    container: Body | None = None,
    **fields: object,
) -> Body:
    """A role of n pods with these fields of a replica spec; `limits` are requested, too."""
    main: Body = {
        "name": "aitj-main",
        "image": image,
        "command": ["sh", "-c", script],
        "ports": [{"name": f"aitj-{PORT}", "containerPort": PORT}],
        "resources": {"requests": {**SMALL, **(limits or {})}, "limits": dict(limits or {})},
        **(container or {}),
    }
    spec = {"terminationGracePeriodSeconds": GRACE_S, "containers": [main], **(pod or {})}
    return {"replicas": n, **fields, "template": {"spec": spec}}
