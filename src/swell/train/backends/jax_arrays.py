"""Arrays of JAX as bytes in host memory, keys of random numbers among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from swell.train.state.tree import Bytes, TensorSpec

# Of a key travels the name of its algorithm and the numbers that it is made of.
_KEY = "key:"


class JaxKind:
    """Arrays of JAX. A restored one lies on the default device."""

    name = "jax"

    def __init__(self) -> None:
        import jax

        self._jax: Any = jax

    def is_one(self, value: object) -> bool:
        return isinstance(value, self._jax.Array)

    def is_key(self, value: Any) -> bool:
        """Whether this is an array of keys of random numbers, which numpy knows nothing of."""
        dtypes = self._jax.dtypes
        return self.is_one(value) and bool(dtypes.issubdtype(value.dtype, dtypes.prng_key))

    def spec(self, tensor: Any) -> TensorSpec:
        if self.is_key(tensor):
            numbers, random = self._host(tensor), self._jax.random
            return TensorSpec(self.name, f"{_KEY}{random.key_impl(tensor)}", numbers.shape)
        return TensorSpec(self.name, np.dtype(tensor.dtype).name, tuple(tensor.shape))

    def to_bytes(self, tensor: Any) -> Bytes:
        return np.ascontiguousarray(self._host(tensor)).reshape(-1).view(np.uint8)

    def from_bytes(self, spec: TensorSpec, data: Bytes) -> Any:
        if spec.dtype.startswith(_KEY):
            numbers = self._jax.numpy.array(data.view(np.uint32).reshape(spec.shape))
            return self._jax.random.wrap_key_data(numbers, impl=spec.dtype.removeprefix(_KEY))
        return self._jax.numpy.array(data.view(np.dtype(spec.dtype)).reshape(spec.shape))

    def _host(self, tensor: Any) -> np.ndarray[Any, Any]:
        return np.asarray(self._jax.random.key_data(tensor) if self.is_key(tensor) else tensor)
