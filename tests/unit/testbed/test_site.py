"""Every test cluster gets a number of its own, and all its names and addresses follow from it."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from testbed import site
from testbed.site import NODES, NUMBERS, NoSiteError, Site, claim_site, find_site


@pytest.fixture(autouse=True)
def claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(site, "CLAIMS", tmp_path)
    return tmp_path


def test_claim_takes_the_first_free_number() -> None:
    """Two folders never get one number, and a freed number is given again."""
    first, second = claim_site(Path("/a")), claim_site(Path("/b"))
    assert (first.number, second.number) == (0, 1)

    first.claim.unlink()
    assert claim_site(Path("/c")).number == 0
    assert find_site(Path("/b")) == second
    assert find_site(Path("/a")) is None


def test_claim_without_a_free_number_is_refused() -> None:
    """The last number is given away like the first, and then there is none."""
    for number in NUMBERS:
        claim_site(Path(f"/{number}"))

    with pytest.raises(NoSiteError, match="16 clusters run already"):
        claim_site(Path("/one-too-many"))


def test_addresses_of_clusters_do_not_meet() -> None:
    """Networks are disjoint; in one, services, nodes and pods have addresses of their own."""
    sites = [Site(number, Path("/a")) for number in NUMBERS]
    networks = [ipaddress.ip_network(one.network) for one in sites]
    for network, one in zip(networks, sites, strict=True):
        ranges = [one.pod_range(node) for node in NODES]
        ends = [end for both in ranges for end in both]
        single = [one.api_address, one.dns_address, *map(one.node_address, NODES), *ends]
        addresses = [ipaddress.ip_address(address) for address in single]
        assert len(set(addresses)) == len(addresses)
        assert all(address in network for address in addresses)
        services = ipaddress.ip_network(one.services)
        assert [address in services for address in addresses] == [True] * 2 + [False] * 6
        assert one.api_address == str(services[1]), "what pods are told the API server's is"
    assert not any(a.overlaps(b) for a in networks for b in networks if a is not b)
