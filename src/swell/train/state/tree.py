"""A tree of values as a structure of plain data and a list of tensors, and back.

Nothing is ever pickled: the structure is msgpack, and tensors are raw bytes beside it. A structure
from outside can therefore hold values and tensors, and nothing that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from swell.train.errors import UnsavableStateError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

# Limits of what msgpack carries as an integer; larger ones (states of random generators) travel as
# text.
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**64 - 1
# One broadcast carries as much as this, so that few large ones carry any state, and the copy that
# is made for one is bounded.
PIECE_BYTES = 64 << 20


class TensorSpec(msgspec.Struct, frozen=True, array_like=True):
    """The kind of a tensor (its framework), its element type and its shape."""

    kind: str
    dtype: str
    shape: tuple[int, ...]


class TensorKind(Protocol):
    """How the tensors of one framework become bytes in host memory, and come back."""

    name: str

    def is_one(self, value: object) -> bool: ...

    def spec(self, tensor: Any) -> TensorSpec:
        """Return what `from_bytes` has to know; UnsavableStateError for what cannot travel."""
        ...

    def to_bytes(self, tensor: Any) -> Bytes:
        """The tensor's bytes, without a copy where it lies in host memory."""
        ...

    def from_bytes(self, spec: TensorSpec, data: Bytes) -> Any: ...


class PackedState(NamedTuple):
    """A state on its way: the structure as msgpack, and the bytes of each tensor."""

    structure: bytes
    specs: list[TensorSpec]
    tensors: list[Bytes]

    @property
    def n_bytes(self) -> int:
        return len(self.structure) + sum(tensor.nbytes for tensor in self.tensors)


class NumpyKind:
    """Arrays of numpy."""

    name = "numpy"

    def is_one(self, value: object) -> bool:
        return isinstance(value, np.ndarray)

    def spec(self, tensor: Any) -> TensorSpec:
        if tensor.dtype.hasobject:
            raise UnsavableStateError("an array of Python objects")
        if tensor.dtype.names:
            raise UnsavableStateError("an array of records: keep one array a field")
        # The texts of types that other packages add (bfloat16) say no more than their size.
        text = tensor.dtype.name if tensor.dtype.kind == "V" else tensor.dtype.str
        return TensorSpec(self.name, text, tuple(tensor.shape))

    def to_bytes(self, tensor: Any) -> Bytes:
        return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)

    def from_bytes(self, spec: TensorSpec, data: Bytes) -> Any:
        return data.view(np.dtype(spec.dtype)).reshape(spec.shape)


class NumpyScalarKind(NumpyKind):
    """Scalars of numpy, such as the mean of an array."""

    name = "numpy scalar"

    def is_one(self, value: object) -> bool:
        return isinstance(value, np.generic)

    def from_bytes(self, spec: TensorSpec, data: Bytes) -> Any:
        return super().from_bytes(spec, data)[()]


NUMPY: tuple[TensorKind, ...] = (NumpyScalarKind(), NumpyKind())


class TreeCodec:
    """Packs and unpacks trees. Kinds are asked in their order; numpy is always known."""

    def __init__(self, *kinds: TensorKind) -> None:
        self._kinds: tuple[TensorKind, ...] = (*kinds, *NUMPY)
        self._by_name = {kind.name: kind for kind in self._kinds}

    def pack(self, tree: object) -> PackedState:
        """The tree's structure and tensors. Tensors may share memory with the tree."""
        specs: list[TensorSpec] = []
        tensors: list[Bytes] = []

        def tensor(value: object, path: str) -> object:
            kind = self._kind_of(value, path)
            specs.append(_spec(kind, value, path))
            tensors.append(kind.to_bytes(value))
            return {"x": len(specs) - 1}

        structure = _strip(tree, "state", tensor)
        return PackedState(msgspec.msgpack.encode(structure), specs, tensors)

    def check(self, value: object, path: str) -> None:
        """Raise UnsavableStateError if a value could neither travel nor be saved."""
        _strip(value, path, lambda leaf, at: _spec(self._kind_of(leaf, at), leaf, at))

    def _kind_of(self, value: object, path: str) -> TensorKind:
        kind = next((one for one in self._kinds if one.is_one(value)), None)
        if kind is None:
            raise UnsavableStateError(
                f"{path} is a {type(value).__name__}: give it state_dict and load_state_dict,"
                " or keep plain values and tensors"
            )
        return kind

    def unpack(self, packed: PackedState) -> Any:
        if strange := {spec.kind for spec in packed.specs} - set(self._by_name):
            raise UnsavableStateError(
                f"the state has tensors of {', '.join(sorted(strange))}: another program made it"
            )
        values = [
            self._by_name[spec.kind].from_bytes(spec, data)
            for spec, data in zip(packed.specs, packed.tensors, strict=True)
        ]
        return _fill(msgspec.msgpack.decode(packed.structure), values)


def copied(packed: PackedState) -> PackedState:
    """The same state in memory of its own, so that the tree may change."""
    return packed._replace(tensors=[tensor.copy() for tensor in packed.tensors])


def pieces(sizes: list[int], limit: int = PIECE_BYTES) -> Iterator[list[int]]:
    """Tensors by their numbers, put together to few pieces; an empty tensor is in none."""
    piece: list[int] = []
    n_bytes = 0
    for number, size in enumerate(sizes):
        if not size:
            continue
        if piece and n_bytes + size > limit:
            yield piece
            piece, n_bytes = [], 0
        piece.append(number)
        n_bytes += size
    if piece:
        yield piece


def _spec(kind: TensorKind, value: object, path: str) -> TensorSpec:
    try:
        return kind.spec(value)
    except UnsavableStateError as error:
        message = f"{path} can neither travel nor be saved: it is {error}"
        raise UnsavableStateError(message) from error


def _strip(value: object, path: str, tensor: Callable[[object, str], object]) -> object:
    match value:
        case np.generic():  # some are floats or texts of Python as well
            return tensor(value, path)
        case None | bool() | float() | str() | bytes() | int():
            return _plain(value)
        case tuple():
            return {"t": [_strip(v, f"{path}[{n}]", tensor) for n, v in enumerate(value)]}
        case list():
            return [_strip(v, f"{path}[{n}]", tensor) for n, v in enumerate(value)]
        case Mapping():
            items = value.items()
            return {"d": [[_key(k, path), _strip(v, f"{path}[{k!r}]", tensor)] for k, v in items]}
        case _:
            return tensor(value, path)


def _key(key: object, path: str) -> object:
    if isinstance(key, np.generic):  # equal to what it is converted to, and found by it
        key = key.item()
    if isinstance(key, str | int | float | None):
        return _plain(key)
    if isinstance(key, tuple):
        return {"t": [_key(part, path) for part in key]}
    raise UnsavableStateError(f"{path} has a {type(key).__name__} for a key: keys are plain values")


def _plain(value: bool | float | str | bytes | None) -> object:
    """The value as msgpack has it: an enumeration's member, say, as the text that it is."""
    match value:
        case bool() | None:
            return value
        case int():
            small = INTEGER_MIN <= value <= INTEGER_MAX
            return int(value) if small else {"i": str(int(value))}
        case float():
            return float(value)
        case str():
            return str.__str__(value)
        case _:
            return bytes(value)


def _fill(node: Any, tensors: list[Any]) -> Any:
    if isinstance(node, list):
        return [_fill(part, tensors) for part in node]
    if not isinstance(node, dict):
        return node
    ((tag, content),) = node.items()
    match tag:
        case "x":
            return tensors[content]
        case "i":
            return int(content)
        case "t":
            return tuple(_fill(part, tensors) for part in content)
        case _:
            return {_fill(key, tensors): _fill(value, tensors) for key, value in content}
