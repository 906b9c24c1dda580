"""How a model is spread over members, said without importing a framework."""

from __future__ import annotations

from typing import Any


class FsdpWrap:
    """Shards parameters, gradients and optimizer state over the members, by torch's FSDP2.

    `units` are classes of modules that are sharded one by one (a transformer's blocks); without
    any, elements of lists and sequences are. Further options go to `fully_shard`.
    """

    def __init__(self, units: tuple[type, ...] = (), **options: Any) -> None:
        self.units, self.options = units, options

    def __call__(self, *units: type, **options: Any) -> FsdpWrap:
        """The same with these units and options: `wrap=train.fsdp(Block)`."""
        return FsdpWrap(units, **options)


fsdp = FsdpWrap()
