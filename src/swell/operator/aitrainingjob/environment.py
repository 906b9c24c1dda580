"""How a pod's environment variables are made: its identity, its peers, its framework's own.

A template is free JSON that validation has checked only in part, so nothing here may fail on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from swell.api import codec
from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.injection import HANG_VARIABLE
from swell.api.meta import Body
from swell.operator.aitrainingjob.labels import OURS, pod_name
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.operator.framework.training import objects

# PyTorch's default of MASTER_PORT.
DEFAULT_PORT = 29500
# Roles whose first replica the others meet at: PyTorch's and TensorFlow's names for it.
_MASTERS = ("master", "chief")
# A longer list is left out, because Linux limits a variable to 128 KiB; the members ConfigMap has
# it in any case.
LIST_BYTES_MAX = 96 << 10


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
        """The rank of a replica among all of the job's: role by role, the master's role first."""
        roles = self.ranked_roles
        return sum(len(self.hosts[r]) for r in roles[: roles.index(role)]) + index

    @property
    def master(self) -> tuple[str, int]:
        """Address and port of the replica that the others connect to first."""
        role = self.ranked_roles[0]
        return self.hosts[role][0], self.port(role)

    def port(self, role: str) -> int:
        """The first port of a role, or the default for a role without any of ours."""
        return self.ports[role][0] if self.ports[role] else DEFAULT_PORT

    def endpoint(self, role: str, index: int) -> str:
        return f"{self.hosts[role][index]}:{self.port(role)}"

    def endpoints(self, role: str) -> list[str]:
        return [self.endpoint(role, index) for index in range(len(self.hosts[role]))]


def peers_of(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> Peers:
    """The addresses and ports of all replicas; the same for all containers of one epoch."""
    meta = snapshot.job.metadata
    return Peers(
        job=meta.name,
        hosts={
            role: [
                f"{pod_name(meta.name, role, index)}.{meta.namespace}"
                for index in range(status.target_replicas.get(role, 0))
            ]
            for role in snapshot.roles
        },
        ports={role: our_ports(spec.template) for role, spec in snapshot.roles.items()},
        bounds={
            role: (spec.minimum, spec.maximum) if spec.is_elastic else (spec.size, spec.size)
            for role, spec in snapshot.roles.items()
        },
    )


def shared_variables(peers: Peers) -> list[tuple[str, str]]:
    """The variables that are the same in all containers of a job: the addresses of every role."""
    return [pair for role in peers.hosts for pair in _of_role(peers, role)]


def common_variables(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    peers: Peers,
    shared: list[tuple[str, str]],
    replica: tuple[str, int],
) -> list[Body]:
    """The variables of every container of one pod, without those of `container_variables`.

    `shared` is the result of `shared_variables`, which is computed once for many pods.
    """
    role, index = replica
    meta = snapshot.job.metadata
    own = {
        "TRAININGJOB_NAME": meta.name,
        "TRAININGJOB_NAMESPACE": meta.namespace,
        "TRAININGJOB_REPLICA_NAME": role,
        "TRAININGJOB_REPLICA_TYPE": snapshot.roles[role].replica_type or role,
        "TRAININGJOB_REPLICA_INDEX": str(index),
        "TRAININGJOB_REPLICA_RESTARTCOUNT": str(status.restart_counts.get(role, 0)),
        "TRAININGJOB_EPOCH": str(status.epoch),
        "TRAININGJOB_SERVICE": peers.hosts[role][index],
    }
    if (hang_s := snapshot.roles[role].hang_seconds) is not None:
        own[HANG_VARIABLE] = str(hang_s)  # also where nothing else is injected: it is asked for
    pairs = [*own.items(), *shared]
    pairs += framework_variables(snapshot.job.spec.framework_type, peers, role, index)
    return [{"name": name, "value": value} for name, value in pairs if len(value) <= LIST_BYTES_MAX]


def container_variables(container: Body) -> list[Body]:
    """The variables that differ between the containers of a pod: the container's ports."""
    ports = (str(number) for _, number in named_ports(container))
    return [{"name": "TRAININGJOB_PORTS", "value": ",".join(ports)}]


def _of_role(peers: Peers, role: str) -> Iterator[tuple[str, str]]:
    name, hosts, ports = role.upper().replace("-", "_"), peers.hosts[role], peers.ports[role]
    pairs = [f"{host}:{port}" for host in hosts for port in ports]
    yield from _listed(f"{name}_INSTANCES", hosts)
    yield from _listed(f"{name}_PORTS", [str(port) for port in ports])
    yield from _listed(f"{name}_HOSTS", pairs)


def _listed(name: str, values: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield name, ",".join(values)
    yield f"{name}_NUM", str(len(values))


def framework_variables(
    framework: str, peers: Peers, role: str, index: int
) -> list[tuple[str, str]]:
    """The variables by which a training framework finds its peers; none for an unknown one."""
    build = _BUILDERS.get(framework.lower())
    return build(peers, role, index) if build else []


# torchrun of itself waits 30 s for more agents after every change, takes an agent for dead after
# three missed signs of life in 15 s, and guesses by its host's names whether it keeps the store.
_RENDEZVOUS = "last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt=5"


def _pytorch(peers: Peers, role: str, index: int) -> list[tuple[str, str]]:
    host, port = peers.master
    rank = str(peers.rank(role, index))
    # PET_ variables are the arguments of torchrun. Only an elastic job needs its rendezvous.
    low = sum(bounds[0] for bounds in peers.bounds.values())
    high = sum(bounds[1] for bounds in peers.bounds.values())
    is_elastic = low != high
    found = [
        ("MASTER_ADDR", host),
        ("MASTER_PORT", str(port)),
        ("WORLD_SIZE", str(peers.world_size)),
        ("RANK", rank),
        ("PET_MASTER_ADDR", host),
        ("PET_MASTER_PORT", str(port)),
        ("PET_NNODES", f"{low}:{high}" if is_elastic else str(peers.world_size)),
        ("PET_NODE_RANK", rank),
        ("PET_RDZV_ID", peers.job),
        ("PET_RDZV_ENDPOINT", f"{host}:{port}"),
        ("PET_RDZV_BACKEND", "c10d" if is_elastic else "static"),
        # Since PyTorch 2.5 agents share one store; after a change of the membership survivors then
        # use bootstrap data of the old round, nobody sets the master's address, and newcomers wait
        # for it until every agent gives up.
        ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),
    ]
    if is_elastic:
        is_host = int(peers.rank(role, index) == 0)
        found.append(("PET_RDZV_CONF", f"is_host={is_host},{_RENDEZVOUS}"))
    return found


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
        # The role maker joins these two and looks for the result in the lists, so this is the
        # name that the lists have. Pods keep their names when they are replaced.
        ("POD_IP", peers.hosts[role][index]),
        ("PADDLE_PORT", str(peers.port(role))),
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


def our_ports(template: Body) -> list[int]:
    """The ports of a role's pods: those with our prefix, in containers with our prefix."""
    return [
        number
        for container in containers(template)
        if str(container.get("name", "")).startswith(OURS)
        for _, number in named_ports(container)
    ]


def named_ports(container: Body) -> Iterator[tuple[str, int]]:
    """Name and number of a container's ports that have our prefix."""
    for port in objects(container.get("ports")):
        name, number = port.get("name"), port.get("containerPort")
        if isinstance(name, str) and name.startswith(OURS) and isinstance(number, int):
            yield name, number


def containers(template: Body) -> list[Body]:
    return list(objects(spec_of(template).get("containers")))


def spec_of(template: Body) -> Body:
    spec = template.get("spec")
    return spec if isinstance(spec, dict) else {}
