"""The state of the newest member, sent to those that are behind: its shape, then large pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from swell.train.bus.plan import GroupPlan
from swell.train.collectives import Collectives
from swell.train.state.tree import Bytes, PackedState, TensorSpec, TreeCodec, pieces


class StateHeader(msgspec.Struct, frozen=True, array_like=True):
    """The structure of a state, and for every tensor its kind and its bytes."""

    structure: bytes
    specs: list[TensorSpec]
    sizes: list[int]


def replicate(
    collectives: Collectives,
    plan: GroupPlan,
    rank: int,
    codec: TreeCodec,
    *,
    capture: Callable[[], Any],
    restore: Callable[[Any], None],
) -> int:
    """Send the source's state to all, and restore it at those behind. Returns bytes sent.

    Members that are up to date take part in the broadcasts, since a collective is for all; they
    drop what they get.
    """
    if not plan.behind:
        return 0
    if rank == plan.source:
        packed = codec.pack(capture())
        sizes = [tensor.nbytes for tensor in packed.tensors]
        header = StateHeader(packed.structure, packed.specs, sizes)
        broadcast_message(collectives, msgspec.msgpack.encode(header), plan.source, rank)
    else:
        raw = broadcast_message(collectives, b"", plan.source, rank)
        header = msgspec.msgpack.decode(raw, type=StateHeader)
        tensors = [np.empty(size, np.uint8) for size in header.sizes]
        packed = PackedState(header.structure, header.specs, tensors)
    broadcast_tensors(collectives, packed.tensors, plan.source, rank)
    if rank in plan.behind:
        restore(codec.unpack(packed))
    return packed.n_bytes


def broadcast_message(collectives: Collectives, message: bytes, source: int, rank: int) -> bytes:
    """One rank's message, at all; its length goes ahead of it."""
    length = np.array([len(message)], np.int64).view(np.uint8)
    collectives.broadcast(length, source)
    if rank == source:
        buffer = np.frombuffer(message, np.uint8).copy()
    else:
        buffer = np.empty(int(length.view(np.int64)[0]), np.uint8)
    if buffer.nbytes:
        collectives.broadcast(buffer, source)
    return buffer.tobytes()


def broadcast_tensors(
    collectives: Collectives, tensors: list[Bytes], source: int, rank: int
) -> None:
    """One rank's tensors, at all, in few large pieces."""
    for piece in pieces([tensor.nbytes for tensor in tensors]):
        _broadcast_piece(collectives, [tensors[n] for n in piece], source, rank)


def _broadcast_piece(
    collectives: Collectives, tensors: list[Bytes], source: int, rank: int
) -> None:
    if len(tensors) == 1 and tensors[0].flags.writeable:
        collectives.broadcast(tensors[0], source)  # a large one travels without a copy
        return
    flat = np.concatenate(tensors)
    collectives.broadcast(flat, source)
    if rank != source:
        ends = np.cumsum([tensor.nbytes for tensor in tensors])
        for tensor, part in zip(tensors, np.split(flat, ends[:-1]), strict=True):
            tensor[:] = part
