"""Updates that are applied by all members or by none: what they may be, and what a break leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from swell.train.errors import TrainError
from swell.train.state.ledger import UserState


def check_update(
    args: Sequence[Any], kwargs: Mapping[str, Any], *, has_updated: bool, is_between_steps: bool
) -> None:
    """Refuse an update that could be applied by some members only.

    `args` and `kwargs` are those of the optimizer's `step`, itself the first of them.
    """
    if kwargs.get("closure") is not None or any(one is not None for one in args[1:]):
        raise TrainError(
            "optimizer.step has a closure, whose gradients nobody can confirm before the update:"
            " compute them first, and call it without"
        )
    if is_between_steps:
        raise TrainError(
            "an optimizer.step() after the step that it belongs to: call it within"
            " `with model.step():`, since a member that died before it would lack it"
        )
    if has_updated:
        raise TrainError(
            "a second optimizer.step() in one step: if a member died between the two, some would"
            " have done one and some both; a step has one update, after all its backward passes"
        )


def forget_unscaling(user: UserState) -> None:
    """Let gradient scalers unscale the gradients of a step that is redone.

    A scaler remembers until its `update` that it has unscaled the gradients of an optimizer: those
    of the step that broke off, which are gone.
    """
    for value in user.values():
        if isinstance(value, torch.amp.GradScaler):
            value._per_optimizer_states.clear()  # noqa: SLF001 (torch has no public way)
