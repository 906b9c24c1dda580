"""The variables by which a script finds its place among the workers of one generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Variables of the launcher's own place, which a script must not take for its own: a script that
# uses the library would join the group a second time.
from swell.api.injection import MEMBERS_VARIABLE
from swell.train.launch.arguments import LaunchOptions, count_gpus


@dataclass(frozen=True, slots=True)
class Seat:
    """One member of a generation: its host and a free port for each of its workers there."""

    host: str
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Seating:
    """All members of a generation in the order of their ranks, and which of them is this one."""

    generation: int
    seats: tuple[Seat, ...]
    own: int

    @property
    def world_size(self) -> int:
        return sum(len(seat.ports) for seat in self.seats)

    @property
    def first_rank(self) -> int:
        """The rank of this member's first worker; members may have different numbers of them."""
        return sum(len(seat.ports) for seat in self.seats[: self.own])

    @property
    def master(self) -> tuple[str, int]:
        """Host and port at which the worker of rank 0 listens."""
        return self.seats[0].host, self.seats[0].ports[0]

    @property
    def endpoints(self) -> list[str]:
        return [f"{seat.host}:{port}" for seat in self.seats for port in seat.ports]


def worker_variables(
    seating: Seating,
    local_rank: int,
    options: LaunchOptions,
    *,
    n_restarts: int,
    environ: Mapping[str, str],
    servers: Sequence[str] = (),
) -> dict[str, str]:
    """The environment of one worker. `servers` are the endpoints of parameter servers."""
    made = _without_place(environ)
    if options.n_local > 1:
        # As torchrun does: several workers would each start a thread for every core.
        made.setdefault("OMP_NUM_THREADS", "1")
    made |= _torch(seating, local_rank, options, n_restarts)
    if options.framework == "jax":
        made |= _jax(seating, local_rank)
    elif options.framework == "paddle":
        made |= _paddle(seating, local_rank, options, environ, servers)
    if options.is_virtual_local_rank:
        made |= _one_gpu(local_rank, environ)
    return made


def _without_place(environ: Mapping[str, str]) -> dict[str, str]:
    # PET_ variables are the launcher's arguments.
    return {
        name: value
        for name, value in environ.items()
        if name != MEMBERS_VARIABLE and not name.startswith("PET_")
    }


def _torch(
    seating: Seating, local_rank: int, options: LaunchOptions, n_restarts: int
) -> dict[str, str]:
    host, port = seating.master
    rank, size = str(seating.first_rank + local_rank), str(seating.world_size)
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(options.n_local),
        "GROUP_RANK": str(seating.own),
        "GROUP_WORLD_SIZE": str(len(seating.seats)),
        "ROLE_NAME": options.role,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": size,
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": str(n_restarts),
        "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
        "TORCHELASTIC_RUN_ID": options.run_id,
        # The store is the first worker's, which is new with every generation.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "SWELL_GENERATION": str(seating.generation),
    }


def _jax(seating: Seating, local_rank: int) -> dict[str, str]:
    host, port = seating.master
    return {
        "JAX_COORDINATOR_ADDRESS": f"{host}:{port}",
        "JAX_NUM_PROCESSES": str(seating.world_size),
        "JAX_PROCESS_ID": str(seating.first_rank + local_rank),
    }


def _paddle(
    seating: Seating,
    local_rank: int,
    options: LaunchOptions,
    environ: Mapping[str, str],
    servers: Sequence[str],
) -> dict[str, str]:
    """Variables of Paddle's own launcher. Parameter servers keep those that the operator gave."""
    if environ.get("TRAINING_ROLE") == "PSERVER":
        return {}
    host, port = seating.master
    rank, size = str(seating.first_rank + local_rank), str(seating.world_size)
    endpoints = seating.endpoints
    own = endpoints[seating.first_rank + local_rank]
    made = {
        "PADDLE_TRAINER_ID": rank,
        "PADDLE_TRAINERS_NUM": size,
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_CURRENT_ENDPOINT": own,
        "PADDLE_MASTER": f"{host}:{port}",
        "PADDLE_GLOBAL_RANK": rank,
        "PADDLE_GLOBAL_SIZE": size,
        "PADDLE_LOCAL_RANK": str(local_rank),
        "PADDLE_RANK_IN_NODE": str(local_rank),
        "PADDLE_LOCAL_SIZE": str(options.n_local),
        "PADDLE_NNODES": str(len(seating.seats)),
        # The role maker joins these two and looks for the result among the endpoints.
        "POD_IP": own.rpartition(":")[0],
        "PADDLE_PORT": own.rpartition(":")[2],
    }
    if count_gpus(environ):
        made["FLAGS_selected_gpus"] = str(local_rank)
    else:
        # Without a GPU Paddle makes no group of its own accord.
        made["PADDLE_DISTRI_BACKEND"] = environ.get("PADDLE_DISTRI_BACKEND", "gloo")
    if servers:
        made |= {
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(servers),
            "TRAINING_ROLE": "TRAINER",
        }
    return made


def _one_gpu(local_rank: int, environ: Mapping[str, str]) -> dict[str, str]:
    visible = environ.get("CUDA_VISIBLE_DEVICES", "")
    names = visible.split(",") if visible else []
    chosen = names[local_rank] if local_rank < len(names) else str(local_rank)
    return {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": chosen}
