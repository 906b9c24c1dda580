"""The patch that makes a live object what its manifest says."""

from __future__ import annotations

import copy

from swell.api.meta import Body
from swell.cli.objects.three_way import LAST_APPLIED, patch_to, with_last_applied


def manifest(**data: object) -> Body:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **data}


def live_after(applied: Body, **others: object) -> Body:
    """What a server holds once a manifest was applied and others wrote, too."""
    body = copy.deepcopy(with_last_applied(applied))
    body["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    return body | others


def test_patch_is_empty_when_nothing_changed() -> None:
    """Applying the same manifest again changes nothing."""
    same = manifest(data={"k": "1"})

    assert patch_to(same, live_after(same)) == {}


def test_patch_sets_what_changed_and_records_it() -> None:
    """A changed value is sent, with the new record."""
    new = manifest(data={"k": "2"})
    patch = patch_to(new, live_after(manifest(data={"k": "1"})))

    assert patch["data"] == {"k": "2"}
    assert patch["metadata"]["annotations"] == {
        LAST_APPLIED: with_last_applied(new)["metadata"]["annotations"][LAST_APPLIED]
    }


def test_patch_removes_what_the_manifest_no_longer_says() -> None:
    """A key that was applied and is gone from the manifest goes."""
    patch = patch_to(manifest(data={"a": "1"}), live_after(manifest(data={"a": "1", "b": "2"})))

    assert patch["data"] == {"b": None}


def test_patch_leaves_what_others_wrote() -> None:
    """A key nobody ever applied stays."""
    applied = manifest(data={"a": "1"})
    live = live_after(applied, data={"a": "1", "theirs": "x"}, status={"phase": "ok"})

    assert patch_to(applied, live) == {}


def test_patch_takes_server_defaults_inside_lists_for_equal() -> None:
    """A list whose elements the server completed is no difference."""
    applied = manifest(items=[{"name": "c", "image": "i"}])
    live = live_after(applied, items=[{"name": "c", "image": "i", "pull": "Always"}])

    assert patch_to(applied, live) == {}


def test_patch_sends_a_list_that_lost_a_field() -> None:
    """What a list element no longer says has to go, so the list is sent again."""
    old = manifest(items=[{"name": "c", "image": "i"}])
    new = manifest(items=[{"name": "c"}])

    assert patch_to(new, live_after(old))["items"] == [{"name": "c"}]


def test_patch_adopts_an_object_that_was_never_applied() -> None:
    """Without a record nothing is removed, and the record is written."""
    live: Body = {"metadata": {"name": "a", "annotations": {"x": "y"}}, "data": {"b": "2"}}
    patch = patch_to(manifest(data={"a": "1"}), live)

    assert patch["data"] == {"a": "1"}
    assert list(patch["metadata"]["annotations"]) == [LAST_APPLIED]


def test_record_does_not_contain_itself() -> None:
    """Recording a manifest that carries a record gives the same record."""
    once = with_last_applied(manifest(data={"a": "1"}))

    assert with_last_applied(once) == once
