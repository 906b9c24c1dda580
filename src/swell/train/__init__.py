"""Elastic training: a library for the training process, which survives resizes of its job.

It runs in users' programs, so it imports neither a training framework nor the rest of Swell before
it has to. Its files, in reading order:

- `elastic`: `Elastic`, the user's model in a group whose size may change at every step.
- `jax`: `Jax`, trees of arrays of a JAX program in an elastic group.
- `amounts`: numbers and intervals as scripts give them.
- `hooks`: the script's own functions at changes of the group.
- `engine`: join, form, step, redo, leave; it knows no framework.
- `setbacks`: errors that look like a death, and who gives up when nobody has died.
- `collectives`: what the engine needs of a framework's collectives, and of a model.
- `backends`: collectives and models of the frameworks.
- `data`: each sample exactly once in an epoch.
- `state`: the tree of a program's state, and its way to members that are behind.
- `checkpoints`: complete or not there at all.
- `reports`: progress and speed, for those who decide on sizes.
- `wrapping`: how a model is spread over members, said without a framework.
- `scaling`: learning-rate rules for a constant batch per member.
- `place`: the place of this process in its job: role, index, and the files it was given.
- `group`: the group as the training thread sees it: join, begin a step, fail, finish.
- `fixed`: groups that never change: a process alone, and one that torchrun has started.
- `forks`: children that the program forks share nothing of the group.
- `bus`: how members agree on who trains together.
- `launch`: runs scripts that know nothing of Swell, in place of torchrun.
- `adapters`: for the training loops of other libraries: `HFCallback` and `LightningPlugin`.
- `hang`: stacks of all threads on SIGUSR1.
- `errors`: the errors of the library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from swell.train.errors import MissingFrameworkError
from swell.train.wrapping import fsdp

if TYPE_CHECKING:
    from swell.train.elastic import Elastic
    from swell.train.jax import Jax

__all__ = ["Elastic", "Jax", "fsdp"]

# Where the public names are. Adapters are imported with the libraries whose loops they adapt.
_HOMES = {
    "Elastic": "swell.train.elastic",
    "Jax": "swell.train.jax",
    "HFCallback": "swell.train.adapters.huggingface",
    "LightningPlugin": "swell.train.adapters.lightning",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the launcher needs none of them."""
    if name in _HOMES:
        try:
            return getattr(import_module(_HOMES[name]), name)
        except ModuleNotFoundError as error:
            if error.name != "numpy":
                raise
            raise MissingFrameworkError(f"swell.train.{name}", "numpy", error) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
