"""Finds the nodes that a command is about: by their names, by labels, or all of them."""

from __future__ import annotations

from collections.abc import Sequence

from swell.api.kinds import NODES
from swell.api.meta import Body, Key
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import ClusterConnection
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection

_PREFIXES = ("node/", "nodes/", "no/")


def nodes_named(
    names: Sequence[str], labels: str, connection: ClusterConnection, *, every: bool = False
) -> list[Body]:
    """Return the nodes; NotFoundError if a name is none, CommandError if nothing says which."""
    n_ways = sum(map(bool, (names, labels, every)))
    if n_ways != 1:
        problem = "say which nodes" if not n_ways else "give names, labels or --all, not several"
        raise CommandError(problem, "by NODE..., -l LABELS or --all", USAGE)
    if not names:
        found = connection.client.send(calls.list_page(NODES.untyped(), Selection(labels=labels)))
        if not found.items:
            raise CommandError(f"no node has the labels {labels}" if labels else "there is no node")
        return list(found.items)
    return [
        connection.client.send(calls.get(NODES.untyped(), Key("", bare_name(name))))
        for name in names
    ]


def bare_name(name: str) -> str:
    """Return the name of a node that may be written as node/NAME."""
    return next((name.removeprefix(one) for one in _PREFIXES if name.startswith(one)), name)
