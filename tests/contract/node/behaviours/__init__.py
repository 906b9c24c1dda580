"""The behaviours by subject; importing this registers all of them."""

from tests.contract.node.behaviours import (
    deleting,
    ending,
    environment,
    initialising,
    logs,
    probing,
    restarting,
    starting,
    volumes,
)

__all__ = [
    "deleting",
    "ending",
    "environment",
    "initialising",
    "logs",
    "probing",
    "restarting",
    "starting",
    "volumes",
]
