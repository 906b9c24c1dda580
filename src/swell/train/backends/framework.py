"""The framework of a user's model, as `Elastic` uses it, and how it is found."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from swell.train.collectives import Collectives, Learner
from swell.train.data.sources import Collate
from swell.train.errors import MissingFrameworkError, TrainError
from swell.train.place import Place
from swell.train.state.ledger import TrainLedger
from swell.train.state.tree import TreeCodec

if TYPE_CHECKING:
    from swell.train.engine import Engine


class ModelFramework(Protocol):
    """A model with the collectives it trains by."""

    codec: TreeCodec

    @property
    def collectives(self) -> Collectives: ...

    @property
    def learner(self) -> Learner: ...

    @property
    def collate(self) -> Collate: ...

    @property
    def module(self) -> Any: ...

    def connect(self, engine: Engine) -> None:
        """Called once, when there is an engine: for its measures, and whether it was aborted."""
        ...

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model as the group's wrapper has it."""
        ...

    def no_sync(self) -> AbstractContextManager[None]:
        """Gradients of backward passes within stay this member's own until one outside."""
        ...

    def average(self, values: Any, *, weighted: bool, size: int) -> Any: ...

    def set_rate_factor(self, factor: float) -> None:
        """Multiply the learning rate of the coming steps."""
        ...


def framework_of(
    net: Any,
    optimizer: Any,
    *,
    ledger: TrainLedger,
    place: Place | None,
    wrap: Any,
    device: Any,
    backend: str | None,
    redundancy: tuple[int, int],
) -> ModelFramework:
    """Torch for a torch module; arrays for everything else. Torch is imported by its user only."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(net, torch.nn.Module):
        from swell.train.backends.torch.framework import torch_framework

        return torch_framework(
            net,
            optimizer,
            ledger=ledger,
            place=place,
            wrap=wrap,
            device=device,
            backend=backend,
            redundancy=redundancy,
        )
    if wrap is not None:
        _import_torch()
        raise TrainError(f"wrap is for torch modules, and the model is a {type(net).__name__}")
    from swell.train.backends.arrays import array_framework

    return array_framework(net, optimizer, ledger=ledger, place=place)


def _import_torch() -> None:
    """Tell that torch is not installed, if that is why a model cannot be one of its modules."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingFrameworkError("wrap", "torch", error) from error
