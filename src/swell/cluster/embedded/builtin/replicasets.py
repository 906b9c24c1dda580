"""ReplicaSets: the selector must match the template and may never change."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.podspec import default_pod_spec, template_errors
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.builtin.warnings import template_warnings
from swell.cluster.embedded.registry import WriteContext
from swell.cluster.embedded.selectors import from_label_selector
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

STATUS_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def default(replica_set: Body) -> None:
    template = replica_set["spec"].get("template", {})
    if "spec" in template:
        default_pod_spec(template["spec"])


def errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new["spec"]
    for name in ("replicas", "minReadySeconds"):
        yield from fields.non_negative(spec, name, "spec")
    yield from _selector_errors(spec)
    if not _hidden(new):
        yield from _template_errors(spec.get("template", {}))
    if old is not None:
        before = old["spec"].get("selector")
        yield from fields.immutable(spec.get("selector"), before, "spec.selector")


def _hidden(replica_set: Body) -> str:
    """The template, where the selector cannot be read: a real server does not look at it then."""
    selector = replica_set["spec"].get("selector")
    return "spec.template." if any(fields.selector_errors(selector, "spec.selector")) else ""


def _template_errors(template: Body) -> Iterator[FieldError]:
    yield from template_errors(template, "spec.template")
    policy = template.get("spec", {}).get("restartPolicy", "Always")
    if policy != "Always":
        yield field_errors.not_supported("spec.template.spec.restartPolicy", policy, ["Always"])
    if "activeDeadlineSeconds" in template.get("spec", {}):
        detail = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield field_errors.forbidden("spec.template.spec.activeDeadlineSeconds", detail)


def _selector_errors(spec: Body) -> Iterator[FieldError]:
    selector = spec.get("selector")
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    mismatch = "`selector` does not match template `labels`"
    if selector is None:
        yield field_errors.required("spec.selector")
        yield field_errors.invalid("spec.template.metadata.labels", labels, mismatch)
        return
    problems = list(fields.selector_errors(selector, "spec.selector"))
    yield from problems
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield field_errors.invalid("spec.selector", selector, "empty selector is invalid")
        return
    if problems:
        yield field_errors.invalid("spec.selector", selector, "invalid label selector")
        return
    matcher = from_label_selector(selector)
    if matcher is not None and not matcher.matches(labels):
        yield field_errors.invalid("spec.template.metadata.labels", labels, mismatch)


def status_errors(new: Body, _old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    status = new["status"]
    for name in (*STATUS_COUNTS, "observedGeneration", "terminatingReplicas"):
        yield from fields.non_negative(status, name, "status")
    for name in STATUS_COUNTS[1:]:
        if status.get(name, 0) > status.get("replicas", 0):
            detail = "cannot be greater than status.replicas"
            yield field_errors.invalid(f"status.{name}", status.get(name, 0), detail)
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        detail = "cannot be greater than readyReplicas"
        yield field_errors.invalid("status.availableReplicas", available, detail)


REPLICA_SETS = Behaviour(
    warnings=template_warnings,
    default=default,
    errors=errors,
    hidden=_hidden,
    status_errors=status_errors,
)
