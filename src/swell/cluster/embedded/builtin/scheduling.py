"""Where a pod may run: tolerations, affinity, topology spread, scheduling gates; node taints."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.objectmeta import label_value_problems, name_problems
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TOLERATION_OPERATORS = ("Equal", "Exists")
UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def scheduling_errors(spec: Body, path: str) -> Iterator[FieldError]:
    yield from fields.labels_errors(spec.get("nodeSelector", {}), f"{path}.nodeSelector")
    yield from toleration_errors(spec.get("tolerations", ()), f"{path}.tolerations")
    yield from _affinity_errors(spec.get("affinity", {}), f"{path}.affinity")
    spreads = spec.get("topologySpreadConstraints", [])
    yield from _spread_errors(spreads, f"{path}.topologySpreadConstraints")
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        where, name = f"{path}.schedulingGates[{index}]", gate.get("name", "")
        yield from fields.qualified_name_errors(name, where)
        if name in seen:
            yield field_errors.duplicate(where, name)
        seen.add(name)


def toleration_errors(tolerations: list[Body], path: str) -> Iterator[FieldError]:
    for index, toleration in enumerate(tolerations):
        where = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value = toleration.get("value", "")
        if key:
            yield from fields.qualified_name_errors(key, f"{where}.key")
        elif operator != "Exists":
            detail = "operator must be Exists when `key` is empty"
            yield field_errors.invalid(f"{where}.operator", operator, detail)
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield field_errors.invalid(f"{where}.effect", toleration.get("effect", ""), detail)
        if operator in {"", "Equal"}:  # kube-apiserver reports a bad value at the operator
            for problem in label_value_problems(value):
                yield field_errors.invalid(f"{where}.operator", value, problem)
        elif operator == "Exists" and value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield field_errors.invalid(f"{where}.operator", value, detail)
        elif operator in {"Lt", "Gt"}:
            yield field_errors.not_supported(f"{where}.operator", operator, TOLERATION_OPERATORS)


def _affinity_errors(affinity: Body, path: str) -> Iterator[FieldError]:
    node = affinity.get("nodeAffinity", {})
    where = f"{path}.nodeAffinity"
    if REQUIRED in node:
        yield from node_selector_errors(node[REQUIRED], f"{where}.{REQUIRED}")
    for index, term in enumerate(node.get(PREFERRED, ())):
        at = f"{where}.{PREFERRED}[{index}]"
        yield from _weight_errors(term, at)
        yield from _node_term_errors(term.get("preference", {}), f"{at}.preference")
    for name in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(name, {})
        for index, term in enumerate(part.get(REQUIRED, ())):
            yield from _pod_term_errors(term, f"{path}.{name}.{REQUIRED}[{index}]")
        for index, term in enumerate(part.get(PREFERRED, ())):
            at = f"{path}.{name}.{PREFERRED}[{index}]"
            yield from _weight_errors(term, at)
            yield from _pod_term_errors(term.get("podAffinityTerm", {}), f"{at}.podAffinityTerm")


def _weight_errors(term: Body, path: str) -> Iterator[FieldError]:
    if not 1 <= term.get("weight", 0) <= 100:
        yield field_errors.invalid(
            f"{path}.weight", term.get("weight", 0), "must be in the range 1-100"
        )


def node_selector_errors(selector: Body, path: str) -> Iterator[FieldError]:
    terms = selector.get("nodeSelectorTerms", [])
    if not terms:
        detail = "must have at least one node selector term"
        yield field_errors.required(f"{path}.nodeSelectorTerms", detail)
    for index, term in enumerate(terms):
        yield from _node_term_errors(term, f"{path}.nodeSelectorTerms[{index}]")


def _node_term_errors(term: Body, path: str) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        where, operator = f"{path}.matchExpressions[{index}]", requirement.get("operator", "")
        yield from fields.requirement_errors(requirement, operator, where, numeric=True)
    for index, requirement in enumerate(term.get("matchFields", ())):
        yield from _node_field_errors(requirement, f"{path}.matchFields[{index}]")


def _node_field_errors(requirement: Body, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    if operator not in {"In", "NotIn"}:
        yield field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        yield field_errors.required(
            f"{path}.values", "must be only one value for a node field selector"
        )
    if requirement.get("key") != "metadata.name":
        yield field_errors.invalid(
            f"{path}.key", requirement.get("key", ""), "not a valid field key"
        )
        return
    for index, value in enumerate(values):
        yield from fields.name_errors(value, f"{path}.values[{index}]")


def _pod_term_errors(term: Body, path: str) -> Iterator[FieldError]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from fields.selector_errors(term.get(name), f"{path}.{name}")
    for namespace in term.get("namespaces", ()):
        for problem in name_problems(namespace, "label"):
            yield field_errors.invalid(f"{path}.namespace", namespace, problem)
    yield from fields.qualified_name_errors(term.get("topologyKey", ""), f"{path}.topologyKey")


def _spread_errors(constraints: list[Body], path: str) -> Iterator[FieldError]:
    pairs: list[tuple[object, object]] = []
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            detail = "must be greater than zero"
            yield field_errors.invalid(f"{where}.maxSkew", constraint.get("maxSkew", 0), detail)
        action = constraint.get("whenUnsatisfiable", "")
        if action not in UNSATISFIABLE:
            yield field_errors.not_supported(f"{where}.whenUnsatisfiable", action, UNSATISFIABLE)
        pair = (constraint.get("topologyKey"), action)
        if pair in pairs:
            # kube-apiserver names the first of the two.
            first = f"{path}[{pairs.index(pair)}].{{topologyKey, whenUnsatisfiable}}"
            yield field_errors.duplicate(first, list(pair))
        pairs.append(pair)
        domains = constraint.get("minDomains")
        if domains is not None and domains <= 0:
            yield field_errors.invalid(f"{where}.minDomains", domains, "must be greater than zero")
        if domains is not None and action != "DoNotSchedule":
            detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule"
            yield field_errors.invalid(f"{where}.minDomains", domains, detail)
        yield from fields.selector_errors(constraint.get("labelSelector"), f"{where}.labelSelector")
        if constraint.get("matchLabelKeys") and "labelSelector" not in constraint:
            detail = "must not be specified when labelSelector is not set"
            yield field_errors.forbidden(f"{where}.matchLabelKeys", detail)


def taint_errors(taints: list[Body], path: str) -> Iterator[FieldError]:
    """The taints of a node."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where, key, effect = f"{path}[{index}]", taint.get("key", ""), taint.get("effect", "")
        yield from fields.qualified_name_errors(key, f"{where}.key")
        for problem in label_value_problems(taint.get("value", "")):
            yield field_errors.invalid(f"{where}.value", taint["value"], problem)
        if not effect:
            yield field_errors.required(f"{where}.effect")
        elif effect not in TAINT_EFFECTS:
            yield field_errors.not_supported(f"{where}.effect", effect, TAINT_EFFECTS)
        if (key, effect) in seen:
            yield field_errors.duplicate(where, taint)
        seen.add((key, effect))
