"""Gradients weighted by samples, measured on the way, and the factor of the learning rate.

Annotations are real types here, not texts: DDP compares those of its hook.
"""

import time
from typing import Any

import torch
import torch.distributed as dist

from swell.train.reports.measures import Measures


class GradientHook:
    """DDP's communication hook: the sum over members of weighted gradients.

    A member's gradient is the mean over its samples. Weighted by its part of the global batch, the
    sum over members is the mean over all samples, whatever their parts are.
    """

    def __init__(self) -> None:
        self.weight = 1.0
        self.n_samples = 0
        self.measures: Measures | None = None
        self.measuring = False
        self._own: list[torch.Tensor] = []
        self._mean: list[torch.Tensor] = []
        self._launched = 0.0

    def reduce_bucket(
        self, _state: object, bucket: dist.GradBucket
    ) -> torch.futures.Future[torch.Tensor]:
        flat = bucket.buffer()
        if self.measuring:
            self._own.append(flat.detach().float().square().sum())
        flat.mul_(self.weight)
        self._launched = time.monotonic()
        work = dist.all_reduce(flat, async_op=True)
        return work.get_future().then(self._reduced)

    def _reduced(self, future: torch.futures.Future[Any]) -> torch.Tensor:
        value: torch.Tensor = future.value()[0]
        if self.measuring:
            self._mean.append(value.detach().float().square().sum())
        return value

    def backward_done(self) -> None:
        """Called before the update: the time since the last launch was spent waiting."""
        if self.measures and self._launched:
            self.measures.add_sync(time.monotonic() - self._launched)
            self._launched = 0.0
        if self.measuring and self.measures and self._mean:
            own = float(torch.stack(self._own).sum())
            mean = float(torch.stack(self._mean).sum())
            self.measures.set_norms(own, mean, self.n_samples)
        self._own.clear()
        self._mean.clear()


class WeightOutputs(torch.autograd.Function):  # type: ignore[misc]
    """The identity, whose gradient is multiplied: for wrappers that average by themselves."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad * ctx.factor, None


def weighted_outputs(outputs: Any, factor: float) -> Any:
    """Outputs through which a member's gradient counts `factor` times."""
    if factor == 1.0:
        return outputs
    from torch.utils._pytree import tree_map

    def weigh(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            return WeightOutputs.apply(value, factor)
        return value

    return tree_map(weigh, outputs)


class RateFactor:
    """Multiplies the learning rates during an update, so that schedulers see their own values."""

    def __init__(self, optimizer: Any) -> None:
        self.factor = 1.0
        self._own: list[Any] = []
        self._optimizer = optimizer

    def apply(self) -> None:
        if self.factor != 1.0:
            groups = self._optimizer.param_groups
            self._own = [group["lr"] for group in groups]
            for group in groups:
                group["lr"] = group["lr"] * self.factor

    def take_back(self) -> None:
        if self._own:
            for group, rate in zip(self._optimizer.param_groups, self._own, strict=True):
                group["lr"] = rate
            self._own = []
