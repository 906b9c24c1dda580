"""The discovery variables that training frameworks have of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from swell.api import codec

DEFAULT_PORT = 29500
_MASTERS = ("master", "chief")


@dataclass(frozen=True, slots=True)
class Peers:
    """Addresses, ports and size bounds by role of one job; roles in alphabetical order."""

    job: str
    hosts: dict[str, list[str]]
    ports: dict[str, list[int]]
    bounds: dict[str, tuple[int, int]]

    @property
    def ranked_roles(self) -> list[str]:
        """The master's role first, the others in alphabetical order."""
        first = next((role for role in _MASTERS if role in self.hosts), None)
        others = sorted(role for role in self.hosts if role != first)
        return [first, *others] if first else others

    @property
    def world_size(self) -> int:
        return sum(len(hosts) for hosts in self.hosts.values())

    def rank(self, role: str, index: int) -> int:
        roles = self.ranked_roles
        return sum(len(self.hosts[r]) for r in roles[: roles.index(role)]) + index

    @property
    def master(self) -> tuple[str, int]:
        """Address and port of the replica that others meet at."""
        role = self.ranked_roles[0]
        return self.hosts[role][0], self.port(role)

    def port(self, role: str) -> int:
        return self.ports[role][0] if self.ports[role] else DEFAULT_PORT

    def endpoint(self, role: str, index: int) -> str:
        return f"{self.hosts[role][index]}:{self.port(role)}"

    def endpoints(self, role: str) -> list[str]:
        return [self.endpoint(role, index) for index in range(len(self.hosts[role]))]


def variables(framework: str, peers: Peers, role: str, index: int) -> list[tuple[str, str]]:
    """The variables of a framework, none for one we have nothing to say about."""
    build = _BUILDERS.get(framework.lower())
    return build(peers, role, index) if build else []


def _pytorch(peers: Peers, role: str, index: int) -> list[tuple[str, str]]:
    host, port = peers.master
    rank = str(peers.rank(role, index))
    low = sum(bounds[0] for bounds in peers.bounds.values())
    high = sum(bounds[1] for bounds in peers.bounds.values())
    return [
        ("MASTER_ADDR", host),
        ("MASTER_PORT", str(port)),
        ("WORLD_SIZE", str(peers.world_size)),
        ("RANK", rank),
        ("PET_MASTER_ADDR", host),
        ("PET_MASTER_PORT", str(port)),
        ("PET_NNODES", str(peers.world_size) if low == high else f"{low}:{high}"),
        ("PET_NODE_RANK", rank),
        ("PET_RDZV_ID", peers.job),
        ("PET_RDZV_ENDPOINT", f"{host}:{port}"),
        ("PET_RDZV_BACKEND", "static" if low == high else "c10d"),
    ]


def _tensorflow(peers: Peers, role: str, index: int) -> list[tuple[str, str]]:
    cluster = {name: peers.endpoints(name) for name in peers.hosts}
    config = {"cluster": cluster, "task": {"type": role, "index": index}}
    return [("TF_CONFIG", codec.encode_stable(config).decode())]


def _paddlepaddle(peers: Peers, role: str, index: int) -> list[tuple[str, str]]:
    trainers = "trainer" if "trainer" in peers.hosts else peers.ranked_roles[0]
    pairs = [
        ("PADDLE_TRAINER_ID", str(index)),
        ("PADDLE_TRAINERS_NUM", str(len(peers.hosts[trainers]))),
        ("PADDLE_TRAINER_ENDPOINTS", ",".join(peers.endpoints(trainers))),
        ("PADDLE_CURRENT_ENDPOINT", peers.endpoint(role, index)),
    ]
    if "pserver" in peers.hosts:
        pairs += [
            ("PADDLE_PSERVERS_IP_PORT_LIST", ",".join(peers.endpoints("pserver"))),
            ("TRAINING_ROLE", "PSERVER" if role == "pserver" else "TRAINER"),
        ]
    return pairs


def _jax(peers: Peers, role: str, index: int) -> list[tuple[str, str]]:
    host, port = peers.master
    return [
        ("JAX_COORDINATOR_ADDRESS", f"{host}:{port}"),
        ("JAX_NUM_PROCESSES", str(peers.world_size)),
        ("JAX_PROCESS_ID", str(peers.rank(role, index))),
    ]


_BUILDERS: Mapping[str, Callable[[Peers, str, int], list[tuple[str, str]]]] = {
    "pytorch": _pytorch,
    "tensorflow": _tensorflow,
    "paddlepaddle": _paddlepaddle,
    "jax": _jax,
}
