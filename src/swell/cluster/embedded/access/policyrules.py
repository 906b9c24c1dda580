"""The rules of roles: what one allows, and whether some cover another. Pure.

A rule grants every combination of its verbs with its groups and resources, on all objects or on
named ones, or with its paths. `*` stands for all of a kind; `*/scale` for that part of every
resource; a path may end with `*`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from swell.api.meta import Body
from swell.cluster.embedded.access.attributes import RequestAttributes

ALL = "*"
# A rule of n groups, resources and verbs grants n³ single permissions, and all may have to be
# compared. No role of a cluster comes near; Kubernetes' largest has some 400.
SINGLES_MAX = 5_000
# Of one rule; the rules of Kubernetes' own roles grant up to some hundred.
INDEXED_SINGLES_MAX = 256
_ANY = None  # in place of a name: all objects


class TooManyPermissionsError(Exception):
    """The rules grant more single permissions than are compared one by one."""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule, as sets."""

    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()  # empty: all objects
    paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, rule: Body) -> PolicyRule:
        fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(frozenset(rule.get(field) or ()) for field in fields))

    def allows(self, wanted: RequestAttributes) -> bool:
        if wanted.verb not in self.verbs and ALL not in self.verbs:
            return False
        if not wanted.resource:
            return any(_path_matches(path, wanted.path) for path in self.paths)
        return (
            (wanted.group in self.groups or ALL in self.groups)
            and self._has_resource(wanted.combined, wanted.subresource)
            and (not self.names or wanted.name in self.names)
        )

    def covers(self, single: PolicyRule) -> bool:
        """Whether this rule grants all that a rule of single permissions grants."""
        return (
            _has_all(self.verbs, single.verbs)
            and _has_all(self.groups, single.groups)
            and all(self._covers_resource(one) for one in single.resources)
            and all(any(_path_matches(own, one) for own in self.paths) for one in single.paths)
            and (not self.names or (bool(single.names) and single.names <= self.names))
        )

    def _has_resource(self, combined: str, subresource: str) -> bool:
        return (
            ALL in self.resources
            or combined in self.resources
            or (bool(subresource) and f"*/{subresource}" in self.resources)
        )

    def _covers_resource(self, resource: str) -> bool:
        return self._has_resource(resource, resource.partition("/")[2])

    def singles(self) -> Iterator[PolicyRule]:
        """The permissions that this rule grants, one by one."""
        names = [frozenset({name}) for name in sorted(self.names)] or [frozenset[str]()]
        for verb in sorted(self.verbs):
            for group in sorted(self.groups):
                for resource in sorted(self.resources):
                    for name in names:
                        yield PolicyRule(
                            frozenset({verb}), frozenset({group}), frozenset({resource}), name
                        )
            for path in sorted(self.paths):
                yield PolicyRule(frozenset({verb}), paths=frozenset({path}))

    @property
    def n_singles(self) -> int:
        n_objects = len(self.groups) * len(self.resources) * max(1, len(self.names))
        return len(self.verbs) * (n_objects + len(self.paths))

    def __str__(self) -> str:
        """The rule as a real server writes it into a refusal."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.paths),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        shown = (f"{name}:[{quoted(sorted(values))}]" for name, values in parts if values)
        return f"{{{', '.join(shown)}}}"


class RuleIndex:
    """The rules of one role, such that a question takes no longer the more rules there are.

    Rules that grant few single permissions, as nearly all do, are kept as these, in sets. Only the
    others are gone through.
    """

    __slots__ = ("_broad", "_objects", "_path_starts", "_paths")

    def __init__(self, rules: Iterable[Body]) -> None:
        self._objects: set[tuple[str, str, str, str | None]] = set()  # verb, group, resource, name
        self._paths: set[tuple[str, str]] = set()  # verb, path
        self._path_starts: list[tuple[str, str]] = []
        self._broad: list[PolicyRule] = []
        for body in rules:
            self._add(body)

    def allows(self, wanted: RequestAttributes) -> bool:
        if not wanted.resource:
            return self._has_path(wanted.verb, wanted.path, wanted)
        combined = wanted.combined
        if self._has_object(wanted.verb, wanted.group, combined, wanted.name):
            return True
        return any(rule.allows(wanted) for rule in self._broad)

    def covers(self, single: PolicyRule) -> bool:
        """Whether some rule grants a single permission, as `PolicyRule.singles` makes them."""
        (verb,) = single.verbs
        for path in single.paths:
            return self._has_path(verb, path, None) or self._broad_covers(single)
        (group,), (resource,) = single.groups, single.resources
        name = next(iter(single.names), _ANY)
        return self._has_object(verb, group, resource, name) or self._broad_covers(single)

    def _broad_covers(self, single: PolicyRule) -> bool:
        return any(rule.covers(single) for rule in self._broad)

    def _has_object(self, verb: str, group: str, resource: str, name: str | None) -> bool:
        part = resource.partition("/")[2]
        resources = (resource, ALL, f"*/{part}") if part else (resource, ALL)
        objects, names = self._objects, (name, _ANY)
        return bool(objects) and any(
            (v, g, r, n) in objects
            for r in resources
            for v in (verb, ALL)
            for g in (group, ALL)
            for n in names
        )

    def _has_path(self, verb: str, path: str, wanted: RequestAttributes | None) -> bool:
        for known in (verb, ALL):
            if (known, path) in self._paths or (known, ALL) in self._paths:
                return True
        if any(own in {verb, ALL} and path.startswith(start) for own, start in self._path_starts):
            return True
        return wanted is not None and any(rule.allows(wanted) for rule in self._broad)

    def _add(self, body: Body) -> None:
        verbs, groups = body.get("verbs") or (), body.get("apiGroups") or ()
        resources, paths = body.get("resources") or (), body.get("nonResourceURLs") or ()
        names = body.get("resourceNames") or (_ANY,)
        n_singles = len(verbs) * (len(groups) * len(resources) * len(names) + len(paths))
        # Names of objects in a rule of paths count for what the rule covers, and for nothing else.
        if n_singles > INDEXED_SINGLES_MAX or (paths and names != (_ANY,)):
            self._broad.append(PolicyRule.of(body))
            return
        self._objects.update(product(verbs, groups, resources, names))
        for verb, path in product(verbs, paths):
            self._paths.add((verb, path))
            if path.endswith(ALL) and path != ALL:
                self._path_starts.append((verb, path.rstrip(ALL)))


def missing_rules(held: Iterable[RuleIndex], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The permissions of the wanted rules that no held rule covers, those of one object in one.

    TooManyPermissionsError when they are too many to be compared one by one.
    """
    held, wanted = list(held), list(wanted)
    if sum(rule.n_singles for rule in wanted) > SINGLES_MAX:
        raise TooManyPermissionsError
    missing: dict[PolicyRule, set[str]] = {}
    for rule in wanted:
        for single in rule.singles():
            if not any(own.covers(single) for own in held):
                missing.setdefault(replace(single, verbs=frozenset()), set()).update(single.verbs)
    return [replace(rule, verbs=frozenset(verbs)) for rule, verbs in missing.items()]


def quoted(texts: Iterable[str]) -> str:
    return " ".join(f'"{text}"' for text in texts)


def _has_all(own: frozenset[str], wanted: frozenset[str]) -> bool:
    return ALL in own or wanted <= own


def _path_matches(own: str, path: str) -> bool:
    """Whether a rule's path stands for a request's path, or for all that another rule's does."""
    return own in {ALL, path} or (own.endswith(ALL) and path.startswith(own.rstrip(ALL)))
