"""What scripts do with arrays of JAX besides the plain loop; prints a line of JSON.

One process, without Swell: `python -m tests.e2e.train.jax_loop_program`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from swell import train
from swell.train.errors import TrainError


def refusal(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except TrainError as error:
        return str(error)
    return "none"


def arrays(n: int, **more: Any) -> dict[str, Any]:
    return {"w": jnp.ones(n), **more}


def refusals_of_other_shapes() -> list[str]:
    """A checkpoint of another model is none of this one's."""
    said = []
    with tempfile.TemporaryDirectory() as folder:
        for tree in (arrays(3), arrays(4), arrays(3, b=jnp.zeros(())), arrays(3)):
            model = train.Jax(tree, checkpoint=folder)
            said.append(refusal(lambda model=model: list(model.batches(0, 1))))  # type: ignore[misc]
    return said


def a_step_that_breaks_after_donation() -> None:
    """The arrays from before the step are gone, so that it cannot be redone."""
    update = jax.jit(lambda tree: jax.tree.map(lambda leaf: leaf + 1, tree), donate_argnums=0)
    model = train.Jax(arrays(3))
    with model.step():
        model.params = update(model.params)
        raise KeyError


def main() -> None:
    found = {
        "shapes": refusals_of_other_shapes(),
        "donated": refusal(a_step_that_breaks_after_donation),
    }
    print(json.dumps(found))  # noqa: T201 (the output of this program)


if __name__ == "__main__":
    main()
