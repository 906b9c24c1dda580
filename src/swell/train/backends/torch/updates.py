"""Updates that are applied by all members or by none: what they may be, and what a break leaves."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

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


class UpdatedModel(Protocol):
    """A module that one optimizer updates."""

    module: torch.nn.Module
    optimizer: Any
    # An optimizer may be made of others, whose updates are parts of its own.
    is_updating: bool


def refuse_other_optimizers(model: UpdatedModel) -> None:
    """Refuse updates of a model by an optimizer that Elastic was not given.

    No member would confirm them, and its moments would stay with the member that has them: a
    newcomer, whose moments are new, would train another model than the others.
    """
    known = weakref.ref(model)  # the hook is torch's for good

    def check(optimizer: Any, *_: object) -> None:
        ours = known()
        if ours is None or optimizer is ours.optimizer or ours.is_updating:
            return
        if _have_common(_parameters_of(optimizer), ours.module.parameters()):
            raise TrainError(
                f"a {type(optimizer).__name__} updates the model, and Elastic was not given it:"
                " `Elastic(net, optimizer)` needs the optimizer that the loop uses"
            )

    register_optimizer_step_pre_hook(check)


def check_parameters(optimizer: Any, module: torch.nn.Module) -> None:
    """Refuse an update of a parameter whose gradient and value every member has for itself."""
    known = {id(parameter) for parameter in module.parameters()}
    for parameter in _parameters_of(optimizer):
        if parameter.grad is not None and id(parameter) not in known:
            raise _unknown(parameter)


def parameter_names(optimizer: Any, module: torch.nn.Module) -> list[list[str]]:
    """The names of the parameters in each group of an optimizer."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for parameter in _parameters_of(optimizer):
        if id(parameter) not in names:
            raise _unknown(parameter)
    return [[names[id(p)] for p in group["params"]] for group in optimizer.param_groups]


def _unknown(parameter: torch.Tensor) -> TrainError:
    return TrainError(
        f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not in the model,"
        " so that every member would have its own: make it a part of the module that Elastic is"
        " given (a loss with parameters, say)"
    )


def _parameters_of(optimizer: Any) -> Iterable[torch.Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _have_common(some: Iterable[object], others: Iterable[object]) -> bool:
    return not {id(one) for one in some}.isdisjoint({id(one) for one in others})


def forget_unscaling(user: UserState) -> None:
    """Let gradient scalers unscale the gradients of a step that is redone.

    A scaler remembers until its `update` that it has unscaled the gradients of an optimizer: those
    of the step that broke off, which are gone.
    """
    for value in user.values():
        if isinstance(value, torch.amp.GradScaler):
            value._per_optimizer_states.clear()  # noqa: SLF001 (torch has no public way)
