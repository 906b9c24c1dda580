"""Plans are values that refuse what could not be carried out safely."""

from __future__ import annotations

import pytest

from swell.api.kinds import PODS
from swell.api.meta import Key, Uid
from swell.runtime.cluster import PatchKind
from swell.runtime.plan import (
    CreateObject,
    DeleteObject,
    PatchStatus,
    Plan,
    PlanError,
    Together,
    patch_object,
)

A = Key("ns", "a")


def test_delete_without_uid_is_refused() -> None:
    """A delete by name could hit a successor."""
    with pytest.raises(PlanError):
        DeleteObject(PODS, A, Uid(""))


def test_status_without_version_is_refused() -> None:
    """A status is written only to what it was computed from."""
    with pytest.raises(PlanError):
        PatchStatus(PODS, A, "", {})


def test_create_without_name_is_refused() -> None:
    """Names are deterministic, or a repeated create would make a second object."""
    with pytest.raises(PlanError):
        CreateObject(PODS, {"metadata": {"generateName": "a-"}})


def test_two_actions_on_one_object_cannot_run_together() -> None:
    """Their order would be a matter of luck."""
    delete = DeleteObject(PODS, A, Uid("u"))
    with pytest.raises(PlanError):
        Together((delete, delete))


def test_patch_carries_its_preconditions() -> None:
    """The server checks UID and version in the same step as it applies the patch."""
    action = patch_object(PODS, A, Uid("u"), {"metadata": {"labels": {"x": "y"}}}, version="7")

    assert action.patch.kind is PatchKind.MERGE
    assert action.patch.body == {
        "metadata": {"labels": {"x": "y"}, "uid": "u", "resourceVersion": "7"}
    }
    with pytest.raises(PlanError):
        patch_object(PODS, A, Uid(""), {})


def test_each_action_is_reported_in_order_of_issue() -> None:
    """Steps that run together keep their order within the plan."""
    deletes = [DeleteObject(PODS, Key("ns", name), Uid("u")) for name in "abcd"]
    plan = Plan((deletes[0], Together(tuple(deletes[1:3])), deletes[3]))

    assert list(plan.each_action()) == deletes
