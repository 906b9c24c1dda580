"""Updates of sharded parameters, done on the shards themselves.

DTensor works out how an operation is sharded, anew for every size of the group: 7 ms of processor
time a parameter (AdamW, torch 2.15), which was most of a pause. An optimizer that treats every
element by itself needs none of that: while it updates, it sees this member's rows as plain tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor

# Optimizers whose update of an element depends on nothing but the element and its own history.
# Those that take norms of whole parameters (Adafactor, Muon, LBFGS) see DTensors, as do subclasses.
_ELEMENTWISE = frozenset(
    {
        torch.optim.ASGD,
        torch.optim.Adadelta,
        torch.optim.Adagrad,
        torch.optim.Adam,
        torch.optim.AdamW,
        torch.optim.Adamax,
        torch.optim.NAdam,
        torch.optim.RAdam,
        torch.optim.RMSprop,
        torch.optim.Rprop,
        torch.optim.SGD,
    }
)


class LocalUpdates:
    """Gives an optimizer the local rows for the time of one update, and the parameters after it."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._is_elementwise = type(optimizer) in _ELEMENTWISE
        self._whole: list[list[torch.Tensor]] | None = None  # of each group, during an update
        self._states: list[dict[str, Any]] = []

    def begin(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Called before an update, with the arguments of the optimizer's step."""
        # A closure computes gradients within the update: it works on the parameters themselves.
        has_closure = kwargs.get("closure") is not None or any(a is not None for a in args[1:])
        groups = self._optimizer.param_groups
        if not self._is_elementwise or has_closure or any(g.get("differentiable") for g in groups):
            return
        self._whole = [group["params"] for group in groups]
        self._states = []
        for group in groups:
            group["params"] = [self._localise(parameter) for parameter in group["params"]]

    def end(self) -> None:
        """Called after an update, or when it broke off."""
        if self._whole is None:
            return
        states = iter(self._states)
        for group, whole in zip(self._optimizer.param_groups, self._whole, strict=True):
            for local, parameter in zip(group["params"], whole, strict=True):
                self._globalise(local, parameter, next(states))
            group["params"] = whole
        self._whole = None

    def _localise(self, parameter: torch.Tensor) -> torch.Tensor:
        state = self._optimizer.state
        if not isinstance(parameter, DTensor):
            self._states.append({})
            return parameter
        local = local_part(parameter)
        if parameter.grad is not None:
            local.grad = local_part(parameter.grad)
        before = state.pop(parameter, None)
        self._states.append(before or {})
        if before is not None:
            state[local] = {key: local_part(value) for key, value in before.items()}
        return local

    def _globalise(
        self, local: torch.Tensor, parameter: torch.Tensor, before: dict[str, Any]
    ) -> None:
        if not isinstance(parameter, DTensor):
            return
        local.grad = None
        state = self._optimizer.state
        after = state.pop(local, None)
        if after is not None:
            state[parameter] = {
                key: _whole_value(value, before.get(key), parameter, local)
                for key, value in after.items()
            }


def local_part(value: Any) -> Any:
    """This member's rows of a sharded tensor, in its own storage; other values as they are."""
    if not isinstance(value, DTensor):
        return value
    with torch.no_grad():
        return value.to_local()


def whole_tensor(local: torch.Tensor, like: DTensor) -> DTensor:
    """The tensor of which these are this member's rows, sharded as another one is."""
    return DTensor.from_local(
        local,
        like.device_mesh,
        like.placements,
        run_check=False,
        shape=like.shape,
        stride=like.stride(),
    )


def _whole_value(value: Any, before: Any, parameter: DTensor, local: torch.Tensor) -> Any:
    if isinstance(before, DTensor) and local_part(before) is value:
        return before
    is_rows = isinstance(value, torch.Tensor) and value.dim() > 0 and value.shape == local.shape
    return whole_tensor(value, parameter) if is_rows else value
