"""The controller of volumes and claims: what it binds, provisions, protects and deletes."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api import codec
from swell.api.core import Node
from swell.api.pod import Pod
from swell.api.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from swell.cluster.embedded.controllers.volumes import (
    PROVISIONER,
    ClaimSnapshot,
    VolumeSnapshot,
    decide_claim,
    decide_volume,
    keeps_claims,
)
from swell.runtime.plan import CreateObject, DeleteObject, PatchObject, PatchStatus
from tests.storage_objects import a_bound_claim, a_claim, a_class, a_volume

Body = dict[str, Any]
NODE = codec.convert({"metadata": {"name": "a", "labels": {}}}, Node)


def claim_of(body: Body) -> PersistentVolumeClaim:
    body["metadata"]["resourceVersion"] = "7"
    return codec.convert(body, PersistentVolumeClaim)


def volume_of(body: Body) -> PersistentVolume:
    body["metadata"] |= {"resourceVersion": "7", "uid": f"uid-{body['metadata']['name']}"}
    return codec.convert(body, PersistentVolume)


def seen(claim: Body, **parts: Any) -> ClaimSnapshot:
    fields: dict[str, Any] = {
        "storage_class": None,
        "volume": None,
        "reserved": (),
        "open_volumes": (),
        "node": None,
        "is_used": False,
        "folders": "/state",
    }
    return ClaimSnapshot(claim_of(claim), **{**fields, **parts})


def folders(mode: str = "WaitForFirstConsumer") -> StorageClass:
    return codec.convert({**a_class("folders", mode), "provisioner": PROVISIONER}, StorageClass)


def body_of(action: object) -> Body:
    assert isinstance(action, PatchObject)
    assert isinstance(action.patch.body, dict)
    return action.patch.body


def test_delayed_claim_is_left_alone_until_a_node_is_selected() -> None:
    assert decide_claim(seen(a_claim("c"), storage_class=folders()), 0).actions == ()


def test_selected_claim_is_noted_for_its_provisioner_and_then_made() -> None:
    notes = {SELECTED_NODE: "a"}
    (note,) = decide_claim(seen(a_claim("c", notes=notes), storage_class=folders()), 0).actions
    made = a_claim("c", notes={**notes, STORAGE_PROVISIONER: PROVISIONER})
    (create,) = decide_claim(seen(made, storage_class=folders(), node=NODE), 0).actions

    assert body_of(note)["metadata"]["annotations"] == {STORAGE_PROVISIONER: PROVISIONER}
    assert isinstance(create, CreateObject)
    assert create.body["metadata"]["name"] == "pvc-uid-c"
    assert create.body["spec"]["claimRef"]["uid"] == "uid-c"
    assert create.body["spec"]["hostPath"]["path"] == "/state/pvc-uid-c"
    assert "nodeAffinity" in create.body["spec"]


def test_node_that_is_gone_is_taken_back() -> None:
    gone = a_claim("c", notes={SELECTED_NODE: "a", STORAGE_PROVISIONER: PROVISIONER})
    (action,) = decide_claim(seen(gone, storage_class=folders()), 0).actions

    assert body_of(action)["metadata"]["annotations"] == {SELECTED_NODE: None}


def test_reserved_volume_is_bound() -> None:
    volume = volume_of(a_volume("pv", claim="c"))
    (action,) = decide_claim(seen(a_claim("c"), reserved=(volume,)), 0).actions

    assert body_of(action)["spec"] == {"volumeName": "pv"}
    assert BIND_COMPLETED in body_of(action)["metadata"]["annotations"]


def test_claim_that_does_not_wait_takes_the_smallest_volume() -> None:
    volumes = tuple(volume_of(a_volume(f"pv-{n}", size=f"{n}Gi")) for n in (5, 2, 9))
    immediate = codec.convert(a_class("now", "Immediate"), StorageClass)
    (action,) = decide_claim(
        seen(a_claim("c", "now", "2Gi"), storage_class=immediate, open_volumes=volumes), 0
    ).actions

    assert isinstance(action, PatchObject)
    assert action.key.name == "pv-2"


def test_claim_takes_no_volume_of_another_mode() -> None:
    volumes = (
        volume_of(a_volume("block", volumeMode="Block")),
        volume_of(a_volume("plain", size="2Gi")),
    )
    immediate = codec.convert(a_class("now", "Immediate"), StorageClass)
    (action,) = decide_claim(
        seen(a_claim("c", "now"), storage_class=immediate, open_volumes=volumes), 0
    ).actions

    assert isinstance(action, PatchObject)
    assert action.key.name == "plain"


@pytest.mark.parametrize("by_hand", [True, False])
def test_volume_reserved_in_vain_is_open_again(by_hand: bool) -> None:
    """Its claim has another one. A reservation by hand is left alone."""
    body = a_volume("pv", claim="c")
    body["metadata"]["annotations"] = {} if by_hand else {BOUND_BY_CONTROLLER: "yes"}
    other = claim_of(a_bound_claim("c", "other"))
    plan = decide_volume(VolumeSnapshot(volume_of(body), other), 0)

    assert bool(plan.actions) is not by_hand
    assert by_hand or body_of(plan.actions[0])["spec"] == {"claimRef": None}


@pytest.mark.parametrize(("volume", "phase"), [(True, "Bound"), (False, "Lost")])
def test_bound_claim_says_so_or_is_lost(volume: bool, phase: str) -> None:
    body = a_bound_claim("c", "pv")
    body["status"] = {"phase": "Pending"}
    there = volume_of(a_volume("pv", claim="c")) if volume else None
    (action,) = decide_claim(seen(body, volume=there), 0).actions

    assert isinstance(action, PatchStatus)
    assert action.status["phase"] == phase


@pytest.mark.parametrize("is_used", [True, False])
def test_claim_in_use_stays(is_used: bool) -> None:
    body = a_claim("c")
    protection = ["kubernetes.io/pvc-protection"]
    body["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": protection}

    assert bool(decide_claim(seen(body, is_used=is_used), 0).actions) is not is_used


@pytest.mark.parametrize(
    ("node", "phase", "keeps"),
    [
        ("", "Pending", False),
        ("a", "Pending", True),
        ("a", "Running", True),
        ("a", "Failed", False),
    ],
)
def test_pods_without_a_node_keep_no_claims(node: str, phase: str, keeps: bool) -> None:
    """They wait for a claim of the same name, and with this one they cannot start."""
    pod = codec.convert({"spec": {"nodeName": node}, "status": {"phase": phase}}, Pod)

    assert keeps_claims(pod) is keeps


def test_volume_goes_with_its_claim() -> None:
    """It is released first, and deleted where that is its policy and it was made here."""
    made = a_volume("pv", claim="c", persistentVolumeReclaimPolicy="Delete")
    made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
    (first,) = decide_volume(VolumeSnapshot(volume_of(made), None), 0).actions
    made["status"] = {"phase": "Released"}
    (second,) = decide_volume(VolumeSnapshot(volume_of(made), None), 0).actions
    by_hand = a_volume("pv", claim="c", persistentVolumeReclaimPolicy="Delete")
    by_hand["status"] = {"phase": "Released"}

    assert isinstance(first, PatchStatus)
    assert first.status == {"phase": "Released"}
    assert isinstance(second, DeleteObject)
    assert decide_volume(VolumeSnapshot(volume_of(by_hand), None), 0).actions == ()


def test_new_volume_becomes_available() -> None:
    (action,) = decide_volume(
        VolumeSnapshot(volume_of(a_volume("pv", phase="Pending")), None), 0
    ).actions

    assert isinstance(action, PatchStatus)
    assert action.status == {"phase": "Available"}
