"""The part of `bench training` about scripts under `swell launch`, with torchrun beside them."""

from __future__ import annotations

from bench import training


def run() -> dict[str, object]:
    return training.run(tuple(name for name in training.WAYS if not name.startswith("library")))
