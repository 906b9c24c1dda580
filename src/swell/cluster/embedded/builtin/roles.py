"""Roles and role bindings, of a namespace and of the cluster: defaults, and what is valid.

The kinds of the cluster have names of their own for the same objects; they differ in a few rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded.access.escalation import Author, check_binding, check_role
from swell.cluster.embedded.access.index import GROUP
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.registry import ServedKind, WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


def default_role(role: Body) -> None:
    """Show a role without rules as one with null, which is how Go writes a list of none."""
    if not role.get("rules"):
        role["rules"] = None


def prepare_role(new: Body, old: Body | None, context: WriteContext) -> None:
    if not context.identity.is_master:
        check_role(_author(context), _kind(context).plural, new, old)


def role_errors(new: Body, _old: Body | None, context: WriteContext) -> Iterator[FieldError]:
    namespaced = _kind(context).namespaced
    for index, rule in enumerate(new.get("rules") or ()):
        yield from _rule_errors(rule, f"rules[{index}]", namespaced=namespaced)
    aggregation = new.get("aggregationRule")
    if aggregation is not None:
        path, selectors = "aggregationRule.clusterRoleSelectors", "clusterRoleSelectors"
        if not aggregation.get(selectors):
            why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            yield field_errors.required(path, why)
        for index, selector in enumerate(aggregation.get(selectors, ())):
            yield from fields.selector_errors(selector, f"{path}[{index}]")


def _rule_errors(rule: Body, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    if not rule.get("verbs"):
        yield field_errors.required(f"{path}.verbs", "verbs must contain at least one value")
    if urls := rule.get("nonResourceURLs"):
        where = f"{path}.nonResourceURLs"
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield field_errors.invalid(where, urls, detail)
        elif any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield field_errors.invalid(where, urls, detail)
        return
    if not rule.get("apiGroups"):
        detail = "resource rules must supply at least one api group"
        yield field_errors.required(f"{path}.apiGroups", detail)
    if not rule.get("resources"):
        detail = "resource rules must supply at least one resource"
        yield field_errors.required(f"{path}.resources", detail)


def default_binding(binding: Body) -> None:
    reference = binding.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = GROUP
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"} and not subject.get("apiGroup"):
            subject["apiGroup"] = GROUP


def prepare_binding(new: Body, old: Body | None, context: WriteContext) -> None:
    if not context.identity.is_master:
        check_binding(_author(context), _kind(context).plural, new, old)


def binding_errors(new: Body, old: Body | None, context: WriteContext) -> Iterator[FieldError]:
    reference = new.get("roleRef", {})
    if old is not None and reference != old.get("roleRef"):
        yield field_errors.invalid("roleRef", reference, "cannot change roleRef")
    if reference.get("apiGroup") != GROUP:
        yield field_errors.not_supported("roleRef.apiGroup", reference.get("apiGroup"), [GROUP])
    kinds = ("Role", "ClusterRole") if _kind(context).namespaced else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        yield field_errors.not_supported("roleRef.kind", reference.get("kind", ""), kinds)
    if name := reference.get("name"):
        yield from fields.name_errors(name, "roleRef.name", "segment")
    else:
        yield field_errors.required("roleRef.name")
    for index, subject in enumerate(new.get("subjects") or ()):
        yield from _subject_errors(subject, f"subjects[{index}]")


def _subject_errors(subject: Body, path: str) -> Iterator[FieldError]:
    kind, name, group = (subject.get(field, "") for field in ("kind", "name", "apiGroup"))
    if not name:
        yield field_errors.required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            yield from fields.name_errors(name, f"{path}.name")
        if group:
            yield field_errors.not_supported(f"{path}.apiGroup", group, [""])
        if not subject.get("namespace"):
            yield field_errors.required(f"{path}.namespace")
    elif kind not in SUBJECT_KINDS:
        yield field_errors.not_supported(f"{path}.kind", kind, SUBJECT_KINDS)
    elif group != GROUP:
        yield field_errors.not_supported(f"{path}.apiGroup", group, [GROUP])


def _kind(context: WriteContext) -> ServedKind:
    if context.kind is None:
        raise AssertionError("the kind is known when its rules are asked")
    return context.kind


def _author(context: WriteContext) -> Author:
    if context.access is None:
        raise AssertionError("only the server itself writes without an index of roles")
    return Author(context.identity, context.access)


ROLES = Behaviour(default=default_role, prepare=prepare_role, errors=role_errors)
BINDINGS = Behaviour(default=default_binding, prepare=prepare_binding, errors=binding_errors)
