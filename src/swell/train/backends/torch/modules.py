"""Replicated modules: DDP, or a wrapper of the user's own, made anew for every group."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from swell.train.backends.torch.process_group import TorchCollectives
from swell.train.backends.torch.updates import (
    check_parameters,
    check_update,
    forget_unscaling,
    refuse_other_optimizers,
)
from swell.train.backends.torch.weighting import GradientHook, RateFactor, weighted_outputs
from swell.train.bus.plan import GroupPlan
from swell.train.errors import TrainError
from swell.train.reports.measures import Measures
from swell.train.state.ledger import TrainLedger
from swell.train.state.replication import replicate
from swell.train.state.tree import PackedState, TreeCodec

Wrap = Callable[[torch.nn.Module], Any]


class ModuleLearner:
    """A module and its optimizer, the same at every member."""

    is_sharded = False

    def __init__(
        self,
        collectives: TorchCollectives,
        ledger: TrainLedger,
        codec: TreeCodec,
        *,
        module: torch.nn.Module,
        optimizer: Any,
        wrap: Wrap | None,
    ) -> None:
        self._collectives, self._ledger, self.codec = collectives, ledger, codec
        self.module, self.optimizer, self._wrap = module, optimizer, wrap
        self.measures: Measures | None = None
        self.hook = GradientHook()
        self.rate = RateFactor(optimizer)
        self._wrapper: Any = module
        self._size = 1
        self._before: tuple[dict[str, torch.Tensor], torch.Tensor] | None = None
        self.has_updated = self._is_between_steps = self.is_updating = False
        # Which parameters are trained, in the group's wrapper.
        self._trains: tuple[bool, ...] = ()
        refuse_other_optimizers(self)
        if optimizer is not None:
            optimizer.register_step_pre_hook(self._before_update)
            optimizer.register_step_post_hook(self._after_update)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        is_ddp = isinstance(self._wrapper, DistributedDataParallel)
        if is_ddp and not torch.is_grad_enabled():
            # DDP would exchange buffers, and a death during an evaluation would end the program.
            return self.module(*args, **kwargs)
        if self._size > 1 and torch.is_grad_enabled() and not self._suits():
            self.detach(broken=False, leaving=False)
            self.attach(0, self._size)
            is_ddp = isinstance(self._wrapper, DistributedDataParallel)
        outputs = self._wrapper(*args, **kwargs)
        if is_ddp or self._size == 1:
            return outputs
        return weighted_outputs(outputs, self.hook.weight * self._size)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        no_sync = getattr(self._wrapper, "no_sync", None)
        return no_sync() if no_sync is not None else contextlib.nullcontext()

    # ---- the group

    def synchronise(self, plan: GroupPlan, rank: int) -> int:
        return replicate(
            self._collectives,
            plan,
            rank,
            self.codec,
            capture=lambda: {
                "ledger": self._ledger.capture(),
                "learner": self.capture(),
                "trains": self._trained_parameters(),
            },
            restore=self._take,
        )

    def _take(self, tree: Any) -> None:
        self.restore(tree["learner"])
        # All members need wrappers for the same parameters, whatever the script of a newcomer does
        # once it has come to the loop.
        for parameter, is_trained in zip(self.module.parameters(), tree["trains"], strict=True):
            parameter.requires_grad_(is_trained)
        self._ledger.restore(tree["ledger"])

    def _suits(self) -> bool:
        """Whether the wrapper was made for the parameters that are trained now.

        DDP averages those that it was made for, no more, and waits for all of them. A wrapper of
        the script's own may be made for some that come and go (networks that take turns).
        """
        now = self._trained_parameters()
        if self._wrap is None:
            return now == self._trains
        return not any(is_new > was for is_new, was in zip(now, self._trains, strict=True))

    def _trained_parameters(self) -> tuple[bool, ...]:
        return tuple(parameter.requires_grad for parameter in self.module.parameters())

    def attach(self, rank: int, size: int) -> None:  # noqa: ARG002
        self._size, self._trains = size, self._trained_parameters()
        if self._wrap is not None:
            self._wrapper = self._wrap(self.module)
        elif size > 1 and any(p.requires_grad for p in self.module.parameters()):
            self._wrapper = DistributedDataParallel(self.module, init_sync=False)
        else:
            self._wrapper = self.module
        if isinstance(self._wrapper, DistributedDataParallel):
            self.hook.measures = self.measures
            self._wrapper.register_comm_hook(None, self.hook.reduce_bucket)

    def detach(self, *, broken: bool, leaving: bool) -> None:  # noqa: ARG002
        """Drop the wrapper for good: hooks of an old DDP would fire beside those of the next."""
        if self._wrapper is self.module:
            return
        old = weakref.ref(self._wrapper)
        self._wrapper = self.module
        if old() is not None:  # in a cycle of references; rare, and costs 50 ms
            gc.collect()

    # ---- steps

    def before_step(self, n_mine: int, weight: float) -> None:
        self.hook.weight, self.hook.n_samples = weight, n_mine
        self.has_updated = self._is_between_steps = self.is_updating = False
        self.hook.measuring = bool(
            self.measures and self.measures.wants_norms(self._ledger.progress.step)
        )
        # Buffers (running means of batch norms) and dropout's state change in a forward pass.
        persistent = {name: b.detach().clone() for name, b in _persistent_buffers(self.module)}
        self._before = persistent, torch.get_rng_state()

    def undo_step(self) -> None:
        if self._before is None:
            return
        buffers, random_state = self._before
        with torch.no_grad():
            for name, buffer in _persistent_buffers(self.module):
                buffer.copy_(buffers[name])
        torch.set_rng_state(random_state)
        self.module.zero_grad(set_to_none=True)
        forget_unscaling(self._ledger.user)

    def after_step(self) -> None:
        self._before = None
        self._is_between_steps = True

    def check_step(self) -> None:
        # An update has asked. Without one (a gradient scaler leaves it out where gradients are not
        # finite, as those of an aborted collective may be) nobody has.
        if not self.has_updated:
            self._confirm()

    def _before_update(self, _: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        between = self._is_between_steps
        check_update(args, kwargs, has_updated=self.has_updated, is_between_steps=between)
        check_parameters(self.optimizer, self.module)
        self._confirm()
        self.is_updating = True
        self.hook.backward_done()
        self.rate.apply()

    def _after_update(self, *_: object) -> None:
        self.rate.take_back()
        self.has_updated, self.is_updating = True, False

    def _confirm(self) -> None:
        """On a GPU a collective that was aborted looks finished: wait for it, and then ask."""
        if self._collectives.is_cuda:
            torch.cuda.current_stream().synchronize()
        self._collectives.check()

    # ---- state

    def capture(self) -> Any:
        optimizer = self.optimizer.state_dict() if self.optimizer is not None else None
        return {"net": dict(self.module.state_dict()), "optimizer": optimizer}

    def restore(self, tree: Any) -> None:
        if "net" not in tree:
            raise TrainError("the checkpoint was made with `wrap=train.fsdp`, in shards")
        self.module.load_state_dict(tree["net"])
        if self.optimizer is not None and tree["optimizer"] is not None:
            self.optimizer.load_state_dict(tree["optimizer"])

    def joined_parts(self, parts: list[PackedState]) -> Any:
        return self.codec.unpack(parts[0])


def _persistent_buffers(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    found = []
    for prefix, part in module.named_modules():
        for name, buffer in part._buffers.items():  # noqa: SLF001 (only they know persistence)
            if buffer is not None and name not in part._non_persistent_buffers_set:  # noqa: SLF001
                found.append((f"{prefix}.{name}", buffer))
    return found
