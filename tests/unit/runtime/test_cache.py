"""What is held of an object never goes back in time, whichever side facts come from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from swell.api.meta import Key, ObjectMeta, OwnerReference, Uid
from swell.api.pod import Pod, PodSpec
from swell.runtime.cache import CacheIndex, ObjectCache, StaleListError, parse_version
from swell.runtime.cluster import Malformed
from swell.runtime.errors import ServerError
from swell.runtime.informer import by_controller_key, by_label

A = Key("ns", "a")


def pod(version: int, *, name: str = "a", uid: str = "u1", **metadata: object) -> Pod:
    fields = {"labels": {}, **metadata}
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=Uid(uid),
            resource_version=str(version),
            **fields,  # type: ignore[arg-type]
        )
    )


def held_version(cache: ObjectCache[Pod], key: Key = A) -> int | None:
    entry = cache.entry(key)
    return entry.version if entry else None


@pytest.mark.parametrize(("version", "expected"), [(4, 5), (5, 5), (6, 6), (10, 10)])
def test_put_never_goes_back_in_time(version: int, expected: int) -> None:
    """A state is taken only if its version, as a number, is above the held one."""
    cache = ObjectCache[Pod]()
    cache.put(pod(5))
    cache.put(pod(version))

    assert held_version(cache) == expected


def test_replace_refuses_an_older_list() -> None:
    """A list older than the watch comes from a stale server and changes nothing."""
    cache = ObjectCache[Pod]()
    cache.replace([pod(5)], 7)
    with pytest.raises(StaleListError):
        cache.replace([], 6)

    assert held_version(cache) == 5


def test_replace_reports_what_vanished_in_the_gap() -> None:
    """An object deleted while no watch was open is a change like any other."""
    cache = ObjectCache[Pod]()
    cache.replace([pod(5), pod(6, name="b", uid="u2")], 6)
    changes = cache.replace([pod(6, name="b", uid="u2")], 9)

    assert [(c.before and c.before.key, c.after) for c in changes] == [(A, None)]


def test_replace_keeps_what_is_newer_than_the_list() -> None:
    """What our own write created after the list was taken is not missing from it."""
    cache = ObjectCache[Pod]()
    cache.replace([], 5)
    cache.put_read(pod(9))
    cache.replace([], 7)

    assert held_version(cache) == 9


def test_gone_uid_is_not_brought_back_by_a_lagging_watch() -> None:
    """Once the server has answered that an object is gone, late events of it count no more."""
    cache = ObjectCache[Pod]()
    cache.put(pod(5))
    cache.mark_deleted(A, Uid("u1"))

    assert cache.put(pod(6)) is None
    assert cache.put(pod(7, uid="u2")) is not None


def test_gone_leaves_a_successor_of_the_same_name_alone() -> None:
    """The deletion of an old object says nothing about a new one of its name."""
    cache = ObjectCache[Pod]()
    cache.put(pod(9, uid="u2"))

    assert cache.mark_deleted(A, Uid("u1")) is None
    assert held_version(cache) == 9


def test_read_outweighs_gone() -> None:
    """An object that a consistent read finds is there, whatever was believed."""
    cache = ObjectCache[Pod]()
    cache.mark_deleted(A, Uid("u1"))
    cache.put_read(pod(9))

    assert held_version(cache) == 9


def test_late_answer_does_not_bring_back_what_was_deleted_meanwhile() -> None:
    """An answer that the watch has overtaken says nothing about an object no longer held."""
    cache = ObjectCache[Pod]()
    cache.put(pod(9))
    cache.remove(A, 11)
    cache.advance(11)

    assert cache.put_read(pod(9)) is None
    assert cache.put_read(pod(9), as_of=10) is None
    assert cache.put_read(pod(9), as_of=12) is not None


def test_absent_at_a_version_refuses_older_states_until_the_watch_is_past() -> None:
    """What a consistent read did not find cannot be brought back by an older event."""
    cache = ObjectCache[Pod]()
    cache.mark_absent(A, 10)

    assert cache.put(pod(9)) is None
    cache.advance(10)
    assert len(cache._tombstones) == 0
    assert cache.put(pod(11)) is not None


def test_absent_does_not_remove_what_is_newer() -> None:
    """A read that is older than what is held proves nothing."""
    cache = ObjectCache[Pod]()
    cache.put(pod(11))

    assert cache.mark_absent(A, 10) is None


def test_indexes_follow_changes_and_leave_nothing_behind() -> None:
    """An index finds an object under its present values only, and empty places are dropped."""
    owner = OwnerReference(kind="Toy", name="t", uid=Uid("o"), controller=True)
    cache = ObjectCache[Pod]([by_label("x"), by_controller_key("Toy")])
    cache.put(pod(1, labels={"x": "1"}, owner_references=(owner,)))
    cache.put(pod(2, labels={"x": "2"}, owner_references=(owner,)))

    assert cache.select("label x", "1") == ()
    assert [e.version for e in cache.select("label x", "2")] == [2]
    assert [e.version for e in cache.select("controller Toy", Key("ns", "t"))] == [2]
    cache.remove(A, 3)
    assert cache._members == {}


def test_selection_is_ordered_by_key() -> None:
    """The same state is seen in the same order, whatever order it arrived in."""
    cache = ObjectCache[Pod]([by_label("x")])
    for name in ("c", "a", "b"):
        cache.put(pod(1, name=name, labels={"x": "1"}))

    assert [e.key.name for e in cache.select("label x", "1")] == ["a", "b", "c"]


def test_object_an_index_fails_on_is_held_as_malformed() -> None:
    """A hostile object costs itself, not the others."""
    cache = ObjectCache[Pod]([CacheIndex("bad", lambda metadata, _: [1 // len(metadata.labels)])])
    cache.replace([pod(1), pod(2, name="b", labels={"x": "1"})], 2)

    entry = cache.entry(A)
    assert entry is not None
    assert entry.object is not None
    assert entry.malformed is not None
    assert "ZeroDivisionError" in entry.malformed.error
    assert held_version(cache, Key("ns", "b")) == 2


def test_malformed_object_is_indexed_by_readable_metadata() -> None:
    """Whatever is wrong with an object, its owner is still known."""
    owner = {"kind": "Toy", "name": "t", "uid": "o", "controller": True}
    cache = ObjectCache[Pod]([by_controller_key("Toy")])
    body = {"metadata": {"name": "a", "namespace": "ns", "ownerReferences": [owner]}, "spec": 7}
    cache.put(Malformed(A, Uid("u1"), "3", "spec is a number", body))
    cache.put(Malformed(Key("ns", "b"), Uid("u2"), "4", "all wrong", {"metadata": "?"}))

    assert [e.key for e in cache.select("controller Toy", Key("ns", "t"))] == [A]
    assert held_version(cache, Key("ns", "b")) == 4


def test_malformed_object_has_nothing_of_a_former_one_of_its_name() -> None:
    """What was readable of that one says nothing about this one, which counts as unknown."""
    cache = ObjectCache[Pod]([], Pod)
    cache.put(replace(pod(1), spec=PodSpec(node_name="n")))
    body = {"metadata": {"name": "a", "namespace": "ns"}, "spec": {"nodeName": 7}}
    cache.put(Malformed(A, Uid("u2"), "3", "wrong", body))

    entry = cache.entry(A)
    assert entry is not None
    assert entry.object is not None
    assert entry.object.spec.node_name == ""
    assert entry.unknown == ("spec.nodeName",)


def test_version_that_is_no_number_is_a_server_error() -> None:
    """Versions are compared as numbers; an answer without one makes no sense."""
    with pytest.raises(ServerError):
        parse_version("abc")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "read", "gone", "absent", "remove", "reach"]),
            st.sampled_from("ab"),
            st.integers(1, 30),
        ),
        max_size=40,
    )
)
def test_held_versions_of_one_incarnation_only_grow(steps: list[tuple[str, str, int]]) -> None:
    """Whatever facts arrive in whatever order, no object is ever replaced by an older one."""
    cache = ObjectCache[Pod]([by_label("x")])
    for kind, name, version in steps:
        key = Key("ns", name)
        before = held_version(cache, key)
        state = pod(version, name=name, uid=f"u{version // 10}", labels={"x": str(version % 3)})
        match kind:
            case "put":
                cache.put(state)
            case "read":
                cache.put_read(state)
            case "gone":
                cache.mark_deleted(key, state.metadata.uid)
            case "absent":
                cache.mark_absent(key, version)
            case "remove":
                cache.remove(key, version)
            case _:
                cache.advance(version)
        after = held_version(cache, key)

        assert before is None or after is None or after >= before
        indexed = {k for place in cache._members.values() for k in place}
        assert indexed == {e.key for e in cache}
