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
from swell.train.state.tree import Bytes, PackedState, TensorSpec

MAGIC = b"SWELLCK1"
PREFIX = struct.Struct("<8sQI")
# A header holds names and numbers; one that claims more than this is not ours.
HEADER_BYTES_MAX = 1 << 30
# Checksums of mapped tensors are made by as much at a time.
_BLOCK_BYTES = 1 << 20


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


def read_state(path: Path, *, mapped: bool = False) -> tuple[CheckpointHeader, PackedState]:
    """The whole state of a file, with every checksum verified.

    Mapped tensors stay on the disk until they are looked at, and the kernel may forget them again:
    a state that is larger than the memory of one member is read part by part.
    """
    read_header(path)
    with path.open("rb") as file:
        header, start = _header(file, path)
        read = _verified if mapped else _read
        tensors = [read(file, path, entry) for entry in header.tensors]
        if mapped and any(entry.n_bytes for entry in header.tensors):
            # Private: who writes to a tensor changes its own copy of a page, and never the file.
            content = np.asarray(np.memmap(file, np.uint8, mode="c", offset=start))
            ends = np.cumsum([entry.n_bytes for entry in header.tensors])
            tensors = np.split(content, ends[:-1])
    return header, PackedState(header.structure, [entry.spec for entry in header.tensors], tensors)


def _read(file: BufferedReader, path: Path, entry: TensorEntry) -> Bytes:
    data = np.empty(entry.n_bytes, np.uint8)
    if file.readinto(data.data) != entry.n_bytes:
        raise CheckpointError(f"{path} is torn: a tensor ends early")
    _check(zlib.crc32(data.data), path, entry)
    return data


def _verified(file: BufferedReader, path: Path, entry: TensorEntry) -> Bytes:
    """Nothing in place of a tensor whose checksum is right."""
    crc, n_bytes = 0, entry.n_bytes
    while n_bytes:
        block = file.read(min(n_bytes, _BLOCK_BYTES))
        if not block:
            raise CheckpointError(f"{path} is torn: a tensor ends early")
        crc, n_bytes = zlib.crc32(block, crc), n_bytes - len(block)
    _check(crc, path, entry)
    return np.empty(0, np.uint8)


def _check(crc: int, path: Path, entry: TensorEntry) -> None:
    if crc != entry.crc:
        raise CheckpointError(f"{path} is damaged: a tensor has another checksum")


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
