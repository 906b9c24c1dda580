"""The explanation of one group, as values ready for JSON.

The field names and values are what `swell explain -o json` shows.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from swell.scheduler.model.reasons import QueueLimit


class GroupStanding(Enum):
    """Whether a group waits, starts, runs or has ended, by the session that explains it."""

    WAITING = "Waiting"  # it cannot start now
    MAKING_ROOM = "MakingRoom"  # nodes are reserved; pods there have to leave first
    STARTING = "Starting"  # there is room, or its pods have nodes and do not all run yet
    RUNNING = "Running"
    COMPLETED = "Completed"


class Remedy(Enum):
    """How the resources that a group holds can be freed for another."""

    LEAVING = "leaving"
    SHRINK = "shrink"
    EVICT = "evict"
    NONE = "none"


class PodClass(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Equal pods of a role that have no node, and why nodes refuse them."""

    role: str
    n_pods: int
    each: dict[str, str]
    n_nodes: int
    n_nodes_fit: int
    n_slots: int  # how many such pods could start now
    refusals: tuple[NodeRefusal, ...] = ()


class NodeRefusal(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How many nodes refuse for one reason. A node that lacks several resources counts for each."""

    reason: str
    n_nodes: int
    resource: str = ""
    text: str = ""


class DomainRoom(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A domain, and how many of the pods that wait it takes now."""

    name: str
    n_pods: int


class DomainFacts(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The domains that a group or sub-group with a network topology may use."""

    sub_group: str
    tier: int  # the highest that is allowed
    n_domains: int
    n_wanted: int  # pods that must be placed at once
    n_enough: int  # domains that take as many
    best: tuple[DomainRoom, ...]
    n_outside: int  # nodes that are in none of these domains


class QueueFacts(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The group's queue: what it holds and may hold, and what keeps the group waiting there."""

    name: str
    state: str
    allocated: dict[str, str]
    capability: dict[str, str]
    position: int = 0  # among the groups that wait in the queue, from 1; 0 if it does not wait
    n_waiting: int = 0
    ahead: tuple[str, ...] = ()  # groups that wait, too, and are served before
    limits: tuple[QueueLimit, ...] = ()


class ResourceHolder(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A group, or pods of another scheduler, with what it holds of the missing resources."""

    name: str
    queue: str
    priority: int | None  # None: not a group of this scheduler
    n_pods: int
    holds: dict[str, str]
    remedy: Remedy
    text: str


class Advice(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A change that would let the group start; `command` makes it, where there is one."""

    text: str
    command: str = ""


class Explanation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All that is known about one group, as of one session over the given objects."""

    group: str
    standing: GroupStanding
    group_phase: str
    priority: int
    min_member: int
    pods: dict[str, int]  # status -> how many
    holds: dict[str, str]
    asks: dict[str, str]  # all pods without a node together
    reason: str = ""
    message: str = ""
    never: str = ""  # why it cannot ever start on the nodes there are
    classes: tuple[PodClass, ...] = ()
    domains: tuple[DomainFacts, ...] = ()
    topology_not_applied: str = ""
    queue: QueueFacts | None = None
    holders: tuple[ResourceHolder, ...] = ()
    n_holders_more: int = 0
    victims: tuple[str, ...] = ()  # pods and shrinks that the session decided for it
    advice: tuple[Advice, ...] = ()
