"""State travels and is saved without a pickle, and comes back as it was."""

from __future__ import annotations

import contextlib
import enum
import errno
import socket
import threading
from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swell.train.backends import host
from swell.train.backends.host import HostCollectives
from swell.train.bus.plan import NOTHING, GroupPlan, Held, Member
from swell.train.errors import GroupBrokenError, TrainError, UnsavableStateError
from swell.train.state.ledger import Progress, TrainLedger, UserState
from swell.train.state.replication import replicate
from swell.train.state.tree import TensorSpec, TreeCodec, copied, pieces

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(-5, 5), inner, max_size=3)
    ),
    max_leaves=12,
)


class Scheduler:
    """An object with a state."""

    def __init__(self) -> None:
        self.value = 0

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.value = state["value"]


@settings(deadline=None)
@given(PLAIN)
def test_plain_values_come_back(tree: object) -> None:
    """Tuples stay tuples, keys may be integers, and integers may be large."""
    codec = TreeCodec()

    assert codec.unpack(codec.pack(tree)) == tree


def test_arrays_come_back_and_copies_are_their_own() -> None:
    """Shapes and types are kept; a copy is not changed with the tree."""
    codec = TreeCodec()
    tree = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": [np.int64(3), np.empty((0, 4))]}
    packed = copied(codec.pack(tree))
    tree["a"][...] = 0  # type: ignore[index]

    back = codec.unpack(packed)

    assert back["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert back["b"][0] == 3
    assert back["b"][1].shape == (0, 4)


class Color(enum.StrEnum):
    RED = "red"


def test_values_that_look_plain_come_back_as_what_they_are() -> None:
    """The mean of an array is a float and a scalar of numpy; a member of an enumeration is a text.

    msgpack refuses both, hours later, when the first newcomer comes or the first save is due.
    """
    codec = TreeCodec()
    mean, count, word = np.arange(4.0).mean(), np.int64(3), np.str_("a")
    tree = {"mean": mean, "n": [count], "word": word, "color": Color.RED, np.int64(7): 2**70}

    back = codec.unpack(codec.pack(tree))

    assert back == {"mean": 1.5, "n": [3], "word": "a", "color": "red", 7: 2**70}
    assert [type(back["mean"]), type(back["n"][0]), type(back["word"])] == [
        np.float64,
        np.int64,
        np.str_,
    ]
    assert f"{back['n'][0]:d}" == "3"


def test_the_state_of_another_framework_is_refused() -> None:
    """The message names its tensors."""
    packed = TreeCodec().pack({"a": np.ones(2)})
    specs = [TensorSpec("torch", "float32", (2,))]

    with pytest.raises(UnsavableStateError, match="the state has tensors of torch"):
        TreeCodec().unpack(packed._replace(specs=specs))


def test_what_cannot_travel_is_refused_by_its_place() -> None:
    """The message says where the value is, and how to mend it."""
    with pytest.raises(UnsavableStateError, match="an array of records"):
        TreeCodec().pack(np.zeros(2, [("a", "i4"), ("b", "f8")]))
    with pytest.raises(UnsavableStateError, match=r"state\['x'\]\[1\] is a object: give it state"):
        TreeCodec().pack({"x": [1, object()]})


def test_pieces_are_few_and_bounded() -> None:
    """Small tensors travel together, a large one alone, an empty one not at all."""
    assert list(pieces([10, 0, 20, 100, 5, 5], limit=64)) == [[0, 2], [3], [4, 5]]


def test_user_state_waits_for_its_object() -> None:
    """A state that arrives before its object is put there is loaded when it comes, never lost."""
    state = UserState()
    state["n"] = 1
    state.restore({"plain": {"n": 5, "m": 6}, "objects": {"scheduler": {"value": 9}}})
    kept = state.capture()
    scheduler = Scheduler()
    state["scheduler"] = scheduler

    assert (state["n"], state["m"]) == (5, 6)
    assert kept["objects"] == {"scheduler": {"value": 9}}
    assert scheduler.value == 9


def test_a_broken_step_leaves_no_plain_value_behind() -> None:
    """A value that it has changed is as before; one that it has added or deleted, too."""
    state = UserState()
    state["n"], state["list"] = 1, [1]
    scheduler = state["scheduler"] = Scheduler()
    before = state.plain_values()
    state["n"] = 2
    state["list"].append(2)
    state["seen"] = True
    del state["n"]
    state.put_back(before)

    assert dict(state) == {"n": 1, "list": [1], "scheduler": scheduler}


def test_values_stay_the_scripts_own_objects() -> None:
    """A script's other name for one stays good, and a Counter stays one at a newcomer."""
    state = UserState()
    losses, seen = [1.0], Counter("a")
    state["losses"], state["seen"], state["more"] = losses, seen, {"n": [1]}
    inner = state["more"]["n"]
    before = state.plain_values()
    losses.append(2.0)
    inner.append(2)
    state.put_back(before)
    undone = list(losses)
    state.restore({"plain": {"losses": [3.0], "seen": {"b": 2}, "more": {"n": [4]}}, "objects": {}})
    seen["c"] += 1

    assert undone == [1.0]
    assert state["losses"] is losses
    assert losses == [3.0]
    assert state["seen"] is seen
    assert seen == Counter(b=2, c=1)
    assert inner == [4]


def test_a_second_optimizer_is_refused() -> None:
    """Of a broken step some members would have its update, and nobody could tell."""

    class Optimizer(Scheduler):
        param_groups: ClassVar[list[object]] = []

    with pytest.raises(TrainError, match=r'^state\["other"\] is an optimizer'):
        UserState()["other"] = Optimizer()


def test_progress_counts_samples_and_epochs() -> None:
    """A step moves the position; the next epoch begins at 0."""
    progress = Progress().after(30).after(20).in_next_epoch().after(10)

    assert progress == Progress(step=3, epoch=1, position=10, samples=60)


def plan_of(ports: list[int], behind: tuple[int, ...], generation: int = 1) -> GroupPlan:
    members = tuple(
        Member(i, 1, i, "127.0.0.1", port, Held(1, 1) if i == 0 else NOTHING)
        for i, port in enumerate(ports)
    )
    return GroupPlan(generation, 1, members, f"g{generation}", source=0, behind=behind)


def together(n: int, work: Any) -> list[Any]:
    results: list[Any] = [None] * n

    def one(rank: int) -> None:
        try:
            results[rank] = work(rank)
        except GroupBrokenError as error:
            results[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return results


def test_the_newest_state_goes_to_those_behind_and_to_no_others() -> None:
    """Members that are up to date take part in the broadcast, and keep their own."""
    members = [HostCollectives("127.0.0.1", b"s") for _ in range(3)]
    plan = plan_of([m.meeting_port for m in members], behind=(2,))
    ledgers = [TrainLedger() for _ in members]
    ledgers[0].user["big"] = np.arange(200_000)
    ledgers[1].user["big"] = "mine"

    def work(rank: int) -> int:
        members[rank].form(plan, rank)
        ledger = ledgers[rank]
        return replicate(
            members[rank], plan, rank, TreeCodec(), capture=ledger.capture, restore=ledger.restore
        )

    sent = together(3, work)

    assert all(n > 1_600_000 for n in sent)
    assert ledgers[2].user["big"].sum() == np.arange(200_000).sum()
    assert ledgers[1].user["big"] == "mine"


def test_sums_and_messages_are_the_same_everywhere() -> None:
    """The hub adds in the order of ranks, and everybody gets the same bits."""
    members = [HostCollectives("127.0.0.1", b"s") for _ in range(4)]
    plan = plan_of([m.meeting_port for m in members], behind=())

    def work(rank: int) -> Any:
        members[rank].form(plan, rank)
        array = np.full(5, 0.1 * rank)
        members[rank].sum(array)
        return array.tolist(), members[rank].gather(bytes([rank]))

    results = together(4, work)

    assert results == [results[0]] * 4
    assert results[0][1] == [b"\0", b"\1", b"\2", b"\3"]


def test_an_abort_ends_a_collective_and_a_forming() -> None:
    """A member that waits for others hears of the abort at once, and the next group forms."""
    members = [HostCollectives("127.0.0.1", b"s") for _ in range(2)]
    ports = [m.meeting_port for m in members]

    def waits(rank: int) -> None:
        members[rank].form(plan_of(ports, ()), rank)
        if rank:
            threading.Timer(0.1, members[0].abort, args=(1,)).start()
        else:
            members[rank].sum(np.zeros(3))

    broken = together(2, waits)
    for member in members:
        member.leave(broken=True)
    threading.Timer(0.1, members[0].abort, args=(2,)).start()
    alone = together(1, lambda rank: members[0].form(plan_of(ports, (), 2), 0))

    assert isinstance(broken[0], GroupBrokenError)
    assert isinstance(alone[0], GroupBrokenError)
    assert together(2, lambda rank: members[rank].form(plan_of(ports, (), 3), rank)) == [None, None]


def test_strangers_who_say_nothing_keep_no_member_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many the oldest goes, and its line is closed."""
    monkeypatch.setattr(host, "GREETED_MAX", 2)
    members = [HostCollectives("127.0.0.1", b"s") for _ in range(2)]
    plan = plan_of([m.meeting_port for m in members], behind=())
    address = ("127.0.0.1", members[0].meeting_port)
    with contextlib.ExitStack() as stack:
        strangers = [
            stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(2)
        ]

        assert together(2, lambda rank: members[rank].form(plan, rank)) == [None, None]

        while strangers[0].recv(100):  # the challenge, and then the end
            continue


@pytest.mark.parametrize("scarce", ["descriptors", "threads"])
def test_meeting_point_outlives_a_flood(scarce: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers may take the last descriptor or thread for a moment; members meet afterwards."""
    monkeypatch.setattr(host, "EXHAUSTED_S", 0.01)
    n_left, accept, start = 3, socket.socket.accept, threading.Thread.start

    def refuse(error: Exception) -> None:
        nonlocal n_left
        if n_left:
            n_left -= 1
            raise error

    def scarce_accept(door: socket.socket) -> object:
        if scarce == "descriptors":
            refuse(OSError(errno.EMFILE, "Too many open files"))
        return accept(door)

    def scarce_start(thread: threading.Thread) -> None:
        if scarce == "threads" and "_greeted" in repr(getattr(thread, "_target", "")):
            refuse(RuntimeError("can't start new thread"))
        start(thread)

    monkeypatch.setattr(socket.socket, "accept", scarce_accept)
    monkeypatch.setattr(threading.Thread, "start", scarce_start)
    members = [HostCollectives("127.0.0.1", b"s") for _ in range(2)]
    address = ("127.0.0.1", members[0].meeting_port)
    for _ in range(4):
        with socket.create_connection(address, timeout=10) as stranger:
            stranger.recv(100)
    plan = plan_of([m.meeting_port for m in members], behind=())

    assert together(2, lambda rank: members[rank].form(plan, rank)) == [None, None]


def test_a_pod_of_the_newer_network_listens_at_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every machine has such a network, so nothing is bound here."""
    asked: list[tuple[object, object]] = []
    create = socket.create_server

    def server(address: object, **options: Any) -> socket.socket:
        asked.append((address, options["family"]))
        return create(("127.0.0.1", 0))

    monkeypatch.setattr(socket, "create_server", server)
    for address in ("fd00::7", "10.0.0.7"):
        HostCollectives(address, b"s").close()

    assert asked == [
        (("fd00::7", 0), socket.AF_INET6),
        (("10.0.0.7", 0), socket.AF_INET),
    ]


def test_a_stranger_without_the_secret_is_not_let_in() -> None:
    """Both ends prove that they know the secret."""
    members = [HostCollectives("127.0.0.1", b"right"), HostCollectives("127.0.0.1", b"wrong")]
    plan = plan_of([m.meeting_port for m in members], behind=())

    assert isinstance(
        together(2, lambda r: members[1].form(plan, 1) if r else None)[1], GroupBrokenError
    )
