"""HyperNodes as objects: which nodes their selectors select, kept in step with both.

A selector is asked about a node when either is new or changed. The tree of domains is built anew
(`domain_tree`) when a HyperNode changed, or the nodes, their names or their labels did; not when
tasks move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from swell.api.core import Node
from swell.api.matching import is_empty_selector, selector_matches
from swell.api.topology import DOMAIN_MEMBER, NODE_MEMBER, HyperNode, MemberSelector
from swell.scheduler.model.domain_tree import DomainTree, TreeEntry, build_tree
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.tasks import NOWHERE
from swell.schema.patterns import PatternError, searcher

NodeTest = Callable[[Node], bool]


class _Members:
    """The selectors of one HyperNode, and the nodes that they have selected."""

    def __init__(self, hyper_node: HyperNode) -> None:
        self.children: dict[str, None] = {}
        self.exact: dict[str, None] = {}
        self.tests: list[NodeTest] = []
        self.selected: set[str] = set()  # by the tests, not by exact names
        for member in hyper_node.spec.members:
            exact = member.selector.exact_match
            if exact is not None and exact.name:
                into = self.children if member.type == DOMAIN_MEMBER else self.exact
                into[exact.name] = None
            elif member.type == NODE_MEMBER:
                # Volcano ignores patterns and labels of members that are HyperNodes.
                self.tests.extend(_tests(member.selector))

    def look_at(self, node: Node) -> None:
        name = node.metadata.name
        if any(test(node) for test in self.tests):
            self.selected.add(name)
        else:
            self.selected.discard(name)


class HyperNodes:
    """All HyperNodes, and the tree that they form with the nodes of a table."""

    def __init__(self) -> None:
        self.objects: dict[str, HyperNode] = {}
        # Written by the live scheduler: it may not read any, so that nobody knows what there is.
        self.are_hidden = False
        self._members: dict[str, _Members] = {}
        # The labels with which each node was last looked at, and the HyperNodes that have not
        # been asked about any node yet.
        self._seen: dict[str, Mapping[str, str]] = {}
        self._unasked: dict[str, None] = {}
        self._tree: DomainTree | None = None
        self._layout = -1  # of the node table, for which the tree is right

    def __bool__(self) -> bool:
        return bool(self.objects)

    def put(self, hyper_node: HyperNode) -> bool:
        """Adds or replaces a HyperNode; returns whether that may change the tree."""
        name = hyper_node.metadata.name
        known = self.objects.get(name)
        self.objects[name] = hyper_node
        if known is not None and _facts(known) == _facts(hyper_node):
            return False  # only its status or metadata has changed
        self._members[name] = _Members(hyper_node)
        self._unasked[name] = None
        self._layout = -1
        return True

    def remove(self, name: str) -> None:
        if self.objects.pop(name, None) is not None:
            del self._members[name]
            self._unasked.pop(name, None)
            self._layout = -1

    def tree(self, nodes: NodeTable) -> DomainTree | None:
        """Returns the tree as of now; None without any HyperNode."""
        if not self.objects:
            self._tree, self._layout = None, -1
            self._seen.clear()
            return None
        if self._layout != nodes.layout:
            self._match(nodes)
            self._tree = build_tree(list(self._entries(nodes)), nodes)
            self._layout = nodes.layout
        return self._tree

    def _match(self, nodes: NodeTable) -> None:
        """Asks selectors about nodes: new ones about all, the others about those that changed."""
        asking = [members for members in self._members.values() if members.tests]
        fresh = [m for name in self._unasked if (m := self._members[name]).tests]
        self._unasked.clear()
        if not asking:
            # All members are named: there is nothing to ask nodes, until the first selector comes.
            self._seen.clear()
            return
        seen, self._seen = self._seen, {}
        for node in nodes.objects:
            if node is None:
                continue
            name, labels = node.metadata.name, node.metadata.labels
            is_known = seen.pop(name, None) == labels
            self._seen[name] = labels
            for members in fresh if is_known else asking:
                members.look_at(node)
        for gone in seen:
            for members in asking:
                members.selected.discard(gone)

    def _entries(self, nodes: NodeTable) -> Iterator[TreeEntry]:
        for name, hyper_node in self.objects.items():
            members, meta = self._members[name], hyper_node.metadata
            places = [nodes.find(one) for one in (*members.exact, *members.selected)]
            yield TreeEntry(
                name=name,
                created=meta.creation_timestamp or "",
                tier=hyper_node.spec.tier,
                tier_name=hyper_node.spec.tier_name,
                children=tuple(members.children),
                places=sorted({p for p in places if p != NOWHERE and nodes.objects[p] is not None}),
            )


def _tests(selector: MemberSelector) -> Iterator[NodeTest]:
    if selector.regex_match is not None:
        try:
            found = searcher(selector.regex_match.pattern)
        except PatternError:
            return  # selects nothing
        if selector.regex_match.pattern:
            yield lambda node: found(node.metadata.name)
    elif selector.label_match is not None and not is_empty_selector(selector.label_match):
        yield lambda node: selector_matches(selector.label_match, node.metadata.labels)


def _facts(hyper_node: HyperNode) -> tuple[object, ...]:
    return hyper_node.spec, hyper_node.metadata.creation_timestamp
