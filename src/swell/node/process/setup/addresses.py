"""Addresses of pods and the names that resolve to them, on a machine without a name server. Pure.

Every pod has a loopback address of its own, derived from its name, so that all agents of a cluster
on one machine agree. The addresses of services go into a hosts file. Where no private hosts file
is possible, names are replaced by addresses in the variables, arguments and files of a container.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from swell.api.meta import Key
from swell.node.pods import JOB_LABEL, BoundContainer, BoundPod
from swell.node.process.setup.environment import ContainerConfigError

SHARED = "127.0.0.1"
# From 127.16.0.1 to 127.254.255.254: away from the loopback addresses that people use by hand.
_FIRST, _N_SECOND = 16, 239
_N_LAST = 254
DOMAIN = "cluster.local"
_HOST_NAME = re.compile(r"(?<![\w.-])([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)\.([a-z0-9][-a-z0-9]*)"
                   r"(?:\.svc(?:\.cluster\.local)?)?(?![\w-]|\.\w)")  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServiceNames:
    """A service and the names of the pods in its namespace that it selects."""

    key: Key
    pods: tuple[str, ...]


@dataclass(slots=True)
class AddressBook:
    """The addresses of pods and services. `salt` separates clusters on one machine.

    Unless `is_private`, all share 127.0.0.1: only Linux answers on the other loopback addresses.
    """

    salt: str
    is_private: bool = True
    _by_key: dict[Key, str] = field(default_factory=dict)
    _taken: dict[str, Key] = field(default_factory=dict)

    def address(self, key: Key) -> str:
        """Returns the address of a pod or service, the same until `keep_only` releases it."""
        if not self.is_private:
            return SHARED
        held = self._by_key.get(key)
        return held or self._enter(key, self._free(key))

    def adopt(self, key: Key, address: str) -> None:
        """Take over an address that an earlier agent gave out."""
        if self.is_private and address and key not in self._by_key and address not in self._taken:
            self._enter(key, address)

    def keep_only(self, keys: Iterable[Key]) -> None:
        """Release the addresses of all other names."""
        wanted = frozenset(keys)
        for key in [key for key in self._by_key if key not in wanted]:
            del self._taken[self._by_key.pop(key)]

    def _enter(self, key: Key, address: str) -> str:
        self._by_key[key] = address
        self._taken[address] = key
        return address

    def _free(self, key: Key) -> str:
        number = zlib.crc32(f"{self.salt}|{key}".encode())
        while _numbered(number) in self._taken:
            number += 1
        return _numbered(number)


def _numbered(number: int) -> str:
    number, last = divmod(number, _N_LAST)
    number, third = divmod(number, 256)
    return f"127.{_FIRST + number % _N_SECOND}.{third}.{last + 1}"


def resolved(
    book: AddressBook, services: Sequence[ServiceNames], pods: Iterable[Key]
) -> dict[Key, tuple[str, ...]]:
    """Returns the addresses of each name: a service has those of its pods.

    A service without pods has an address of its own, so that its name resolves all the same.
    """
    found: dict[Key, tuple[str, ...]] = {key: (book.address(key),) for key in pods}
    for service in services:
        keys = [Key(service.key.namespace, name) for name in service.pods] or [service.key]
        found[service.key] = tuple(book.address(key) for key in keys)
    return found


def hosts_text(base: str, namespace: str, names: Mapping[Key, tuple[str, ...]]) -> str:
    """Returns the hosts file of a namespace: the machine's, and every name in all its forms."""
    lines = [base.rstrip("\n"), "# pods and services"]
    for key in sorted(names):
        full = f"{key.name}.{key.namespace}"
        forms = [full, f"{full}.svc", f"{full}.svc.{DOMAIN}"]
        if key.namespace == namespace:
            forms.append(key.name)
        lines += [f"{address}\t{' '.join(forms)}" for address in names[key]]
    return "\n".join(lines) + "\n"


def substituted(text: str, names: Mapping[Key, tuple[str, ...]]) -> str:
    """Returns the text with every known name replaced by its address."""

    def address(found: re.Match[str]) -> str:
        addresses = names.get(Key(found[2], found[1]))
        return addresses[0] if addresses else found[0]

    return _HOST_NAME.sub(address, text) if "." in text else text


def check_ports(pod: BoundPod, container: BoundContainer, others: Iterable[BoundPod]) -> None:
    """Raise ContainerConfigError when a live pod of the same job has a port of the container.

    For machines on which all pods share one address.
    """
    wanted = {port.container_port for port in container.ports}
    for other in others:
        if not _is_of_same_job(pod, other):
            continue
        theirs = {port.container_port for c in other.spec.containers for port in c.ports}
        if taken := wanted & theirs:
            message = (
                f"port {min(taken)} is used by pod {other.metadata.name} of the same job, and "
                "this machine has one address for all pods"
            )
            raise ContainerConfigError(message, "CreateContainerError")


def _is_of_same_job(pod: BoundPod, other: BoundPod) -> bool:
    job = pod.metadata.labels.get(JOB_LABEL)
    return (
        job is not None
        and job == other.metadata.labels.get(JOB_LABEL)
        and pod.metadata.namespace == other.metadata.namespace
        and pod.metadata.uid != other.metadata.uid
    )
