"""Whether labels, taints and node fields satisfy what a pod asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from swell.api.core import Node, Taint
from swell.api.devices import DeviceTaint, DeviceToleration
from swell.api.pod import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
)

Labels = Mapping[str, str]
# PreferNoSchedule lowers a node's score and forbids nothing.
_FORBIDDING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def selector_matches(selector: LabelSelector | None, labels: Labels) -> bool:
    """Whether labels match. A missing selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    # A loop, not a generator: asked for every pod and every selector that other pods wait by.
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(_requirement_holds(one, labels) for one in selector.match_expressions)


def is_empty_selector(selector: LabelSelector | None) -> bool:
    return selector is None or not (selector.match_labels or selector.match_expressions)


def node_selector_matches(selector: NodeSelector, node: Node) -> bool:
    """Whether one of the terms matches; a term without requirements matches nothing."""
    return any(term_matches(term, node) for term in selector.node_selector_terms)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    # Kubernetes allows this one field only.
    fields = {"metadata.name": node.metadata.name}
    return all(
        _requirement_holds(expression, node.metadata.labels)
        for expression in term.match_expressions
    ) and all(_requirement_holds(field, fields) for field in term.match_fields)


def labels_match(selector: NodeSelector, labels: Labels) -> bool:
    """Whether one of the terms matches the labels alone, whatever it says about fields.

    A term that says nothing at all never matches.
    """
    return any(
        bool(term.match_fields or term.match_expressions)
        and all(_requirement_holds(one, labels) for one in term.match_expressions)
        for term in selector.node_selector_terms
    )


def _requirement_holds(
    requirement: NodeSelectorRequirement | LabelSelectorRequirement, labels: Labels
) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _numerically(requirement.operator, value, requirement.values)
    return False


def _numerically(operator: str, value: str | None, bounds: Sequence[str]) -> bool:
    try:
        # As in Kubernetes a value that is no integer does not match, and is no error.
        left, right = int(value or ""), int(bounds[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def tolerates_all(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether the pod tolerates every taint that keeps pods away."""
    tolerations = tuple(tolerations)
    return all(
        any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect in _FORBIDDING_EFFECTS
    )


def n_disliked(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> int:
    """Returns how many taints ask the pod to go elsewhere if it can."""
    tolerations = tuple(tolerations)
    return sum(
        taint.effect == "PreferNoSchedule"
        and not any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # An empty key tolerates every taint, but only together with Exists.
    return bool(toleration.key) and toleration.value == taint.value


def tolerates_of_device(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether a request tolerates a taint of a device; an empty key or effect stands for any."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in {"", "Equal"} and toleration.value == taint.value
