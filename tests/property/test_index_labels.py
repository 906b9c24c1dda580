"""Index labels of pservers under any sequence of arrivals, deaths, resizes and lost writes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from swell.api.meta import ObjectMeta
from swell.api.pod import Pod, PodPhase, PodStatus
from swell.operator.trainingjob.pods import free_indexes
from swell.operator.trainingjob.snapshot import is_finished, is_leaving

LABEL = "fit-pserver-idx"
SIZE_MAX = 6

# What happens to the pods, to which of them, and how many of the writes after it succeed.
EVENTS = st.tuples(
    st.sampled_from(["arrive", "arrive", "vanish", "fail", "leave", "resize", "meddle"]),
    st.integers(0, 30),
    st.integers(0, 8),
)


class Pods:
    """The pods of a ReplicaSet, whose number is not always what it should be."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.size = 3
        self._n_made = 0

    def happens(self, what: str, number: int) -> None:
        if what == "arrive" or not self.pods:
            self._n_made += 1
            # Several in a second: the name decides who is elder.
            at = f"2026-01-01T00:00:{self._n_made // 3:02d}Z"
            meta = ObjectMeta(name=f"p{number}-{self._n_made}", creation_timestamp=at)
            self.pods[meta.name] = Pod(metadata=meta)
            return
        if what == "resize":
            self.size = number % SIZE_MAX
            return
        pod = self.pods[sorted(self.pods)[number % len(self.pods)]]
        if what == "vanish":
            del self.pods[pod.metadata.name]
        elif what == "fail":
            self._put(replace(pod, status=PodStatus(phase=PodPhase.FAILED)))
        elif what == "leave":
            self._put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp="now")))
        else:
            self.label(pod, str(number % SIZE_MAX))

    def label(self, pod: Pod, value: str | None) -> None:
        labels = {} if value is None else {LABEL: value}
        self._put(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    def trace(self, n_writes: int) -> None:
        """What the operator does, up to a write that is lost."""
        changes = free_indexes(self.pods.values(), LABEL, self.size)
        for pod, index in sorted(changes, key=lambda change: change[1] is not None)[:n_writes]:
            self.label(pod, None if index is None else str(index))

    def shown(self) -> list[str]:
        """The labels of the pods at work."""
        return [
            pod.metadata.labels[LABEL]
            for pod in self.pods.values()
            if LABEL in pod.metadata.labels and not is_finished(pod)
        ]

    def waiting(self) -> list[Pod]:
        return [
            pod
            for pod in self.pods.values()
            if LABEL not in pod.metadata.labels
            and not is_finished(pod)
            and not is_leaving(pod.metadata)
        ]

    def _put(self, pod: Pod) -> None:
        self.pods[pod.metadata.name] = pod


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_indexes_stay_unique_and_dense(events: list[tuple[str, int, int]]) -> None:
    """Unique at every write, never beyond the size, and none free while a pod waits for one."""
    pods = Pods()
    for what, number, n_writes in events:
        pods.happens(what, number)
        was_unique = len(set(pods.shown())) == len(pods.shown())
        for _ in range(n_writes):
            pods.trace(1)
            if was_unique:
                assert len(set(pods.shown())) == len(pods.shown())
    pods.trace(len(pods.pods))
    shown = pods.shown()

    assert len(set(shown)) == len(shown)
    assert set(shown) <= {str(index) for index in range(pods.size)}
    assert len(shown) == pods.size or not pods.waiting()
    assert free_indexes(pods.pods.values(), LABEL, pods.size) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_index_stays_with_its_pod(events: list[tuple[str, int, int]]) -> None:
    """A pod at work keeps the index it was given for as long as the index exists."""
    pods = Pods()
    held: dict[str, str] = {}
    for what, number, _ in events:
        if what in {"meddle", "resize"}:
            continue
        pods.happens(what, number)
        pods.trace(len(pods.pods))
        now = {
            name: pod.metadata.labels[LABEL]
            for name, pod in pods.pods.items()
            if LABEL in pod.metadata.labels and not is_finished(pod)
        }
        for name, index in held.items():
            pod = pods.pods.get(name)
            assert pod is None or is_finished(pod) or now[name] == index
        held = now
