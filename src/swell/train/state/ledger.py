"""The state of a program besides its model: progress, place in the data, noise, user's values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from swell.train.errors import TrainError
from swell.train.reports.noise import GradientNoise


@dataclass(frozen=True, slots=True)
class Progress:
    """Steps and samples that are done by all members together, and the place in the data."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    samples: int = 0

    def after(self, n_samples: int) -> Progress:
        """The progress after one more step with so many samples."""
        return replace(
            self,
            step=self.step + 1,
            position=self.position + n_samples,
            samples=self.samples + n_samples,
        )

    def in_next_epoch(self) -> Progress:
        return replace(self, epoch=self.epoch + 1, position=0)


class UserState(MutableMapping[str, Any]):
    """The mapping `job.state`: plain values, and objects with `state_dict` and `load_state_dict`.

    A state that arrives before its object was put here waits for it.
    """

    def __init__(self) -> None:
        # Raises for a plain value that cannot travel. Else the first newcomer would end the
        # training, perhaps hours later.
        self.check: Callable[[object, str], None] = lambda _value, _path: None
        self._values: dict[str, Any] = {}
        self._waiting: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if hasattr(value, "param_groups"):
            # Of a broken step, one of two optimizers may have done its part, and only at some.
            raise TrainError(
                f'state["{key}"] is an optimizer: only the one that Elastic was given is updated by'
                " all members or by none; put all parameters into its groups"
            )
        if not _keeps_state(value):
            self.check(value, f'state["{key}"]')
        self._values[key] = value
        if _keeps_state(value) and key in self._waiting:
            value.load_state_dict(self._waiting.pop(key))

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def capture(self) -> dict[str, Any]:
        """All values, those that wait for their object included: they must not be lost."""
        objects = {k: v.state_dict() for k, v in self._values.items() if _keeps_state(v)}
        plain = {k: v for k, v in self._values.items() if not _keeps_state(v)}
        return {"objects": {**self._waiting, **objects}, "plain": plain}

    def restore(self, tree: dict[str, Any]) -> None:
        self._take(tree["plain"])
        for key, state in tree["objects"].items():
            if key in self._values:
                self._values[key].load_state_dict(state)
            else:
                self._waiting[key] = state

    def plain_values(self) -> dict[str, Any]:
        """A copy of the plain values, from before a step that may have to be redone."""
        return copy.deepcopy({k: v for k, v in self._values.items() if not _keeps_state(v)})

    def put_back(self, plain: dict[str, Any]) -> None:
        """Have these plain values again, and no others: what a broken step has added goes."""
        for key in [k for k, v in self._values.items() if not _keeps_state(v) and k not in plain]:
            del self._values[key]
        self._take(plain)

    def _take(self, plain: dict[str, Any]) -> None:
        self._values.update({k: taken_over(self._values.get(k), v) for k, v in plain.items()})


def taken_over(old: Any, new: Any) -> Any:
    """A list or dict with the new content, which stays the script's own object and of its type.

    A script may have another name for it; and a `Counter` that has travelled comes as a dict.
    """
    if isinstance(old, list) and isinstance(new, list):
        old[:] = new
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        values = {key: taken_over(old.get(key), value) for key, value in new.items()}
        old.clear()
        old.update(values)
        return old
    return new


class TrainLedger:
    """Progress, user's values, and the data's own state, as one tree."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.user = UserState()
        # As it was measured last. A rule of learning rates reads it, so all members have the same.
        self.noise: GradientNoise | None = None
        # Set while a loop over the data is open: the state of its source, and the way back.
        self.capture_data: Callable[[Progress], Any] | None = None
        self.restore_data: Callable[[Any], None] | None = None
        self._data: Any = None  # restored before there was a loop

    def capture(self) -> dict[str, Any]:
        data = self.capture_data(self.progress) if self.capture_data else self._data
        return {
            "progress": asdict(self.progress),
            "user": self.user.capture(),
            "data": data,
            "noise": asdict(self.noise) if self.noise else None,
        }

    def restore(self, tree: dict[str, Any]) -> None:
        self.progress = Progress(**tree["progress"])
        self.user.restore(tree["user"])
        noise = tree.get("noise")  # checkpoints of the first versions have none
        self.noise = GradientNoise(**noise) if noise else None
        self._data = tree["data"]
        if self.restore_data:
            self.restore_data(self._data)

    def follow(self, capture: Callable[[Progress], Any], restore: Callable[[Any], None]) -> None:
        """Take the state of an open loop over data into the tree; hand a restored one to it."""
        self.capture_data, self.restore_data = capture, restore
        if self._data is not None:
            restore(self._data)


def _keeps_state(value: object) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
