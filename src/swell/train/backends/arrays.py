"""A model of numpy arrays, or any object with `state_dict`: the same state at every member."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from swell.train.backends.host import HostCollectives
from swell.train.bus.plan import GroupPlan
from swell.train.data.sources import Collate, stack
from swell.train.errors import TrainError
from swell.train.place import Place
from swell.train.reports.measures import Measures
from swell.train.state.ledger import TrainLedger
from swell.train.state.replication import replicate
from swell.train.state.tree import PackedState, TensorKind, TreeCodec

if TYPE_CHECKING:
    from swell.train.engine import Engine


@runtime_checkable
class Undoable(Protocol):
    """A part of the model that can be again what it was before a step."""

    def remember(self) -> None: ...

    def put_back(self) -> None: ...


class ArrayLearner:
    """Arrays are changed in place, so that the script's own names for them stay good."""

    is_sharded = False
    has_updated = False  # the script's own assignments cannot be seen

    def __init__(
        self,
        collectives: HostCollectives,
        ledger: TrainLedger,
        parts: dict[str, Any],
        codec: TreeCodec,
    ) -> None:
        self._collectives, self._ledger, self.codec = collectives, ledger, codec
        self._parts = {name: part for name, part in parts.items() if part is not None}
        self.measures: Measures | None = None
        self._weight = 1.0
        for name, part in self._parts.items():
            if not _is_arrays(part) and not hasattr(part, "load_state_dict"):
                raise TrainError(
                    f"the {name} is a {type(part).__name__}: give a dict of arrays, or an object"
                    " with state_dict and load_state_dict"
                )

    def synchronise(self, plan: GroupPlan, rank: int) -> int:
        return replicate(
            self._collectives,
            plan,
            rank,
            self.codec,
            capture=lambda: {"ledger": self._ledger.capture(), "learner": self.capture()},
            restore=self._take,
        )

    def _take(self, tree: Any) -> None:
        self._ledger.restore(tree["ledger"])
        self.restore(tree["learner"])

    def attach(self, rank: int, size: int) -> None:
        """Do nothing: arrays need no wrapper."""

    def detach(self, *, broken: bool, leaving: bool) -> None:
        """Do nothing: arrays need no wrapper."""

    def before_step(self, n_mine: int, weight: float) -> None:  # noqa: ARG002
        self._weight = weight
        for part in self._undoable():
            part.remember()

    def undo_step(self) -> None:
        """Put back what can be: a script changes other arrays after a step's last collective."""
        for part in self._undoable():
            part.put_back()

    def _undoable(self) -> list[Undoable]:
        return [part for part in self._parts.values() if isinstance(part, Undoable)]

    def after_step(self) -> None:
        """Do nothing."""

    def check_step(self) -> None:
        """Do nothing: a collective on the host either happened or raised."""

    def capture(self) -> Any:
        return {
            name: part if _is_arrays(part) else part.state_dict()
            for name, part in self._parts.items()
        }

    def restore(self, tree: Any) -> None:
        for name, part in self._parts.items():
            if tree.get(name) is None:
                raise TrainError(f"the state was made by a program without {name}")
            if not _is_arrays(part):
                part.load_state_dict(tree[name])
                continue
            for key, array in part.items():
                given = tree[name].get(key)
                if np.shape(given) != array.shape or given is None:  # it would be broadcast
                    raise TrainError(
                        f'the state was made by another program: its {name} has no "{key}" of'
                        f" shape {array.shape}"
                    )
                array[...] = given

    def joined_parts(self, parts: list[PackedState]) -> Any:
        return self.codec.unpack(parts[0])

    def set_rate_factor(self, factor: float) -> None:
        optimizer = self._parts.get("optimizer")
        if optimizer is not None and hasattr(optimizer, "rate_factor"):
            optimizer.rate_factor = factor

    def _sum(self, flat: np.ndarray[Any, Any]) -> None:
        started = time.monotonic()
        self._collectives.sum(flat)
        if self.measures:
            self.measures.add_sync(time.monotonic() - started)

    def average(self, tree: Any, *, weighted: bool = True, size: int = 1) -> Any:
        """The mean over all members, each weighted by its part of the global batch."""
        weight = self._weight if weighted else 1.0 / size
        leaves: list[Any] = []
        rebuild = _leaves(tree, leaves)
        arrays = [np.asarray(leaf) for leaf in leaves]
        kinds = sorted({_sum_type(array) for array in arrays})
        results: list[Any] = [None] * len(arrays)
        for kind in kinds:
            mine = [n for n, array in enumerate(arrays) if _sum_type(array) == kind]
            flat = np.concatenate([arrays[n].reshape(-1).astype(kind) for n in mine])
            flat *= np.asarray(weight, kind)
            self._sum(flat)
            ends = np.cumsum([arrays[n].size for n in mine])
            for n, part in zip(mine, np.split(flat, ends[:-1]), strict=True):
                results[n] = part.reshape(arrays[n].shape)
        return rebuild(
            [_as_given(leaf, result) for leaf, result in zip(leaves, results, strict=True)]
        )


class ArrayFramework:
    """A model of arrays with its collectives over TCP."""

    def __init__(self, learner: ArrayLearner, collectives: HostCollectives, module: Any) -> None:
        self.learner, self.collectives, self.module = learner, collectives, module
        self.codec = learner.codec
        self.collate: Collate = stack

    def connect(self, engine: Engine) -> None:
        self.learner.measures = engine.measures

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def no_sync(self) -> AbstractContextManager[None]:
        """Do nothing: gradients of arrays are averaged when the script says so."""
        return nullcontext()

    def average(self, values: Any, *, weighted: bool, size: int) -> Any:
        return self.learner.average(values, weighted=weighted, size=size)

    def set_rate_factor(self, factor: float) -> None:
        """Set the factor at an optimizer that knows one; others keep their rate."""
        self.learner.set_rate_factor(factor)


def array_framework(
    net: Any, optimizer: Any, *, ledger: TrainLedger, place: Place | None
) -> ArrayFramework:
    """The framework of a process at its place in a job; one alone meets nobody."""
    address, secret = (place.address, place.secret) if place else ("127.0.0.1", b"")
    collectives = HostCollectives(address, secret)
    parts = {"net": net, "optimizer": optimizer}
    learner = ArrayLearner(collectives, ledger, parts, TreeCodec(*_kinds()))
    return ArrayFramework(learner, collectives, net)


def _kinds() -> tuple[TensorKind, ...]:
    """Arrays of JAX, too, in a program that uses it."""
    if sys.modules.get("jax") is None:
        return ()
    from swell.train.backends.jax_arrays import JaxKind

    return (JaxKind(),)


def _is_arrays(part: Any) -> bool:
    return isinstance(part, dict) and all(isinstance(v, np.ndarray) for v in part.values())


def _sum_type(array: np.ndarray[Any, Any]) -> str:
    return "<f4" if array.dtype == np.float32 else "<f8"


def _as_given(given: Any, result: Any) -> Any:
    return float(result) if isinstance(given, float | int) else result


def _leaves(tree: Any, found: list[Any]) -> Callable[[Sequence[Any]], Any]:
    """Append the leaves of a tree, and return the function that puts others in their places."""
    if isinstance(tree, dict):
        parts = {key: _leaves(value, found) for key, value in tree.items()}
        return lambda new: {key: part(new) for key, part in parts.items()}
    if isinstance(tree, list | tuple):
        kinds = [_leaves(value, found) for value in tree]
        made = getattr(tree, "_make", type(tree))  # named tuples are made by another name
        return lambda new: made(part(new) for part in kinds)
    number = len(found)
    found.append(tree)
    return lambda new: new[number]
