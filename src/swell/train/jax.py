"""The class `Jax`: parameters and optimizer state of a JAX program, in an elastic group.

Every process computes on its own devices; gradients are averaged in host memory, over the library's
own lines. JAX's distributed runtime is not used: it cannot be started anew for another group while
arrays are alive, and without it a change costs no recompilation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from swell.train.elastic import Elastic
from swell.train.errors import MissingFrameworkError, TrainError


class Jax:
    """Trees of arrays that follow the group. Loops and steps are those of `Elastic`.

    `job.params` and `job.opt_state` are the trees; a step assigns them anew after `job.average` has
    averaged the gradients. If the step is redone, they are as they were before it.
    """

    def __init__(self, params: Any, opt_state: Any = None, **options: Any) -> None:
        self._trees = _ArrayTrees(params, opt_state)
        self._elastic = Elastic(self._trees, **options)

    @property
    def params(self) -> Any:
        return self._trees.values["params"]

    @params.setter
    def params(self, tree: Any) -> None:
        self._trees.values["params"] = tree

    @property
    def opt_state(self) -> Any:
        return self._trees.values["opt_state"]

    @opt_state.setter
    def opt_state(self, tree: Any) -> None:
        self._trees.values["opt_state"] = tree

    def average(self, tree: Any, *, weighted: bool = True) -> Any:
        """The mean over all members of a tree of arrays, as arrays of JAX."""
        leaves, form = self._trees.tree.flatten(tree)
        arrays = [np.asarray(leaf, _sum_type(leaf)) for leaf in leaves]
        averages = self._elastic.average(arrays, weighted=weighted)
        return self._trees.rebuilt(form, leaves, averages)

    def __getattr__(self, name: str) -> Any:
        # The loop, the group and the hooks are those of `Elastic`.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._elastic, name)


class _ArrayTrees:
    """The two trees, as an object with `state_dict`. Every member builds the same structure."""

    def __init__(self, params: Any, opt_state: Any) -> None:
        try:
            import jax
        except ImportError as error:
            raise MissingFrameworkError("train.Jax", "jax", error) from error
        from swell.train.backends.jax_arrays import JaxKind

        self.tree, self._asarray, self._is_key = jax.tree, jax.numpy.asarray, JaxKind().is_key
        self.values = {"params": params, "opt_state": opt_state}
        self._before_step: dict[str, tuple[list[Any], Any]] = {}

    def remember(self) -> None:
        """Keep the trees as they are before a step. Arrays of JAX never change."""
        self._before_step = {k: self.tree.flatten(value) for k, value in self.values.items()}

    def put_back(self) -> None:
        """Have the trees from before the step again, whatever of it has been assigned."""
        for name, (leaves, form) in self._before_step.items():
            if any(hasattr(leaf, "is_deleted") and leaf.is_deleted() for leaf in leaves):
                raise TrainError(
                    f"a step broke off after its update, which has donated the {name} that it began"
                    " with: let the update come after all collectives of a step"
                )
            self.values[name] = self.tree.unflatten(form, leaves)

    def state_dict(self) -> dict[str, list[Any]]:
        return {
            name: [self._kept(leaf) for leaf in self.tree.leaves(value)]
            for name, value in self.values.items()
        }

    def _kept(self, leaf: Any) -> Any:
        return leaf if self._is_key(leaf) else np.asarray(leaf, _kept_type(leaf))

    def load_state_dict(self, state: dict[str, list[Any]]) -> None:
        for name, value in self.values.items():
            leaves, form = self.tree.flatten(value)
            given = state[name]
            here, there = ([list(np.shape(leaf)) for leaf in one] for one in (leaves, given))
            if here != there:
                raise TrainError(
                    f"the state was made by another program: the shapes of its {name} are {there},"
                    f" and not {here}"
                )
            self.values[name] = self.rebuilt(form, leaves, given)

    def rebuilt(self, form: Any, old: list[Any], new: list[Any]) -> Any:
        """A tree with new values, and the element types of the old ones."""
        made = [
            value if self._is_key(leaf) else self._asarray(value, dtype=np.asarray(leaf).dtype)
            for leaf, value in zip(old, new, strict=True)
        ]
        return self.tree.unflatten(form, made)


def _kept_type(leaf: Any) -> Any:
    """The type to keep a leaf in: types that only JAX knows fit into float32 without loss."""
    dtype = np.asarray(leaf).dtype
    return np.float32 if dtype.kind == "V" or dtype.str.startswith("<V") else dtype


def _sum_type(leaf: Any) -> Any:
    return np.float64 if np.asarray(leaf).dtype == np.float64 else np.float32
