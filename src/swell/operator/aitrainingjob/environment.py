"""The variables by which a container learns who it is and where its peers are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.meta import Body
from swell.operator.aitrainingjob import frameworks
from swell.operator.aitrainingjob.frameworks import Peers
from swell.operator.aitrainingjob.labels import pod_name
from swell.operator.aitrainingjob.ports import named_ports, our_ports
from swell.operator.aitrainingjob.world import World

LIST_BYTES_MAX = 96 << 10  # a longer list is left out: the members ConfigMap has it


def peers_of(world: World, status: AITrainingJobStatus) -> Peers:
    """Every replica's address and every role's ports, as all containers of one epoch see them."""
    meta = world.job.metadata
    return Peers(
        job=meta.name,
        hosts={
            role: [
                f"{pod_name(meta.name, role, index)}.{meta.namespace}"
                for index in range(status.target_replicas.get(role, 0))
            ]
            for role in world.roles
        },
        ports={role: our_ports(spec.template) for role, spec in world.roles.items()},
        bounds={
            role: (spec.minimum, spec.maximum) if spec.is_elastic else (spec.size, spec.size)
            for role, spec in world.roles.items()
        },
    )


def shared_variables(peers: Peers) -> list[tuple[str, str]]:
    """What all containers of a job are told alike: the addresses of every role."""
    return [pair for role in peers.hosts for pair in _of_role(peers, role)]


def common_variables(
    world: World,
    status: AITrainingJobStatus,
    peers: Peers,
    shared: list[tuple[str, str]],
    replica: tuple[str, int],
) -> list[Body]:
    """What every container of one pod gets, except what is its own."""
    role, index = replica
    meta = world.job.metadata
    own = {
        "TRAININGJOB_NAME": meta.name,
        "TRAININGJOB_NAMESPACE": meta.namespace,
        "TRAININGJOB_REPLICA_NAME": role,
        "TRAININGJOB_REPLICA_TYPE": role,
        "TRAININGJOB_REPLICA_INDEX": str(index),
        "TRAININGJOB_REPLICA_RESTARTCOUNT": str(status.restart_counts.get(role, 0)),
        "TRAININGJOB_EPOCH": str(status.epoch),
        "TRAININGJOB_SERVICE": peers.hosts[role][index],
    }
    pairs = [*own.items(), *shared]
    pairs += frameworks.variables(world.job.spec.framework_type, peers, role, index)
    return [{"name": name, "value": value} for name, value in pairs if len(value) <= LIST_BYTES_MAX]


def container_variables(container: Body) -> list[Body]:
    """What is a container's own: its ports."""
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
