"""What is known of storage, as real clusters write it."""

from __future__ import annotations

from swell.api import codec
from swell.api.storage import CsiNode
from swell.scheduler.model.volumes.objects import StorageObjects


def test_kubelet_without_drivers_limits_nothing() -> None:
    """It writes null for the list of its drivers."""
    body = {"metadata": {"name": "a"}, "spec": {"drivers": None}}
    found = codec.convert(body, CsiNode)
    objects = StorageObjects()
    objects.put_csi_node(found)
    objects.remove_csi_node("a")

    assert not found.spec.drivers
