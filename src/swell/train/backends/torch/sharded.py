"""FSDP2: parameters and optimizer state are sharded, so that a change of the group cuts them anew.

- At an agreed boundary every member keeps its shard in host memory, and leavers hand theirs over.
- Every few steps each member gives a copy of its shard to its neighbours. After a death all go
  back to the last state that the survivors hold together, and the position in the data with it.
- More losses than copies: the last checkpoint.
"""

from __future__ import annotations

import contextlib
import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from swell.train.backends.torch.local_updates import LocalUpdates, local_part, whole_tensor
from swell.train.backends.torch.process_group import TorchCollectives
from swell.train.backends.torch.tensors import TorchKind
from swell.train.backends.torch.updates import (
    check_update,
    forget_unscaling,
    parameter_names,
    refuse_other_optimizers,
)
from swell.train.backends.torch.weighting import GradientHook, RateFactor, weighted_outputs
from swell.train.bus.plan import GroupPlan
from swell.train.errors import GroupBrokenError, TrainError
from swell.train.reports.measures import Measures
from swell.train.state.ledger import TrainLedger
from swell.train.state.replication import broadcast_message, broadcast_tensors
from swell.train.state.shards import Holding, ShardEntry, ShardKey, newest_whole
from swell.train.state.tree import Bytes, PackedState, TensorSpec, TreeCodec
from swell.train.wrapping import FsdpWrap

KIND = TorchKind()
# Two copies are kept: the newest may be incomplete when a member dies during its exchange.
KEPT_COPIES = 2
_ALIGNED_BYTES = 16


@dataclass(slots=True)
class ShardCopy:
    """Shards of one state in host memory: bytes by entry, for each shard that is here."""

    n_shards: int
    layout: list[ShardEntry]
    common: PackedState  # progress, user's values, options of the optimizer, buffers
    shards: dict[int, list[Bytes]]


class ShardedLearner:
    """A module that FSDP2 shards anew for every group, and its optimizer."""

    is_sharded = True

    def __init__(
        self,
        collectives: TorchCollectives,
        ledger: TrainLedger,
        codec: TreeCodec,
        *,
        module: torch.nn.Module,
        optimizer: Any,
        wrap: FsdpWrap,
        redundancy: tuple[int, int],
    ) -> None:
        self._collectives, self._ledger, self.codec = collectives, ledger, codec
        self.module, self.optimizer, self._wrap = module, optimizer, wrap
        self._n_copies, self._every = redundancy
        self.measures: Measures | None = None
        self.hook, self.rate = GradientHook(), RateFactor(optimizer)
        self._updates = LocalUpdates(optimizer)
        self.read_checkpoint: Callable[[], tuple[int, Any] | None] = lambda: None
        self._groups = parameter_names(optimizer, module)
        self._template = _without_parameters(module)
        self._generation, self._rank, self._size = 0, 0, 1
        self._copies: dict[ShardKey, ShardCopy] = {ShardKey(0, 0): self._own_copy()}
        self.has_updated = self._is_between_steps = self.is_updating = False
        self._random_state: torch.Tensor | None = None
        refuse_other_optimizers(self)
        optimizer.register_step_pre_hook(self._before_update)
        optimizer.register_step_post_hook(self._after_update)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        outputs = self.module(*args, **kwargs)
        return weighted_outputs(outputs, self.hook.weight * self._size)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        self.module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.module.set_requires_gradient_sync(True)

    # ---- the group

    def synchronise(self, plan: GroupPlan, rank: int) -> int:
        self._rank, self._size = rank, plan.size
        holdings = [
            msgspec.msgpack.decode(raw, type=list[Holding])
            for raw in self._collectives.gather(msgspec.msgpack.encode(self._holdings()))
        ]
        found = newest_whole(holdings)
        trained = any(one.key.generation for member in holdings for one in member)
        if found is None or (trained and not found[0].generation):
            found = self._last_checkpoint(plan, rank)
        key, holders = found
        if not key.generation and not key.step:
            holders = [plan.source] * len(holders)  # everybody has built a model: one of them
        n_bytes = self._take(key, holders)
        self._generation = plan.generation
        self._copies = {}
        self._give_copies()
        return n_bytes

    def attach(self, rank: int, size: int) -> None:
        """Do nothing: the module was sharded when its state was taken."""

    def detach(self, *, broken: bool, leaving: bool) -> None:
        """Keep this member's shard, and those of leavers, while the group is whole."""
        if broken:
            return
        mine = self._own_copy()
        goes = [bool(raw[0]) for raw in self._collectives.gather(bytes([leaving]))]
        stays = [rank for rank, leaves in enumerate(goes) if not leaves]
        for number, leaver in enumerate(rank for rank, leaves in enumerate(goes) if leaves):
            if stays:
                self._hand_over(mine, leaver, stays[number % len(stays)])
        self._copies[self._key()] = mine

    def _hand_over(self, mine: ShardCopy, leaver: int, heir: int) -> None:
        if self._rank == leaver:
            self._collectives.exchange(
                dist.P2POp(dist.isend, self._flat(mine.shards[leaver]), heir)
            )
        elif self._rank == heir:
            flat = self._empty(mine.layout, leaver)
            self._collectives.exchange(dist.P2POp(dist.irecv, flat, leaver))
            mine.shards[leaver] = _split(flat, mine.layout, leaver, self._size)

    # ---- copies

    def _key(self) -> ShardKey:
        return ShardKey(self._generation, self._ledger.progress.step)

    def _holdings(self) -> list[Holding]:
        return [Holding(key, one.n_shards, sorted(one.shards)) for key, one in self._copies.items()]

    def _own_copy(self) -> ShardCopy:
        layout, local = [], []
        for entry, tensor in self._tensors():
            layout.append(entry)
            local.append(KIND.to_bytes(local_part(tensor)).copy())
        return ShardCopy(self._size, layout, self._common(), {self._rank: local})

    def _common(self) -> PackedState:
        options = [
            {key: value for key, value in group.items() if key != "params"}
            for group in self.optimizer.param_groups
        ]
        buffers = {name: buffer.detach().clone() for name, buffer in self.module.named_buffers()}
        return self.codec.pack(
            {"ledger": self._ledger.capture(), "options": options, "buffers": buffers}
        )

    def _give_copies(self) -> None:
        """Keep our shard in host memory, and exchange it with neighbours."""
        mine = self._own_copy()
        own = self._flat(mine.shards[self._rank])
        for distance in range(1, min(self._n_copies, self._size - 1) + 1):
            to, source = (self._rank + distance) % self._size, (self._rank - distance) % self._size
            theirs = self._empty(mine.layout, source)
            self._collectives.exchange(
                dist.P2POp(dist.isend, own, to), dist.P2POp(dist.irecv, theirs, source)
            )
            mine.shards[source] = _split(theirs, mine.layout, source, self._size)
        self._collectives.check()
        self._copies[self._key()] = mine
        for old in sorted(self._copies)[:-KEPT_COPIES]:
            del self._copies[old]

    def _flat(self, shard: list[Bytes]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate(shard)).to(self._collectives.device)

    def _empty(self, layout: list[ShardEntry], shard: int) -> torch.Tensor:
        n_bytes = sum(entry.n_bytes(shard, self._size) for entry in layout)
        return torch.empty(n_bytes, dtype=torch.uint8, device=self._collectives.device)

    # ---- taking a state

    def _take(self, key: ShardKey, holders: list[int]) -> int:
        """Shard the module for this group, and fill it with the state of a key."""
        mine = self._copies.get(key)
        raw = b""
        if self._rank == holders[0] and mine is not None:
            common = mine.common
            content = [tensor.tobytes() for tensor in common.tensors]
            # As they are trained now, which may be otherwise than when the copy was made.
            trains = [parameter.requires_grad for parameter in self.module.parameters()]
            state = [mine.layout, common.structure, common.specs, content, trains]
            raw = msgspec.msgpack.encode(state)
        raw = broadcast_message(self._collectives, raw, holders[0], self._rank)
        layout, structure, specs, parts, trains = msgspec.msgpack.decode(
            raw, type=tuple[list[ShardEntry], bytes, list[TensorSpec], list[bytes], list[bool]]
        )
        for parameter, is_trained in zip(self.module.parameters(), trains, strict=True):
            parameter.requires_grad_(is_trained)
        tensors = [np.frombuffer(part, np.uint8).copy() for part in parts]
        tree = self.codec.unpack(PackedState(structure, specs, tensors))
        self._build(layout, tree)
        self._ledger.restore(tree["ledger"])
        n_bytes = len(raw)
        targets = [tensor for _, tensor in self._tensors()]
        for shard, holder in enumerate(holders):
            n_bytes += self._take_shard(mine, layout, targets, (shard, len(holders), holder))
        return n_bytes

    def _take_shard(
        self,
        mine: ShardCopy | None,
        layout: list[ShardEntry],
        targets: list[torch.Tensor],
        origin: tuple[int, int, int],
    ) -> int:
        shard, n_shards, holder = origin
        if self._rank == holder and mine is not None:
            pieces = mine.shards[shard]
        else:
            pieces = [np.empty(entry.n_bytes(shard, n_shards), np.uint8) for entry in layout]
        broadcast_tensors(self._collectives, pieces, holder, self._rank)
        for entry, target, piece in zip(layout, targets, pieces, strict=True):
            if entry.is_sharded or shard == 0:
                with torch.no_grad():
                    self._put(entry, target, piece, entry.rows(shard, n_shards))
        return sum(piece.nbytes for piece in pieces)

    def _put(
        self, entry: ShardEntry, target: torch.Tensor, piece: Bytes, rows: tuple[int, int]
    ) -> None:
        """Copy those rows of a piece that are this member's."""
        first, last = rows
        own_first, own_last = entry.rows(self._rank, self._size)
        low, high = max(first, own_first), min(last, own_last)
        if low >= high or not piece.nbytes:
            return
        shape = (last - first, *entry.spec.shape[1:]) if entry.spec.shape else ()
        spec = msgspec.structs.replace(entry.spec, shape=shape)
        values = KIND.from_bytes(spec, _aligned(piece))
        local = local_part(target)
        if not shape:
            local.copy_(values)
        else:
            local[low - own_first : high - own_first].copy_(values[low - first : high - first])

    def _build(self, layout: list[ShardEntry], tree: Any) -> None:
        """A new module, sharded over this group, and the optimizer with its parameters."""
        mesh = init_device_mesh(self._collectives.device.type, (self._size,))
        module = copy.deepcopy(self._template)
        _take_modes(module, self.module)
        units = [part for part in module.modules() if self._is_unit(module, part)]
        for unit in units:
            fully_shard(unit, mesh=mesh, **self._wrap.options)
        fully_shard(module, mesh=mesh, **self._wrap.options)
        # As `to_empty` does, which asks DTensor how an empty tensor is sharded.
        module._apply(self._materialise)  # noqa: SLF001
        for name, buffer in module.named_buffers():
            buffer.copy_(tree["buffers"][name])
        self.module = module
        parameters = dict(module.named_parameters())
        groups = self.optimizer.param_groups
        for group, names, options in zip(groups, self._groups, tree["options"], strict=True):
            group["params"] = [parameters[name] for name in names]
            group.update(options)
        self.optimizer.state = defaultdict(dict)
        for entry in layout:
            if entry.key is not None:
                parameter = parameters[entry.name]
                dtype = getattr(torch, entry.spec.dtype)
                self.optimizer.state[parameter][entry.key] = (
                    _zeros_like(parameter, dtype)
                    if entry.is_sharded
                    else torch.zeros(entry.spec.shape, dtype=dtype)
                )

    def _materialise(self, tensor: torch.Tensor) -> torch.Tensor:
        empty = torch.empty_like(local_part(tensor), device=self._collectives.device)
        return whole_tensor(empty, tensor) if isinstance(tensor, DTensor) else empty

    def _is_unit(self, module: torch.nn.Module, part: torch.nn.Module) -> bool:
        if self._wrap.units:
            return isinstance(part, self._wrap.units)
        holders = (torch.nn.ModuleList, torch.nn.Sequential)
        listed = [c for m in module.modules() if isinstance(m, holders) for c in m.children()]
        return any(part is child for child in listed) and any(True for _ in part.parameters())

    def _tensors(self) -> list[tuple[ShardEntry, torch.Tensor]]:
        """Everything that is sharded or belongs to a parameter, always in the same order."""
        found = []
        for name, parameter in self.module.named_parameters():
            found.append(_entry(name, None, parameter, parameter))
            state = self.optimizer.state.get(parameter, {})
            tensors = {k: state[k] for k in sorted(state) if isinstance(state[k], torch.Tensor)}
            found.extend(_entry(name, k, value, parameter) for k, value in tensors.items())
        return found

    def _last_checkpoint(self, plan: GroupPlan, rank: int) -> tuple[ShardKey, list[int]]:
        """All members read the checkpoint that the source finds to be the newest."""
        found = self.read_checkpoint()
        step = found[0] if found else -1
        said = broadcast_message(self._collectives, str(step).encode(), plan.source, rank)
        if found is None or int(said) < 0:
            raise TrainError(
                "more members were lost than there are copies of shards, and there is no"
                " checkpoint: give Elastic a checkpoint folder, or more redundancy"
            )
        if int(said) != step:
            raise GroupBrokenError(f"the newest checkpoint is {said!r} there and {step} here")
        self.restore(found[1])
        key = ShardKey(0, step)
        return key, [plan.source] * self._copies[key].n_shards

    # ---- steps

    def before_step(self, n_mine: int, weight: float) -> None:
        self.hook.weight, self.hook.n_samples = weight, n_mine
        self.has_updated = self._is_between_steps = self.is_updating = False
        self._random_state = torch.get_rng_state()

    def undo_step(self) -> None:
        """Drop gradients; the state itself goes back to a copy in the next group."""
        self._updates.end()
        self.optimizer.zero_grad(set_to_none=True)
        forget_unscaling(self._ledger.user)
        if self._random_state is not None:
            torch.set_rng_state(self._random_state)

    def after_step(self) -> None:
        self._is_between_steps = True
        if self._n_copies and self._ledger.progress.step % self._every == 0:
            self._give_copies()

    def check_step(self) -> None:
        if not self.has_updated:
            self._confirm()

    def _confirm(self) -> None:
        if self._collectives.is_cuda:
            torch.cuda.current_stream().synchronize()
        self._collectives.check()

    def _before_update(self, _: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        between = self._is_between_steps
        check_update(args, kwargs, has_updated=self.has_updated, is_between_steps=between)
        self._confirm()
        self.rate.apply()
        self._updates.begin(args, kwargs)
        self.is_updating = True

    def _after_update(self, *_: object) -> None:
        self._updates.end()
        self.rate.take_back()
        self.has_updated, self.is_updating = True, False

    # ---- checkpoints

    def capture(self) -> Any:
        """This member's part: its shard, and what is common to all."""
        mine = self._own_copy()
        common = mine.common
        return {
            "layout": msgspec.msgpack.encode(mine.layout),
            "common": [common.structure, msgspec.msgpack.encode(common.specs), common.tensors],
            "shard": mine.shards[self._rank],
        }

    def restore(self, tree: Any) -> None:
        """Hold all shards of a checkpoint, whose parts `joined_parts` has put together.

        They are mapped from its files: none of them is in memory before it is given to the others.
        """
        first = tree[0]
        if "layout" not in first:
            raise TrainError("the checkpoint was made without `wrap=train.fsdp`")
        structure, specs, tensors = first["common"]
        layout = msgspec.msgpack.decode(first["layout"], type=list[ShardEntry])
        common = PackedState(
            structure, msgspec.msgpack.decode(specs, type=list[TensorSpec]), tensors
        )
        shards = {number: part["shard"] for number, part in enumerate(tree)}
        step = self.codec.unpack(common)["ledger"]["progress"]["step"]
        self._copies = {ShardKey(0, step): ShardCopy(len(tree), layout, common, shards)}

    def joined_parts(self, parts: list[PackedState]) -> Any:
        trees = [self.codec.unpack(part) for part in parts]
        return {"ledger": trees[0]["ledger"], "learner": [tree["learner"] for tree in trees]}


def _take_modes(module: torch.nn.Module, old: torch.nn.Module) -> None:
    """Train, evaluate and freeze the parts that the script has set so since it made the model."""
    parts, parameters = dict(old.named_modules()), dict(old.named_parameters())
    for name, part in module.named_modules():
        part.training = parts[name].training
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(parameters[name].requires_grad)


def _without_parameters(module: torch.nn.Module) -> torch.nn.Module:
    """A copy of a module whose parameters have shapes and no storage; buffers are copied."""
    memo: dict[int, Any] = {
        id(p): torch.nn.Parameter(torch.empty_like(p, device="meta"), requires_grad=p.requires_grad)
        for p in module.parameters()
    }
    return copy.deepcopy(module, memo)


def _entry(
    name: str, key: str | None, tensor: torch.Tensor, parameter: torch.Tensor
) -> tuple[ShardEntry, torch.Tensor]:
    # A whole state counts as one shard: what has the parameter's shape is cut with it.
    is_sharded = tensor.dim() > 0 and tensor.shape == parameter.shape
    return ShardEntry(name, key, KIND.spec(tensor), tensor.element_size(), is_sharded), tensor


def _aligned(piece: Bytes) -> Bytes:
    """The bytes where elements of any type may begin; in a file they begin anywhere."""
    return piece if piece.ctypes.data % _ALIGNED_BYTES == 0 else piece.copy()


def _zeros_like(parameter: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    zeros = torch.zeros_like(local_part(parameter), dtype=dtype)
    return whole_tensor(zeros, parameter) if isinstance(parameter, DTensor) else zeros


def _split(flat: torch.Tensor, layout: list[ShardEntry], shard: int, n_shards: int) -> list[Bytes]:
    data = flat.cpu().numpy()
    ends = np.cumsum([entry.n_bytes(shard, n_shards) for entry in layout])
    return [part.copy() for part in np.split(data, ends[:-1])]
