"""A cache between a watch that lags, reads ahead of it and answers that come late."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import example, given, settings

from swell.api.codec import convert
from swell.api.meta import Key, ObjectMeta, Uid
from swell.api.pod import Pod
from swell.runtime.cache import ObjectCache
from swell.runtime.cluster import Malformed, Selection
from swell.runtime.informer import by_label

EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "300"))
NAMES = "ab"
OWNERS = "xy"


def a_step(
    kind: str, names: str = " ", owners: str = " "
) -> st.SearchStrategy[tuple[str, str, str]]:
    chosen = st.tuples(st.just(kind), st.sampled_from(names), st.sampled_from(owners))
    return chosen.map(lambda step: (step[0], step[1].strip(), step[2].strip()))


ANSWER = ("answer", "", "")
STEPS = st.lists(
    st.one_of(
        a_step("write", NAMES, OWNERS),
        a_step("write", NAMES, OWNERS + " "),
        a_step("delete", NAMES),
        a_step("ask", owners=OWNERS),
        a_step("read", owners=OWNERS),
        a_step("read", NAMES),
        a_step("answer"),
        a_step("event"),
        a_step("list"),
    ),
    min_size=5,
    max_size=30,
)


@dataclass(frozen=True, slots=True)
class Read:
    """What a read answers: the objects it covers, as they were at its version."""

    version: int
    covers: Callable[[Pod], bool]
    listed: dict[Key, Pod]
    selection: Selection
    name: str = ""


@dataclass(slots=True)
class History:
    """A server with its log, and a cache that receives it bit by bit."""

    version: int = 0
    state: dict[Key, Pod] = field(default_factory=dict)
    log: list[tuple[int, Key, Pod | None]] = field(default_factory=list)
    asked: list[Read] = field(default_factory=list)
    answered: list[Read] = field(default_factory=list)
    cache: ObjectCache[Pod] = field(default_factory=lambda: ObjectCache[Pod]([by_label("owner")]))

    def step(self, kind: str, name: str, owner: str) -> None:
        match kind:
            case "write":
                self.write(Key("ns", name), {"owner": owner} if owner else {})
            case "delete" if self.state.pop(Key("ns", name), None):
                self.version += 1
                self.log.append((self.version, Key("ns", name), None))
            case "ask":
                self.asked.append(self.read(name, owner))
            case "read":
                self.answer(self.read(name, owner))
            case "answer" if self.asked:
                self.answer(self.asked.pop(len(self.asked) // 2))
            case "event" if self.log:
                self.tell()
            case "list":
                self.cache.replace(list(self.state.values()), self.version)
                self.log.clear()

    def write(self, key: Key, labels: dict[str, str]) -> None:
        self.version += 1
        before = self.state.get(key)
        uid = before.metadata.uid if before else Uid(f"u{self.version}")
        self.state[key] = Pod(
            metadata=ObjectMeta(
                name=key.name,
                namespace=key.namespace,
                uid=uid,
                resource_version=str(self.version),
                labels=labels,
            )
        )
        self.log.append((self.version, key, self.state[key]))

    def read(self, name: str, owner: str) -> Read:
        """Of one object, or of all of an owner."""
        if name:
            fields, labels = f"metadata.name={name}", ""
        else:
            fields, labels = "", f"owner={owner}"

        def covers(pod: Pod) -> bool:
            meta = pod.metadata
            return meta.name == name if name else meta.labels.get("owner") == owner

        listed = {key: pod for key, pod in self.state.items() if covers(pod)}
        return Read(self.version, covers, listed, Selection("ns", labels, fields), name)

    def answer(self, read: Read) -> None:
        for pod in read.listed.values():
            self.cache.put_read(pod, read.version)
        self.cache.record_read(read.selection, read.version)
        if read.name and not read.listed:
            self.cache.mark_absent(Key("ns", read.name), read.version)
        self.answered.append(read)

    def tell(self) -> None:
        version, key, pod = self.log.pop(0)
        if version <= self.cache.version:
            return
        if pod is None:
            self.cache.remove(key, version)
        else:
            self.cache.put(pod)
        self.cache.advance(version)

    def shown(self) -> dict[Key, int]:
        return {entry.key: entry.version for entry in self.cache}

    def proves_absent(self, pod: Pod) -> bool:
        """Whether an answered read should have had this state, and had not."""
        version = int(pod.metadata.resource_version)
        return any(
            read.version >= version and read.covers(pod) and pod.metadata.key not in read.listed
            for read in self.answered
        )


@settings(max_examples=EXAMPLES, deadline=None)
@given(STEPS)
@example([("write", "a", "x"), ("delete", "a", ""), ("read", "", "x"), ("event", "", "")])
@example([("write", "a", "x"), ("ask", "", "x"), ("delete", "a", ""), ("read", "", "x"), ANSWER])
def test_cache_never_shows_again_what_a_read_did_not_contain(
    steps: list[tuple[str, str, str]],
) -> None:
    """Nothing comes into the cache that a read of its version or a later one lacked, versions of
    what is shown only grow, and when the watch has reported everything the cache is the truth."""
    history = History()
    for step in steps:
        before = history.shown()
        history.step(*step)
        for entry in history.cache:
            assert entry.object is not None
            if entry.key not in before:
                assert not history.proves_absent(entry.object)
            assert entry.version >= before.get(entry.key, 0)
    while history.log:
        history.tell()

    assert {entry.key: entry.object for entry in history.cache} == history.state
    history.cache.advance(history.version)
    assert len(history.cache._tombstones) == 0


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.sampled_from(["sound", "broken", "delete", "again"]), max_size=30))
def test_malformed_object_is_never_absent(steps: list[str]) -> None:
    """An object that exists is held, with its last readable fields, until it is deleted; and what
    is remembered is bounded by what lives."""
    cache = ObjectCache[Pod]([by_label("owner")], Pod)
    uid, node, exists = "u0", "", False
    for version, step in enumerate(steps, start=1):
        meta = {"name": "a", "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
        if step == "delete":
            cache.remove(Key("ns", "a"), version)
            uid, node, exists = f"u{version}", "", False
        elif step == "broken":
            body = {"metadata": {**meta, "labels": {"owner": "x"}}, "spec": 7}
            cache.put(Malformed(Key("ns", "a"), Uid(uid), str(version), "spec is wrong", body))
            exists = True
        else:
            node, exists = f"n{version}", True
            body = {"metadata": {**meta, "labels": {"owner": "x"}}, "spec": {"nodeName": node}}
            cache.put(convert(body, Pod))
        cache.advance(version)
        found = cache.entry(Key("ns", "a"))

        assert (found is not None) is exists
        assert len(cache.select("label owner", "x")) == exists
        if found is not None and found.object is not None:
            assert found.object.spec.node_name == node
            assert found.unknown == (() if node else ("spec",))
            assert found.object.metadata.resource_version == str(version)
    assert len(cache._members) <= 1
    assert not cache._deleted
