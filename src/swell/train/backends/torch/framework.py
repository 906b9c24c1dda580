"""A torch module with its optimizer, as `Elastic` uses them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.utils.data import default_collate

from swell.train.backends.torch.modules import ModuleLearner
from swell.train.backends.torch.process_group import TorchCollectives
from swell.train.backends.torch.sharded import ShardedLearner
from swell.train.backends.torch.tensors import TorchKind
from swell.train.data.sources import Collate
from swell.train.errors import TrainError
from swell.train.place import Place
from swell.train.state.ledger import TrainLedger
from swell.train.state.tree import TreeCodec
from swell.train.wrapping import FsdpWrap

if TYPE_CHECKING:
    from swell.train.engine import Engine


# Where the operator gave no address of the pod's own.
ANY_ADDRESS = "0.0.0.0"  # noqa: S104


class TorchFramework:
    """A learner with torch's collectives."""

    def __init__(
        self, collectives: TorchCollectives, learner: ModuleLearner | ShardedLearner
    ) -> None:
        self.collectives, self.learner = collectives, learner
        self.codec = learner.codec
        self.collate: Collate = default_collate

    @property
    def module(self) -> Any:
        return self.learner.module

    def connect(self, engine: Engine) -> None:
        self.learner.measures = engine.measures
        if isinstance(self.learner, ShardedLearner):
            self.learner.read_checkpoint = engine.read_checkpoint

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.learner.call(*args, **kwargs)

    def no_sync(self) -> AbstractContextManager[None]:
        return self.learner.no_sync()

    def average(self, values: Any, *, weighted: bool, size: int) -> Any:
        from torch.utils._pytree import tree_map

        weight = self.learner.hook.weight if weighted else 1.0 / size

        def mean(value: Any) -> Any:
            tensor = torch.as_tensor(value, dtype=None, device=self.collectives.device)
            tensor = tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32)) * weight
            if size > 1:
                dist.all_reduce(tensor)
            return tensor.item() if isinstance(value, float | int) else tensor

        return tree_map(mean, values)

    def set_rate_factor(self, factor: float) -> None:
        self.learner.rate.factor = factor


def torch_framework(
    net: torch.nn.Module,
    optimizer: Any,
    *,
    ledger: TrainLedger,
    place: Place | None,
    wrap: Any,
    device: Any,
    backend: str | None,
    redundancy: tuple[int, int],
) -> TorchFramework:
    """The framework for a module, on the device that its parameters are on."""
    if optimizer is not None and not hasattr(optimizer, "register_step_pre_hook"):
        raise TrainError(
            f"the optimizer is a {type(optimizer).__name__}: give one optimizer of torch; it may"
            " have several groups of parameters"
        )
    there = _device_of(net, device)
    name = backend or ("nccl" if there.type == "cuda" else "gloo")
    collectives = TorchCollectives(
        address=(place.address or ANY_ADDRESS) if place else "127.0.0.1",
        backend=name,
        device=there,
        alone=place is None,
    )
    codec = TreeCodec(TorchKind())
    if isinstance(wrap, FsdpWrap):
        if optimizer is None:
            raise TrainError("wrap=train.fsdp needs the optimizer: its state is sharded, too")
        return TorchFramework(
            collectives,
            ShardedLearner(
                collectives,
                ledger,
                codec,
                module=net,
                optimizer=optimizer,
                wrap=wrap,
                redundancy=redundancy,
            ),
        )
    learner = ModuleLearner(collectives, ledger, codec, module=net, optimizer=optimizer, wrap=wrap)
    return TorchFramework(collectives, learner)


def _device_of(net: torch.nn.Module, device: Any) -> torch.device:
    if device is not None:
        return torch.device(device)
    parameter = next(net.parameters(), None)
    return parameter.device if parameter is not None else torch.device("cpu")
