"""Which pods are taken out of Kueue's hold, and when."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.pod import Pod, PodPhase
from swell.runtime.plan import PatchObject
from tests.unit.operator.scene import Scene, a_job

HOLD, OTHER = "kueue.x-k8s.io/managed", "example.com/other"
T0 = "fit-trainer-0"


def held(pod: Pod, *, is_deleted: bool = True, grace_s: int = 30) -> Pod:
    """The pod with the finalizers of Kueue and of somebody else, running."""
    meta = replace(
        pod.metadata,
        finalizers=(OTHER, HOLD),
        deletion_timestamp="2026-01-01T00:00:00Z" if is_deleted else None,
        deletion_grace_period_seconds=grace_s if is_deleted else None,
    )
    return replace(pod, metadata=meta)


def let_go(scene: Scene, pod: Pod) -> list[object]:
    """The finalizers that the patches of this plan leave the pod."""
    scene.pods[T0] = pod
    found = []
    for one in scene.look().each_action():
        if isinstance(one, PatchObject) and one.key == pod.metadata.key:
            body = one.patch.body
            assert isinstance(body, dict)
            found.append(body["metadata"]["finalizers"])
    return found


@pytest.mark.parametrize("suspend", [True, False])
def test_pod_that_has_left_is_let_go(suspend: bool) -> None:
    """By whatever shows that nothing of it runs, whatever becomes of its job."""
    scene = Scene(a_job()).running()
    pod = scene.pods[T0]
    scene.edit(suspend=suspend)
    ended = replace(held(pod), status=replace(pod.status, phase=PodPhase.FAILED))
    unbound = replace(held(pod), spec=replace(pod.spec, node_name=""))

    assert let_go(scene, ended) == [[OTHER]]
    assert let_go(scene, unbound) == [[OTHER]]
    assert let_go(scene, held(pod, grace_s=0)) == [[OTHER]]


def test_pod_that_runs_or_stays_is_kept() -> None:
    """Kueue counts it, and it may have something to say yet."""
    scene = Scene(a_job()).running()
    pod = scene.pods[T0]
    done = replace(pod, status=replace(pod.status, phase=PodPhase.SUCCEEDED))

    assert let_go(scene, held(pod)) == []
    assert let_go(scene, held(pod, is_deleted=False)) == []
    assert let_go(scene, held(done, is_deleted=False)) == []
