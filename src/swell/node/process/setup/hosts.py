"""Keeps hosts files with the names of pods and services, or substitutes names by addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from swell.api.core import Service
from swell.api.meta import Key
from swell.cluster.private import FILE_MODE
from swell.node.pods import BoundPod
from swell.node.process.folders import Folders
from swell.node.process.setup.addresses import (
    AddressBook,
    ServiceNames,
    hosts_text,
    resolved,
    substituted,
)
from swell.node.process.setup.volume_files import write_in_place
from swell.runtime.informer import Informer

MACHINE_HOSTS = Path("/etc/hosts")
OPEN_MODE = 0o644  # for containers of other users; the way to the file is closed to everybody


class HostsFiles:
    """The hosts files of all namespaces. Changes only mark them; `write_files` writes them.

    `version` grows when names or addresses may have changed.
    """

    def __init__(
        self,
        book: AddressBook,
        folders: Folders,
        services: Informer[Service],
        pods: Callable[[], Iterable[BoundPod]],
    ) -> None:
        self._book = book
        self._folders = folders
        self._services = services
        self._pods = pods
        self._names: dict[Key, tuple[str, ...]] = {}
        self.version = 0
        self._namespaces: dict[str, None] = {}
        self._unwritten: dict[str, None] = {}  # namespaces whose file is out of date
        self._open: set[str] = set()  # namespaces with containers of other users
        self._labels: dict[Key, dict[str, str]] = {}
        self._is_current = False

    @property
    def has_own_addresses(self) -> bool:
        """Whether every pod has an address of its own."""
        return self._book.is_private

    def mark(self) -> None:
        """Mark the files as out of date: a service was added, changed or removed."""
        self._is_current = False

    def note(self, key: Key, pod: BoundPod | None) -> None:
        """Mark the files as out of date if the change of a pod concerns them.

        Services select by labels, so a change of anything else does not.
        """
        labels = None if pod is None else pod.metadata.labels
        if labels != self._labels.get(key):
            self._is_current = False
        if labels is None:
            self._labels.pop(key, None)
        else:
            self._labels[key] = labels

    def address(self, pod: BoundPod) -> str:
        self._book.adopt(pod.metadata.key, pod.status.pod_ip)
        return self._book.address(pod.metadata.key)

    def hosts(self, namespace: str, *, for_others: bool = False) -> Path:
        """Returns the hosts file for a namespace's containers, up to date. OSError of its own.

        Containers of other users than the agent's can read it from then on if asked.
        """
        self.update_names()
        if for_others and namespace not in self._open:
            self._open.add(namespace)
            self._unwritten[namespace] = None
        if namespace not in self._namespaces:
            self._namespaces[namespace] = self._unwritten[namespace] = None
        if namespace in self._unwritten:
            self._write(namespace)
        return self._folders.hosts(namespace)

    def substitute(self, text: str) -> str:
        self.update_names()
        return substituted(text, self._names)

    def update_names(self) -> None:
        """Find the names and addresses anew if they are out of date."""
        if self._is_current:
            return
        pods = {pod.metadata.key: pod for pod in self._pods()}
        for pod in pods.values():
            self._book.adopt(pod.metadata.key, pod.status.pod_ip)
        services = [self._names_of(service, pods) for service in self._services.all()]
        self._book.keep_only([*pods, *(service.key for service in services)])
        self._names = resolved(self._book, services, pods)
        self._unwritten = dict.fromkeys(self._namespaces)
        self._is_current = True
        self.version += 1

    def write_files(self) -> list[OSError]:
        """Write every file that is out of date; returns why some could not be."""
        self.update_names()
        failures: list[OSError] = []
        for namespace in list(self._unwritten):
            try:
                self._write(namespace)
            except OSError as error:
                failures.append(error)
        return failures

    def _write(self, namespace: str) -> None:
        base = MACHINE_HOSTS.read_text() if MACHINE_HOSTS.exists() else "127.0.0.1 localhost\n"
        text = hosts_text(base, namespace, self._names)
        mode = OPEN_MODE if namespace in self._open else FILE_MODE
        write_in_place(self._folders.hosts(namespace), text, mode)
        self._unwritten.pop(namespace, None)

    def _names_of(self, service: Service, pods: dict[Key, BoundPod]) -> ServiceNames:
        """Returns the pods that a service selects.

        In jobs every pod has a service of its own name, so that one is tried first.
        """
        key, selector = service.metadata.key, service.spec.selector
        if not selector:
            return ServiceNames(key, ())
        namesake = pods.get(key)
        if namesake is not None and _selects(selector, namesake):
            return ServiceNames(key, (key.name,))
        chosen = (
            other.name
            for other, pod in sorted(pods.items())
            if other.namespace == key.namespace and _selects(selector, pod)
        )
        return ServiceNames(key, tuple(chosen))


def _selects(selector: dict[str, str], pod: BoundPod) -> bool:
    labels = pod.metadata.labels
    return all(labels.get(name) == value for name, value in selector.items())
