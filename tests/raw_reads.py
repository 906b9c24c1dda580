"""Reads of an API server that are no objects: a log, a version, a health check."""

from __future__ import annotations

from swell.cluster.kube import calls
from swell.cluster.kube.client import KubeCluster


async def read_raw(cluster: KubeCluster, path: str) -> bytes:
    """Returns the answer to a GET of this path."""
    return await cluster._transport.send(calls.raw(path))
