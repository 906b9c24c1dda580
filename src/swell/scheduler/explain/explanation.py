"""What is said about a job that waits, or does not: values with the numbers, ready for JSON."""

from __future__ import annotations

from enum import Enum

import msgspec


class GroupStanding(Enum):
    """How a group stands."""

    WAITING = "Waiting"  # it cannot start now
    MAKING_ROOM = "MakingRoom"  # nodes are promised; those who are there have to leave first
    STARTING = "Starting"  # there is room, or its pods have nodes and do not all run yet
    RUNNING = "Running"
    COMPLETED = "Completed"


class Remedy(Enum):
    """How somebody who holds room can be made to give it."""

    LEAVING = "leaving"
    SHRINK = "shrink"
    EVICT = "evict"
    NONE = "none"


class PodClass(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Equal pods of a role that have no node, and what nodes say to them."""

    role: str
    n_pods: int
    each: dict[str, str]
    n_nodes: int
    n_nodes_fit: int
    n_slots: int  # how many such pods could start now
    refusals: tuple[NodeRefusal, ...] = ()


class NodeRefusal(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How many nodes refuse for one reason; some for several, if they are short of several."""

    reason: str
    n_nodes: int
    resource: str = ""
    text: str = ""


class QueueLimit(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A limit in the way; without a queue it is the cluster's."""

    queue: str
    resource: str
    held: str
    asked: str
    allowed: str
    is_whole: bool  # no more is in the whole cluster


class QueueFacts(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    name: str
    state: str
    allocated: dict[str, str]
    capability: dict[str, str]
    ahead: tuple[str, ...] = ()  # groups that wait too, and come first
    limits: tuple[QueueLimit, ...] = ()


class ResourceHolder(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A group, or somebody else's pods, with what it holds of what is missing."""

    name: str
    queue: str
    priority: int | None  # None: not a group of this scheduler
    n_pods: int
    holds: dict[str, str]
    remedy: Remedy
    text: str


class Advice(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Something that would let the group start; `command` does it, where one can."""

    text: str
    command: str = ""


class Explanation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Everything about one group, as of one session over the objects at hand."""

    group: str
    standing: GroupStanding
    group_phase: str
    priority: int
    min_member: int
    pods: dict[str, int]  # status → how many
    holds: dict[str, str]
    asks: dict[str, str]  # all pods without a node together
    reason: str = ""
    message: str = ""
    classes: tuple[PodClass, ...] = ()
    queue: QueueFacts | None = None
    holders: tuple[ResourceHolder, ...] = ()
    n_holders_more: int = 0
    victims: tuple[str, ...] = ()  # who has to leave for it, as decided now
    advice: tuple[Advice, ...] = ()
