"""Refuses roles and bindings that grant more than their author has.

Whoever may write roles could otherwise give themselves everything. As on a real server, one needs
the permissions that a role grants, or the verb `escalate` on it, and for a binding `bind` on its
role.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.access.attributes import Identity, RequestAttributes
from swell.cluster.embedded.access.index import (
    CLUSTER_ROLES,
    GROUP,
    ROLES,
    AccessIndex,
    RoleKey,
    bound_role,
)
from swell.cluster.embedded.access.policyrules import (
    SINGLES_MAX,
    PolicyRule,
    TooManyPermissionsError,
    missing_rules,
    quoted,
)

_EVERYTHING = (
    PolicyRule(frozenset("*"), frozenset("*"), frozenset("*")),
    PolicyRule(frozenset("*"), paths=frozenset("*")),
)


class Author(NamedTuple):
    """The writer of a role or binding, and what it is allowed otherwise."""

    identity: Identity
    access: AccessIndex


def check_role(author: Author, plural: str, new: Body, old: Body | None) -> None:
    """Refuse a role with rules that its author does not have; ClusterError (403)."""
    if author.identity.is_master or _is_for_garbage_collection(new, old):
        return
    metadata = new["metadata"]
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    wanted = RequestAttributes("escalate", GROUP, plural, namespace=namespace, name=name)
    if author.access.decide(author.identity, wanted).allowed:
        return
    if new.get("aggregationRule") and _missing(author, "", _EVERYTHING):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise refusals.access_denied(plural, GROUP, name, why)
    rules = [PolicyRule.of(rule) for rule in new.get("rules") or ()]
    _refuse_missing(author, plural, Key(namespace, name), rules)


def check_binding(author: Author, plural: str, new: Body, old: Body | None) -> None:
    """Refuse a binding to a role that grants what its author does not have; ClusterError."""
    reference = new.get("roleRef") or {}
    # A reference to nothing is left to validation, which says what is wrong with it.
    names_a_role = reference.get("kind") in {"Role", "ClusterRole"} and reference.get("name")
    if author.identity.is_master or not names_a_role or _is_for_garbage_collection(new, old):
        return
    metadata = new["metadata"]
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    role = bound_role((f"{plural}.{GROUP}", Key(namespace, name)), reference)
    if _may_bind(author, role, namespace):
        return
    rules = author.access.rules_of(role)
    if rules is None:
        # A real server names the resource of the request here, not that of the role.
        raise refusals.not_found(plural, GROUP, role[1].name)
    _refuse_missing(author, plural, Key(namespace, name), rules)


def _may_bind(author: Author, role: RoleKey, namespace: str) -> bool:
    collection, key = role
    plural = {ROLES: "roles", CLUSTER_ROLES: "clusterroles"}[collection]
    wanted = RequestAttributes("bind", GROUP, plural, namespace=namespace, name=key.name)
    return author.access.decide(author.identity, wanted).allowed


def _missing(author: Author, namespace: str, rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    return missing_rules(author.access.held(author.identity, namespace), rules)


def _refuse_missing(author: Author, plural: str, key: Key, rules: Iterable[PolicyRule]) -> None:
    identity = author.identity
    try:
        missing = _missing(author, key.namespace, rules)
    except TooManyPermissionsError:
        why = f"the rules grant more than {SINGLES_MAX:,} single permissions"
        raise refusals.access_denied(plural, GROUP, key.name, why) from None
    if missing:
        who = f'user "{identity.name}" (groups=[{quoted(identity.groups)}])'
        what = "is attempting to grant RBAC permissions not currently held"
        texts = "\n".join(sorted({str(rule) for rule in missing}))
        raise refusals.access_denied(plural, GROUP, key.name, f"{who} {what}:\n{texts}")


def _is_for_garbage_collection(new: Body, old: Body | None) -> bool:
    """Whether an update changes owners and finalizers alone, as the garbage collector does."""
    if old is None:
        return False
    return _without_owners(new) == _without_owners(old)


def _without_owners(body: Body) -> Body:
    ignored = {"ownerReferences", "finalizers", "resourceVersion"}
    metadata = {field: value for field, value in body["metadata"].items() if field not in ignored}
    return {**body, "metadata": metadata}
