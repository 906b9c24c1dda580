"""One checkpoint file: a header of plain values with checksums, then the raw bytes of tensors.

    magic (8) | header length (8) | header's CRC (4) | header (msgpack) | tensors, in order

The header says how long the file is, so that a torn one is known without reading its tensors; the
CRC of each tensor is checked when it is read.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

import msgspec
import numpy as np

from swell.train.errors import CheckpointError
from swell.train.state.tree import PackedState, TensorSpec

MAGIC = b"SWELLCK1"
PREFIX = struct.Struct("<8sQI")
# A header holds names and numbers; one that claims more than this is not ours.
HEADER_BYTES_MAX = 1 << 30


class TensorEntry(msgspec.Struct, frozen=True, array_like=True):
    """One tensor of a file: its kind, its bytes, their checksum."""

    spec: TensorSpec
    n_bytes: int
    crc: int


class CheckpointHeader(msgspec.Struct, frozen=True):
    """All of a checkpoint but its tensors. A file of one part holds the whole state."""

    step: int
    time: str
    structure: bytes
    tensors: list[TensorEntry]
    part: int = 0
    n_parts: int = 1


def blocks(
    packed: PackedState, *, step: int, time: str, part: tuple[int, int]
) -> Iterator[bytes | memoryview]:
    """The file's content, in the order in which it is written."""
    entries = [
        TensorEntry(spec, data.nbytes, zlib.crc32(data.data))
        for spec, data in zip(packed.specs, packed.tensors, strict=True)
    ]
    header = msgspec.msgpack.encode(
        CheckpointHeader(step, time, packed.structure, entries, part[0], part[1])
    )
    yield PREFIX.pack(MAGIC, len(header), zlib.crc32(header)) + header
    for data in packed.tensors:
        if data.nbytes:
            yield data.data  # written without a copy


def read_header(path: Path) -> CheckpointHeader:
    """The header of a file that has its full length; its tensors are not looked at."""
    try:
        with path.open("rb") as file:
            header, start = _header(file, path)
            length = path.stat().st_size
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    expected = start + sum(entry.n_bytes for entry in header.tensors)
    if length != expected:
        raise CheckpointError(f"{path} is torn: it has {length} of {expected} bytes")
    return header


def read_state(path: Path) -> tuple[CheckpointHeader, PackedState]:
    """The whole state of a file, with every checksum verified."""
    read_header(path)
    with path.open("rb") as file:
        header, _ = _header(file, path)
        tensors = []
        for number, entry in enumerate(header.tensors):
            data = np.empty(entry.n_bytes, np.uint8)
            if file.readinto(data.data) != entry.n_bytes:
                raise CheckpointError(f"{path} is torn: tensor {number} ends early")
            if zlib.crc32(data.data) != entry.crc:
                raise CheckpointError(f"{path} is damaged: tensor {number} has another checksum")
            tensors.append(data)
    specs = [entry.spec for entry in header.tensors]
    return header, PackedState(header.structure, specs, tensors)


def _header(file: BufferedReader, path: Path) -> tuple[CheckpointHeader, int]:
    prefix = file.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        raise CheckpointError(f"{path} is torn: it has {len(prefix)} bytes")
    magic, length, crc = PREFIX.unpack(prefix)
    if magic != MAGIC or length > HEADER_BYTES_MAX:
        raise CheckpointError(f"{path} is no checkpoint of swell.train")
    raw = file.read(length)
    if len(raw) < length or zlib.crc32(raw) != crc:
        raise CheckpointError(f"{path} is torn: its header is not complete")
    return msgspec.msgpack.decode(raw, type=CheckpointHeader), PREFIX.size + length
