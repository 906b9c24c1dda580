"""The small parts the controllers share: names, steps, patches, claims, seeds."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from swell.api.kinds import REPLICA_SETS
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod
from swell.api.workloads import JobStatus, UncountedPods
from swell.cluster.embedded.controllers.claiming import (
    PodClaims,
    claim,
    controller_reference,
    selects,
)
from swell.cluster.embedded.controllers.snapshots import NameSeeds
from swell.cluster.embedded.controllers.writes import (
    ALPHABET,
    name_with_suffix,
    pod_from_template,
    slow_start,
    status_patch,
)
from tests.unit.cluster.embedded.controllers.builders import TEMPLATE, a_pod, a_replica_set, ago

OWNER = a_replica_set(1)
REFERENCE = controller_reference(OWNER, REPLICA_SETS)


@given(st.text("abc-", min_size=1, max_size=80), st.integers(0), st.integers(0, 500))
def test_names_are_generated_as_a_server_would(prefix: str, seed: int, position: int) -> None:
    """Five characters after a prefix of 58 at most; the same every time it is asked for."""
    name = name_with_suffix(prefix, seed, position)

    assert name == name_with_suffix(prefix, seed, position)
    assert len(name) == min(len(prefix), 58) + 5
    assert set(name[-5:]) <= set(ALPHABET)


def test_names_differ_by_seed_and_position() -> None:
    """Two pods of one plan, and of two plans, have different names."""
    names = {name_with_suffix("a-", seed, position) for seed in range(20) for position in range(20)}

    assert len(names) == 400


def test_names_of_one_plan_are_different() -> None:
    """However many pods a plan creates: two of one name could not be created together."""
    for seed in (1, 2, 2**64 - 1):
        names = {name_with_suffix("a-", seed, position) for position in range(10_000)}
        assert len(names) == 10_000


def test_template_is_copied_and_left_alone() -> None:
    """A pod has the template's labels and spec, and its owner; the template stays as it was."""
    before = repr(TEMPLATE)
    create = pod_from_template(TEMPLATE, REFERENCE, "default", "a-", "a-12345")

    assert create.body["metadata"]["labels"] == {"app": "a"}
    assert create.body["metadata"]["ownerReferences"][0]["uid"] == "owner"
    assert create.body["spec"] == TEMPLATE["spec"]
    assert repr(TEMPLATE) == before


@given(st.integers(0, 100))
def test_slow_start_doubles(count: int) -> None:
    """Steps of 1, 2, 4 …, which together are all actions in their order."""
    creates = [
        pod_from_template(TEMPLATE, REFERENCE, "default", "a-", f"a-{number}")
        for number in range(count)
    ]
    steps = slow_start(creates)

    assert [action for step in steps for action in step.actions] == creates
    assert all(len(step.actions) == 2**n for n, step in enumerate(steps[:-1]))


def test_status_patch_says_only_what_changed() -> None:
    """New values, null for what is gone, nested ones one by one; nothing when nothing changed."""
    old = JobStatus(active=2, uncounted_terminated_pods=UncountedPods(failed=("a", "b")))
    new = JobStatus(succeeded=1, uncounted_terminated_pods=UncountedPods(succeeded=("c",)))

    assert status_patch(old, new) == {
        "active": None,
        "succeeded": 1,
        "uncountedTerminatedPods": {"failed": None, "succeeded": ["c"]},
    }
    assert status_patch(new, new) == {}


def test_status_patch_shows_an_empty_struct() -> None:
    """A struct that appears without content is still written."""
    patch = status_patch(JobStatus(), JobStatus(uncounted_terminated_pods=UncountedPods()))

    assert patch == {"uncountedTerminatedPods": {}}


def claimed(pod: Pod, *, settling: bool = True) -> PodClaims:
    return claim([pod], REFERENCE, selects(OWNER.spec.selector), settling=settling, finalizer="f")


def metadata_of(claims: PodClaims) -> Body:
    (patch,) = claims.patches
    assert isinstance(patch.patch.body, dict)
    metadata: Body = patch.patch.body["metadata"]
    return metadata


def test_claim_keeps_what_it_has() -> None:
    """A matching pod of ours needs no patch."""
    pod = a_pod()

    assert claimed(pod) == PodClaims((pod,), ())


def test_claim_adopts_an_orphan() -> None:
    """A matching pod without a controller gets our reference and finalizer, guarded by its UID."""
    metadata = metadata_of(claimed(a_pod(metadata={"ownerReferences": []})))

    assert metadata["uid"] == "uid-p"
    assert metadata["ownerReferences"][0]["uid"] == "owner"
    assert metadata["finalizers"] == ["f"]


def test_claim_releases_what_no_longer_matches() -> None:
    """Our reference and finalizer are taken off, others stay."""
    metadata = metadata_of(claimed(a_pod(metadata={"labels": {}})))

    assert metadata["ownerReferences"] == [{"$patch": "delete", "uid": "owner"}]
    assert metadata["$deleteFromPrimitiveList/finalizers"] == ["f"]


def test_claim_leaves_others_alone() -> None:
    """Pods of other owners, and orphans that are deleted or do not match, are left alone."""
    other = [{"kind": "Job", "name": "x", "uid": "x", "controller": True}]
    orphan: Body = {"ownerReferences": []}

    for metadata in (
        {"ownerReferences": other},
        {**orphan, "deletionTimestamp": ago(1)},
        {**orphan, "labels": {"app": "b"}},
    ):
        assert claimed(a_pod(metadata=metadata)) == PodClaims((), ())


def test_claim_of_an_owner_on_its_way_out_settles_nothing() -> None:
    """An owner that is being deleted neither adopts nor releases."""
    assert not claimed(a_pod(metadata={"ownerReferences": []}), settling=False).patches
    assert not claimed(a_pod(metadata={"labels": {}}), settling=False).patches


def test_seed_stays_while_nothing_changes() -> None:
    """The same owner with the same pods draws once; a change of either draws again."""
    seeds, key, uid = NameSeeds(random.Random(1)), Key("default", "a"), Uid("owner")
    first = seeds.of(key, uid, [a_pod("x")])

    assert seeds.of(key, uid, [a_pod("x")]) == first
    assert seeds.of(key, uid, [a_pod("x"), a_pod("y")]) != first
    assert seeds.of(key, uid, [a_pod("x")]) != first
