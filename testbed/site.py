"""Where one test cluster is on the machine: names, addresses and files.

A cluster has a number that no other on the machine has. The claim of it, a link to the cluster's
folder, is made before anything else and removed after everything else, so that whoever takes the
cluster away finds all of it by the number, however far its start had come.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NUMBERS = range(16)
PREFIX_BITS = 20
NODES = ("node-1", "node-2")
CLAIMS = Path("/run")


class NoSiteError(Exception):
    """Every number is taken by another cluster."""


@dataclass(frozen=True, slots=True)
class Site:
    """All that follows from the number and the folder. The addresses are a range kept for tests."""

    number: int
    folder: Path

    @property
    def claim(self) -> Path:
        return CLAIMS / f"swell-testbed-{self.number}"

    @property
    def bridge(self) -> str:
        return f"swell{self.number}"

    @property
    def cgroup(self) -> str:
        """The name of the cgroup, in every hierarchy, that all processes of the cluster are in."""
        return f"swell-testbed-{self.number}"

    @property
    def loopback(self) -> str:
        """An address that only programs on the machine reach, for what pods have no use for."""
        return f"127.18.{self.number}.1"

    @property
    def services(self) -> str:
        return f"{self._address(0, 0)}/24"

    @property
    def api_address(self) -> str:
        """The first address of the services: what pods are told the API server's is."""
        return self._address(0, 1)

    @property
    def dns_address(self) -> str:
        return self._address(0, 10)

    def node_address(self, node: str) -> str:
        return self._address(1, 1 + NODES.index(node))

    def pod_range(self, node: str) -> tuple[str, str]:
        third = 2 + NODES.index(node)
        return self._address(third, 1), self._address(third, 254)

    @property
    def network(self) -> str:
        return f"{self._address(0, 0)}/{PREFIX_BITS}"

    def node_folder(self, node: str) -> Path:
        return self.folder / node

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def _address(self, third: int, fourth: int) -> str:
        return f"198.18.{self.number * 16 + third}.{fourth}"


def claim_site(folder: Path) -> Site:
    """Take the first free number for a folder."""
    for number in NUMBERS:
        site = Site(number, folder)
        try:
            site.claim.symlink_to(folder)
        except FileExistsError:
            continue
        return site
    raise NoSiteError(f"{len(NUMBERS)} clusters run already, see {CLAIMS}/swell-testbed-*")


def find_site(folder: Path) -> Site | None:
    """The site that a folder has claimed, running or not."""
    sites = (Site(number, folder) for number in NUMBERS)
    return next((site for site in sites if _claimed_by(site.claim) == folder), None)


def _claimed_by(claim: Path) -> Path | None:
    try:
        return claim.readlink()
    except FileNotFoundError:
        return None
