"""Jobs: the generated selector, the requirements of the modes, and which fields may change when."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.jobstatus import status_errors
from swell.cluster.embedded.builtin.podspec import default_pod_spec, template_errors
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.builtin.warnings import template_warnings
from swell.cluster.embedded.objectmeta import (
    label_value_problems,
    name_problems,
)
from swell.cluster.embedded.registry import WriteContext
from swell.cluster.embedded.selectors import SelectorError, from_label_selector
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

BACKOFF_LIMIT = 6  # Kubernetes' default, which the Job controller uses too
# Kubernetes' limits, which keep the status of a Job small.
INDEXED_PARALLELISM_MAX = 100_000
MANY_COMPLETIONS = 100_000
MANY_LIMIT = 10_000
FAILURE_RULES_MAX = 20
COMPLETION_MODES = ("Indexed", "NonIndexed")
MANAGER_LENGTH_MAX = 63
SUCCESS_RULES_MAX = 20
EXIT_CODES_MAX = 255
HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
INDEXES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
    "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
IMMUTABLE = (
    "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy",
    "successPolicy",
)  # fmt: skip


def default(job: Body) -> None:
    spec = job["spec"]
    # With parallelism alone a Job is a work queue, which has no number of completions.
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    # With limits of single indexes, the whole Job has none by default.
    per_index = "backoffLimitPerIndex" in spec
    spec.setdefault("backoffLimit", fields.INT32_MAX if per_index else BACKOFF_LIMIT)
    # A failure policy needs the exit codes, so a pod must have ended before it is replaced.
    has_policy = "podFailurePolicy" in spec
    if has_policy:
        # An empty list is null, as a real server shows it.
        spec["podFailurePolicy"]["rules"] = spec["podFailurePolicy"].get("rules") or None
    spec.setdefault("podReplacementPolicy", "Failed" if has_policy else "TerminatingOrFailed")
    default_pod_spec(spec["template"]["spec"])


def prepare(new: Body, old: Body | None, _context: WriteContext) -> None:
    if old is None and not new["spec"].get("manualSelector"):
        _make_selector(new)
    label(new)


def label(new: Body, _old: Body | None = None, _context: WriteContext | None = None) -> None:
    """Give a Job without labels those of its template, the generated ones included.

    Of a name that is no label's value only the template's are reported.
    """
    labels = new["spec"]["template"].get("metadata", {}).get("labels")
    is_named = not label_value_problems(new["metadata"].get("name", ""))
    if labels and is_named and not new["metadata"].get("labels"):
        new["metadata"]["labels"] = dict(labels)


def _make_selector(new: Body) -> None:
    """Generate the labels and the selector by which a Job finds its pods: its own UID."""
    spec = new["spec"]
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    for label in NAME_LABELS:
        labels.setdefault(label, new["metadata"].get("name", ""))
    for label in UID_LABELS:
        labels.setdefault(label, new["metadata"]["uid"])
    chosen = spec.setdefault("selector", {}).setdefault("matchLabels", {})
    chosen.setdefault(UID_LABELS[0], new["metadata"]["uid"])


def errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new["spec"]
    for name in COUNTS:
        yield from fields.non_negative(spec, name, "spec")
    yield from _mode_errors(spec)
    yield from _name_errors(new)
    yield from _selector_errors(new)
    yield from template_errors(spec["template"], "spec.template")
    yield from _restart_policy_errors(spec)
    if "podFailurePolicy" in spec:
        yield from _failure_policy_errors(spec, "spec.podFailurePolicy.rules")
    yield from _success_policy_errors(spec, "spec.successPolicy")
    if old is not None:
        yield from _update_errors(spec, old)


def _mode_errors(spec: Body) -> Iterator[FieldError]:
    indexed = spec.get("completionMode") == "Indexed"
    failed_max = spec.get("maxFailedIndexes")
    if failed_max is not None and "backoffLimitPerIndex" not in spec:
        detail = "when maxFailedIndexes is specified"
        yield field_errors.required("spec.backoffLimitPerIndex", detail)
    if spec.get("completionMode") not in COMPLETION_MODES:
        return  # refused for itself: of one that is unknown, nothing else is asked
    if not indexed:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if name in spec:
                detail = "requires indexed completion mode"
                yield field_errors.invalid(f"spec.{name}", spec[name], detail)
        return
    completions = spec.get("completions")
    if completions is None:
        yield field_errors.required("spec.completions", "when completion mode is Indexed")
    if spec.get("parallelism", 0) > INDEXED_PARALLELISM_MAX:
        detail = f"must be less than or equal to {INDEXED_PARALLELISM_MAX}"
        yield field_errors.invalid("spec.parallelism", spec["parallelism"], detail)
    if completions is not None and failed_max is not None and failed_max > completions:
        detail = "must be less than or equal to completions"
        yield field_errors.invalid("spec.maxFailedIndexes", failed_max, detail)
    if (completions or 0) > MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        yield from _many_errors(spec, failed_max)


def _name_errors(job: Body) -> Iterator[FieldError]:
    spec, name = job["spec"], job["metadata"].get("name", "")
    last = spec.get("completions", 0) - 1  # the pod with the longest host name
    if (
        spec.get("completionMode") == "Indexed"
        and last >= 0
        and name_problems(f"{name}-{last}", "label")
    ):
        detail = f"will not able to create pod with invalid DNS label: {name}-{last}"
        yield field_errors.invalid("metadata.name", name, detail)
    manager = spec.get("managedBy")
    if manager is not None and len(manager) > MANAGER_LENGTH_MAX:
        yield field_errors.too_long("spec.managedBy", MANAGER_LENGTH_MAX)
    if manager is not None and not _is_prefixed_path(manager):
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield field_errors.invalid("spec.managedBy", manager, detail)


def _is_prefixed_path(text: str) -> bool:
    """Whether a text is a domain and a path, as the names of controllers are."""
    domain, _, path = text.partition("/")
    return bool(HTTP_PATH.fullmatch(path)) and not name_problems(domain, "subdomain")


def _many_errors(spec: Body, failed_max: int | None) -> Iterator[FieldError]:
    """With very many indexes, parallelism and maxFailedIndexes have lower limits."""
    detail = f"must be less than or equal to {MANY_LIMIT} when completions are that many"
    if failed_max is None:
        yield field_errors.required(
            "spec.maxFailedIndexes", "must be specified with many completions"
        )
    elif failed_max > MANY_LIMIT:
        yield field_errors.invalid("spec.maxFailedIndexes", failed_max, detail)
    if spec.get("parallelism", 0) > MANY_LIMIT:
        yield field_errors.invalid("spec.parallelism", spec["parallelism"], detail)


def _selector_errors(job: Body) -> Iterator[FieldError]:
    spec = job["spec"]
    labels = spec["template"].get("metadata", {}).get("labels", {})
    selector = spec.get("selector")
    if selector is None:
        yield field_errors.required("spec.selector")
    yield from fields.selector_errors(selector, "spec.selector")
    try:
        matcher = from_label_selector(selector)
    except SelectorError:
        return
    if matcher is None or not matcher.matches(labels):
        detail = "`selector` does not match template `labels`"
        yield field_errors.invalid("spec.template.metadata.labels", labels, detail)
    if not spec.get("manualSelector") and selector is not None:
        yield from _generated_errors(job, labels)


def _generated_errors(job: Body, labels: dict[str, str]) -> Iterator[FieldError]:
    """Without manualSelector, labels and selector must be the generated ones."""
    metadata = job["metadata"]
    expected = dict.fromkeys(NAME_LABELS, metadata.get("name", ""))
    expected |= dict.fromkeys(UID_LABELS, metadata.get("uid", ""))
    for label, value in expected.items():
        where = f"spec.template.metadata.labels[{label}]"
        if label not in labels:
            yield field_errors.required(where, f"must be '{value}'")
        elif labels[label] != value:
            yield field_errors.invalid(where, labels, f"{label} must be '{value}'")
    matcher = from_label_selector(job["spec"]["selector"])
    if matcher is not None and not matcher.matches(expected):
        detail = "`selector` not auto-generated"
        yield field_errors.invalid("spec.selector", job["spec"]["selector"], detail)


def _restart_policy_errors(spec: Body) -> Iterator[FieldError]:
    policy, where = (
        spec["template"]["spec"].get("restartPolicy"),
        "spec.template.spec.restartPolicy",
    )
    if policy in {None, "", "Always"}:
        yield field_errors.required(where, 'valid values: "OnFailure", "Never"')
    elif policy == "OnFailure" and "podFailurePolicy" in spec:
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        yield field_errors.invalid(where, policy, detail)


def _failure_policy_errors(spec: Body, path: str) -> Iterator[FieldError]:
    rules = spec["podFailurePolicy"].get("rules") or []
    if spec.get("podReplacementPolicy") != "Failed":
        given = spec.get("podReplacementPolicy")
        yield field_errors.not_supported("spec.podReplacementPolicy", given, ["Failed"])
    pod = spec["template"]["spec"]
    names = {
        one.get("name") for name in ("containers", "initContainers") for one in pod.get(name, ())
    }
    if len(rules) > FAILURE_RULES_MAX:
        yield field_errors.too_many(path, len(rules), FAILURE_RULES_MAX)
    for index, rule in enumerate(rules):
        where = f"{path}[{index}]"
        if rule.get("action") == "FailIndex" and "backoffLimitPerIndex" not in spec:
            detail = "requires the backoffLimitPerIndex to be set"
            yield field_errors.invalid(f"{where}.action", rule["action"], detail)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if bool(codes) == bool(conditions):
            detail = "specifying one of OnExitCodes and OnPodConditions is required"
            yield field_errors.invalid(where, "", detail)
        if codes:
            yield from _exit_code_errors(codes, names, f"{where}.onExitCodes")
        for at, condition in enumerate(conditions or ()):
            place, status = f"{where}.onPodConditions[{at}]", condition.get("status")
            yield from fields.qualified_name_errors(condition.get("type", ""), f"{place}.type")
            if status not in fields.CONDITION_STATUSES:
                yield field_errors.not_supported(
                    f"{place}.status", status, fields.CONDITION_STATUSES
                )


def _exit_code_errors(codes: Body, names: set[str], path: str) -> Iterator[FieldError]:
    values = codes.get("values", [])
    name = codes.get("containerName")
    if name is not None and name not in names:
        yield field_errors.invalid(
            f"{path}.containerName", name, "must be one of the container names"
        )
    if not values:
        yield field_errors.invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > EXIT_CODES_MAX:
        yield field_errors.too_many(f"{path}.values", len(values), EXIT_CODES_MAX)
    for index, value in enumerate(values):
        if codes.get("operator") == "In" and value == 0:
            detail = "must not be 0 for the In operator"
            yield field_errors.invalid(f"{path}.values[{index}]", value, detail)
        if values.index(value) != index:
            yield field_errors.duplicate(f"{path}.values[{index}]", value)
    if values != sorted(values):
        yield field_errors.invalid(f"{path}.values", values, "must be ordered")


def _success_policy_errors(spec: Body, path: str) -> Iterator[FieldError]:
    policy = spec.get("successPolicy")
    if policy is None:
        return
    if spec.get("completionMode") != "Indexed":
        yield field_errors.invalid(path, policy, "requires indexed completion mode")
        return
    rules = policy.get("rules", [])
    if not rules:
        yield field_errors.required(f"{path}.rules", "at least one rule must be specified")
    if len(rules) > SUCCESS_RULES_MAX:
        yield field_errors.too_many(f"{path}.rules", len(rules), SUCCESS_RULES_MAX)
    for index, rule in enumerate(rules):
        where = f"{path}.rules[{index}]"
        if not rule.get("succeededIndexes") and "succeededCount" not in rule:
            detail = "at least one of succeededCount or succeededIndexes must be specified"
            yield field_errors.required(where, detail)
        indexes = rule.get("succeededIndexes")
        if indexes and not INDEXES.fullmatch(indexes):
            yield field_errors.invalid(
                f"{where}.succeededIndexes", indexes, "error parsing indexes"
            )
        count = rule.get("succeededCount")
        if count is not None and count > spec.get("completions", 0):
            detail = f"must be less than or equal to {spec.get('completions', 0)}"
            yield field_errors.invalid(f"{where}.succeededCount", count, detail)


def _update_errors(spec: Body, old_job: Body) -> Iterator[FieldError]:
    old = old_job["spec"]
    for name in IMMUTABLE:
        yield from fields.immutable(spec.get(name), old.get(name), f"spec.{name}")
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        yield from fields.immutable(completions, old.get("completions"), "spec.completions")
    elif completions != old.get("completions") and completions != spec.get("parallelism"):
        detail = "can only be modified in tandem with spec.parallelism"
        yield field_errors.invalid("spec.completions", completions, detail)
    if not _is_mutable(old_job):
        yield from fields.immutable(spec["template"], old["template"], "spec.template")
        return
    template = _with_mutable(old["template"], spec["template"])
    yield from fields.immutable(spec["template"]["spec"], template["spec"], "spec.template.spec")


def _is_mutable(old_job: Body) -> bool:
    """Whether parts of the template may change: the Job is suspended and has no pods."""
    status = old_job.get("status", {})
    conditions = status.get("conditions", ())
    suspended = any(c.get("type") == "Suspended" and c.get("status") == "True" for c in conditions)
    # It must not have started, or have been suspended and all its pods be gone.
    idle = ("startTime" not in status or suspended) and not status.get("active")
    return bool(old_job["spec"].get("suspend")) and idle


def _with_mutable(old: Body, new: Body) -> Body:
    """The old template, with the new values of the fields that may change."""
    template: Body = copy.deepcopy(old)
    for name in ("labels", "annotations"):
        _take(template.setdefault("metadata", {}), new.get("metadata", {}), name)
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        _take(template["spec"], new["spec"], name)
    affinity = dict(template["spec"].get("affinity", {}))
    _take(affinity, new["spec"].get("affinity", {}), "nodeAffinity")
    template["spec"].pop("affinity", None)
    if affinity or "affinity" in new["spec"]:
        template["spec"]["affinity"] = affinity
    for name in ("containers", "initContainers"):
        held, given = template["spec"].get(name, ()), new["spec"].get(name, ())
        if len(held) != len(given):
            continue
        for one, other in zip(held, given, strict=True):
            if one["name"] == other["name"]:
                _take(one, other, "resources")
    return template


def _take(held: Body, given: Body, name: str) -> None:
    held.pop(name, None)
    if name in given:
        held[name] = given[name]


JOBS = Behaviour(
    warnings=template_warnings,
    default=default,
    prepare=prepare,
    errors=errors,
    prepare_status=label,
    status_errors=status_errors,
)
