"""Tensors of torch as bytes in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from swell.train.errors import UnsavableStateError
from swell.train.state.tree import Bytes, TensorSpec


class TorchKind:
    """Tensors of torch. A restored one lies in host memory; `load_state_dict` moves it."""

    name = "torch"

    def is_one(self, value: object) -> bool:
        return isinstance(value, torch.Tensor)

    def spec(self, tensor: Any) -> TensorSpec:
        if tensor.layout is not torch.strided:
            raise UnsavableStateError("a sparse tensor")
        if tensor.grad_fn is not None:
            raise UnsavableStateError("a tensor with its history: keep `.detach()` of it")
        return TensorSpec(self.name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))

    def to_bytes(self, tensor: Any) -> Bytes:
        host = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        data: Bytes = host.view(torch.uint8).numpy() if host.numel() else np.empty(0, np.uint8)
        return data

    def from_bytes(self, spec: TensorSpec, data: Bytes) -> Any:
        dtype = getattr(torch, spec.dtype)
        if not data.nbytes:
            return torch.empty(spec.shape, dtype=dtype)
        return torch.from_numpy(data).view(dtype).reshape(spec.shape)
