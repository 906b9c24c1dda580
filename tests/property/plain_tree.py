"""The tree of HyperNodes by plain rules: which of them count, and what is below each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.scheduler_cases import BORN

Row = dict[str, Any]
ROOT = "~root"  # after every other name


@dataclass
class Tree:
    """The HyperNodes that count, and the root above them."""

    tiers: dict[str, int] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, set[str]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)

    def above(self, name: str) -> list[str]:
        """Returns the domain and all around it, the narrowest first."""
        found = [name]
        while found[-1] != ROOT:
            found.append(self.parents.get(found[-1], ROOT))
        return found

    def below(self, name: str) -> list[str]:
        return sorted(one for one in self.tiers if name in self.above(one))

    def holding(self, nodes: set[str]) -> str:
        fitting = [one for one in self.tiers if nodes <= self.nodes[one]]
        return min(fitting, key=lambda one: (self.tiers[one], one)) if fitting else ROOT

    def leaf(self, node: str) -> str:
        return self.holding({node})

    def common(self, one: str, other: str) -> str:
        return next(name for name in self.above(one) if name in self.above(other))

    @property
    def lowest(self) -> int:
        return min(self.tiers.values())


def tree_of(case: Row) -> Tree:
    """Takes HyperNodes by age and name, and leaves out each that contradicts those before it."""
    nodes = {row["name"] for row in case["nodes"]}
    tree, kept = Tree(), dict[str, Row]()
    for row in sorted(case["hyperNodes"], key=lambda r: (r.get("created", BORN), r["name"])):
        trial = {**kept, row["name"]: row}
        if _is_sound(trial, nodes):
            kept = trial
    for name, row in kept.items():
        tree.tiers[name] = row["tier"]
        tree.nodes[name] = _nodes_below(kept, name, nodes)
        tree.parents.update({one: name for one in row["members"] if one in kept})
    tree.tiers[ROOT] = max(tree.tiers.values(), default=0) + 1
    tree.nodes[ROOT] = nodes
    for row in sorted(case["hyperNodes"], key=lambda r: str(r["name"])):
        if row.get("tierName"):
            tree.names[row["tierName"]] = row["tier"]
    return tree


def _nodes_below(rows: dict[str, Row], name: str, nodes: set[str]) -> set[str]:
    found: set[str] = set()
    for member in rows[name]["members"]:
        if member in nodes:
            found.add(member)
        elif member in rows:
            found |= _nodes_below(rows, member, nodes)
    return found


def _is_sound(rows: dict[str, Row], nodes: set[str]) -> bool:
    """Whether no child has two parents or stands too high, and no node is in two of one tier."""
    claims = [m for row in rows.values() for m in dict.fromkeys(row["members"]) if m not in nodes]
    if len(set(claims)) < len(claims):
        return False
    for name, row in rows.items():
        if any(m in rows and rows[m]["tier"] >= row["tier"] for m in row["members"]):
            return False  # a cycle has such a member, too
        if name in row["members"]:
            return False
    taken = [
        (row["tier"], node)
        for name, row in rows.items()
        for node in _nodes_below(rows, name, nodes)
    ]
    return len(set(taken)) == len(taken)
