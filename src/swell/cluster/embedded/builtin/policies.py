"""PodDisruptionBudgets, PriorityClasses and Leases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
USER_PRIORITY_MAX = 1_000_000_000  # Kubernetes keeps higher values for system classes
SYSTEM_PREFIX = "system-"
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
BUDGET_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def budget_errors(new: Body, _old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new.get("spec", {})
    bounds = [name for name in ("minAvailable", "maxUnavailable") if name in spec]
    if len(bounds) == 2:
        detail = "minAvailable and maxUnavailable cannot be both set"
        yield field_errors.invalid("spec", spec, detail)
    for name in bounds:
        yield from _bound_errors(spec[name], f"spec.{name}")
    yield from fields.selector_errors(spec.get("selector"), "spec.selector")


def _bound_errors(value: int | str, field: str) -> Iterator[FieldError]:
    if isinstance(value, int):
        if value < 0:
            yield field_errors.invalid(field, value, "must be greater than or equal to 0")
    elif not re.fullmatch(r"[0-9]+%", value):
        yield field_errors.invalid(field, value, "must be an integer or percentage (e.g '5%%')")
    elif int(value[:-1]) > 100:
        yield field_errors.invalid(field, value, "must not be greater than 100%")


def budget_status_errors(
    new: Body, _old: Body | None, _context: WriteContext
) -> Iterator[FieldError]:
    for name in BUDGET_COUNTS:
        yield from fields.non_negative(new["status"], name, "status")
    yield from fields.conditions_errors(new["status"].get("conditions", ()), "status.conditions")


def prepare_priority(new: Body, _old: Body | None, context: WriteContext) -> None:
    """Refuse a second class that is marked as the default."""
    if not new.get("globalDefault"):
        return
    name = new["metadata"].get("name", "")
    for other in context.each(PRIORITY_CLASSES):
        if other.get("globalDefault") and other["metadata"]["name"] != name:
            message = f"PriorityClass {other['metadata']['name']} is already marked as default"
            shown = refusals.admitted_name(new["metadata"])
            raise refusals.access_denied("priorityclasses", "scheduling.k8s.io", shown, message)


def default_class(context: WriteContext) -> Body | None:
    """The default class; of several the one of lowest value, as in kube-apiserver."""
    found = [one for one in context.each(PRIORITY_CLASSES) if one.get("globalDefault")]
    return min(found, key=lambda one: one.get("value", 0), default=None)


def priority_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    name, value = new["metadata"].get("name", ""), new.get("value", 0)
    policy = new.get("preemptionPolicy")
    # An update is only asked whether it changes the policy.
    if old is None and policy == "":
        yield field_errors.required("preemptionPolicy")
    elif old is None and policy not in PREEMPTION_POLICIES:
        yield field_errors.not_supported("preemptionPolicy", policy, PREEMPTION_POLICIES)
    if old is not None:
        if value != old.get("value", 0):
            yield field_errors.forbidden("value", "may not be changed in an update.")
        before = old.get("preemptionPolicy")
        yield from fields.immutable(new.get("preemptionPolicy"), before, "preemptionPolicy")
    elif name.startswith(SYSTEM_PREFIX):
        if SYSTEM_CLASSES.get(name) != value or new.get("globalDefault"):
            detail = f"names with the prefix '{SYSTEM_PREFIX}' are reserved for system use"
            yield field_errors.forbidden("metadata.name", detail)
    elif value > USER_PRIORITY_MAX:
        detail = f"maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"
        yield field_errors.forbidden("value", detail)


def default_lease(lease: Body) -> None:
    """Drop the fields of coordinated leader election, which the embedded server does not serve."""
    for name in ("strategy", "preferredHolder"):
        lease.get("spec", {}).pop(name, None)


def lease_errors(new: Body, _old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new.get("spec", {})
    if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
        detail = "must be greater than 0"
        yield field_errors.invalid(
            "spec.leaseDurationSeconds", spec["leaseDurationSeconds"], detail
        )
    yield from fields.non_negative(spec, "leaseTransitions", "spec")


BUDGETS = Behaviour(errors=budget_errors, status_errors=budget_status_errors)
PRIORITIES = Behaviour(
    prepare=prepare_priority, errors=priority_errors, grows=lambda _new, _old: False
)
LEASES = Behaviour(default=default_lease, errors=lease_errors)
