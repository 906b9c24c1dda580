"""The roles and bindings of the store by subject, and the decision on one request.

A request is decided by the bindings of its user and groups alone, in its namespace and in the whole
cluster. The index follows the commits of the store; a role's rules are made into sets on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from swell.api.meta import Body, Key
from swell.cluster.embedded.access.attributes import (
    AccessDecision,
    Identity,
    RequestAttributes,
    service_account,
)
from swell.cluster.embedded.access.policyrules import PolicyRule, RuleIndex
from swell.cluster.embedded.storage import Commit, Storage

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
_ROLE_KINDS = frozenset({ROLES, CLUSTER_ROLES})
_BINDING_KINDS = (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)

LARGE_ROLE_BYTES = 32 << 10
SHOWN_MAX = 5_000  # rules in the answer to a review; more than any role of a cluster has

RoleKey = tuple[str, Key]  # collection and key
# The kind of a subject (User or Group), its name, and the namespace of the binding.
SubjectKey = tuple[str, str, str]


class BoundRole(NamedTuple):
    """A role that a binding gives to a subject; the text describes all three to a person."""

    role: RoleKey
    text: str


class GrantedRules(NamedTuple):
    """The rules that an identity has in a namespace, and the bindings that lead nowhere."""

    rules: list[PolicyRule]
    problems: list[str]


class AccessIndex:
    """Decides on requests by the roles and bindings of one store."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._bound: dict[SubjectKey, dict[RoleKey, BoundRole]] = {}
        self._rules: dict[RoleKey, RuleIndex] = {}
        for collection in _BINDING_KINDS:
            for key, stored in storage.list(collection).items:
                self._bind((collection, key), stored.body)
        storage.on_commit.append(self._follow)

    def decide(self, identity: Identity, wanted: RequestAttributes) -> AccessDecision:
        """Whether an identity may do something. Members of system:masters may do everything."""
        if identity.is_master:
            return AccessDecision(True)
        problems: list[str] = []
        for bound in self._roles_of(identity, wanted.namespace):
            rules = self._indexed(bound.role)
            if rules is None:
                problems.append(_missing(bound.role))
                continue
            if rules.allows(wanted):
                return AccessDecision(True, f"RBAC: allowed by {bound.text}")
        return AccessDecision(False, f"RBAC: {_joined(problems)}" if problems else "")

    def granted(self, identity: Identity, namespace: str) -> GrantedRules:
        """All rules of an identity in a namespace, or in the whole cluster if that is empty.

        Of very many the rest is left out, and said to be.
        """
        rules: list[PolicyRule] = []
        problems: list[str] = []
        for bound in self._roles_of(identity, namespace):
            found = self.rules_of(bound.role, SHOWN_MAX + 1 - len(rules))
            if found is None:
                problems.append(_missing(bound.role))
                continue
            rules.extend(found)
            if len(rules) > SHOWN_MAX:
                problems.append(f"only the first {SHOWN_MAX} rules are listed")
                break
        return GrantedRules(rules[:SHOWN_MAX], problems)

    def held(self, identity: Identity, namespace: str) -> list[RuleIndex]:
        """The rules of all roles of an identity, to ask whether they cover others."""
        found = (self._indexed(bound.role) for bound in self._roles_of(identity, namespace))
        return [rules for rules in found if rules is not None]

    def rules_of(self, role: RoleKey, limit: int | None = None) -> list[PolicyRule] | None:
        """The rules of a role, as many as asked; None when there is no such role."""
        stored = self._storage.get(*role)
        if stored is None:
            return None
        return [PolicyRule.of(rule) for rule in (stored.body.get("rules") or ())[:limit]]

    def _indexed(self, role: RoleKey) -> RuleIndex | None:
        rules = self._rules.get(role)
        if rules is None:
            stored = self._storage.get(*role)
            if stored is None:
                return None
            rules = self._rules[role] = RuleIndex(stored.body.get("rules") or ())
        return rules

    def _roles_of(self, identity: Identity, namespace: str) -> Iterator[BoundRole]:
        """The roles bound to a user and its groups: those of the cluster, then of the namespace."""
        subjects = [("User", identity.name), *(("Group", group) for group in identity.groups)]
        for scope in ("", namespace) if namespace else ("",):
            for kind, name in subjects:
                yield from self._bound.get((kind, name, scope), {}).values()

    def _follow(self, commit: Commit) -> None:
        role = commit.collection, commit.key
        if commit.collection in _ROLE_KINDS:
            self._rules.pop(role, None)
            # Of a large role at once: the first question may be about the rules of many.
            if commit.after is not None and len(commit.after.raw) > LARGE_ROLE_BYTES:
                self._indexed(role)
        elif commit.collection in _BINDING_KINDS:
            if commit.before is not None:
                self._unbind(role, commit.before.body)
            if commit.after is not None:
                self._bind(role, commit.after.body)

    def _bind(self, binding: RoleKey, body: Body) -> None:
        role = bound_role(binding, body["roleRef"])
        for subject, text in _subjects(binding, body):
            reference = body["roleRef"]
            described = f'{_described(binding)} of {reference["kind"]} "{reference["name"]}"'
            bound = BoundRole(role, f"{described} to {text}")
            self._bound.setdefault(subject, {})[binding] = bound

    def _unbind(self, binding: RoleKey, body: Body) -> None:
        for subject, _ in _subjects(binding, body):
            bindings = self._bound.get(subject, {})
            bindings.pop(binding, None)
            if not bindings:
                self._bound.pop(subject, None)


def bound_role(binding: RoleKey, reference: Body) -> RoleKey:
    """The role that a binding's roleRef names: one of its namespace, or one of the cluster."""
    name = reference.get("name") or ""
    if reference.get("kind") == "Role":
        return ROLES, Key(binding[1].namespace, name)
    return CLUSTER_ROLES, Key("", name)


def _subjects(binding: RoleKey, body: Body) -> Iterator[tuple[SubjectKey, str]]:
    """The subjects of a binding as keys of the index, each with a description."""
    scope = binding[1].namespace
    for subject in body.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name") or ""
        if kind == "ServiceAccount":
            namespace = subject.get("namespace") or scope
            user = service_account(namespace, name)
            yield ("User", user, scope), f'ServiceAccount "{name}/{namespace}"'
        elif kind in {"User", "Group"}:
            yield (kind, name, scope), f'{kind} "{name}"'


def _described(binding: RoleKey) -> str:
    collection, key = binding
    if collection == ROLE_BINDINGS:
        return f'RoleBinding "{key.name}/{key.namespace}"'
    return f'ClusterRoleBinding "{key.name}"'


def _missing(role: RoleKey) -> str:
    collection, key = role
    kind = "role" if collection == ROLES else "clusterrole"
    return f'{kind}.{GROUP} "{key.name}" not found'


def _joined(problems: Iterable[str]) -> str:
    """Problems as Go writes a list of errors: one bare, several in brackets, none twice."""
    texts = list(dict.fromkeys(problems))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
