"""The verbs of pods alone: bind a pod to a node, evict it if its disruption budget allows."""

from __future__ import annotations

from swell.api.meta import Body, Key
from swell.api.times import format_time
from swell.cluster.embedded import refusals
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.selectors import SelectorError, from_label_selector
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.core import ServerCore
from swell.cluster.embedded.verbs.deleting import DeleteVerbs
from swell.cluster.embedded.verbs.requests import (
    BindingShape,
    Deleted,
    DeleteOptions,
    DeleteOptionsShape,
    EvictionShape,
    RequestContext,
    read_shape,
)
from swell.schema.field_errors import not_supported, required

BUDGETS = "poddisruptionbudgets.policy"
# As in Kubernetes: so many evicted pods a budget lists until its controller has seen them go.
_DISRUPTED_PODS_MAX = 2_000


class PodVerbs:
    """The verbs behind a pod's `binding` and `eviction` subresources."""

    def __init__(self, core: ServerCore, deletes: DeleteVerbs) -> None:
        self._core = core
        self._deletes = deletes

    def bind(self, kind: ServedKind, key: Key, binding: Body, request: RequestContext) -> int:
        """Set a pod's node, once; returns the pod's new version."""
        read_shape(binding, BindingShape, "create", request)
        _check_name(binding, key)
        metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
        errors = []
        if target.get("kind") not in {None, "", "Node"}:
            errors.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
        if not target.get("name"):
            errors.append(required("target.name"))
        if errors:
            raise refusals.invalid("Binding", "", key.name, errors)
        context = self._core.context("update", request, "binding")
        stored = self._core.require(kind, key)
        wanted_uid, wanted_version = metadata.get("uid"), metadata.get("resourceVersion")
        if wanted_uid and wanted_uid != stored.uid:
            raise refusals.conflict(kind, key.name, "the UID in the precondition does not match")
        if wanted_version and wanted_version != str(stored.version):
            raise refusals.conflict(kind, key.name, "the ResourceVersion does not match")
        pod = stored.copy()
        problem = _binding_problem(pod)
        if problem:
            raise refusals.subresource_conflict(kind, "binding", key.name, problem)
        pod["spec"]["nodeName"] = target["name"]
        for field in ("annotations", "labels"):
            if metadata.get(field):
                merged = {**(pod["metadata"].get(field) or {}), **metadata[field]}
                pod["metadata"][field] = merged
        # The nomination was a claim on room that the pod has now.
        pod.setdefault("status", {}).pop("nominatedNodeName", None)
        set_condition(pod, {"type": "PodScheduled", "status": "True"}, context.now)
        return self._core.put(kind, key, stored, pod, context).version

    def evict(self, kind: ServedKind, key: Key, eviction: Body, request: RequestContext) -> Deleted:
        """Delete a pod unless that would break a disruption budget."""
        read = read_shape(eviction, EvictionShape, "create", request)
        _check_name(eviction, key)
        given = read.delete_options or DeleteOptionsShape()
        options = given.options()
        if given.dry_run:
            request.dry_run = True
        stored = self._core.require(kind, key)
        if not _is_unbudgeted(stored.body):
            budget = self._budget_of(stored)
            if budget is not None and not _is_unhealthy_surplus(stored.body, budget.body):
                self._charge(budget, key, request)
        odd = [value for value in given.dry_run or () if value != "All"]
        if odd:
            error = not_supported("dryRun", odd[0], ["All"])
            raise refusals.invalid("DeleteOptions", "meta.k8s.io", "", [error])
        return self._mark_and_delete(kind, key, options, request)

    def _mark_and_delete(
        self, kind: ServedKind, key: Key, options: DeleteOptions, request: RequestContext
    ) -> Deleted:
        """Set the DisruptionTarget condition, then delete the pod.

        The condition makes a new version, so a version precondition is moved on to it.
        """
        stored = self._core.require(kind, key)
        _check_eviction_preconditions(kind, key, stored, options)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        context = self._core.context("update", request, "eviction")
        if not request.dry_run:
            pod = stored.copy()
            set_condition(pod, condition, context.now)
            stored = self._core.put(kind, key, stored, pod, context)
        checked = DeleteOptions(
            uid=options.uid,
            resource_version=None if options.resource_version is None else str(stored.version),
            grace_s=options.grace_s,
            propagation=options.propagation,
            orphan_dependents=options.orphan_dependents,
        )
        return self._deletes.delete(kind, key, checked, request)

    def _budget_of(self, pod: Stored) -> Stored | None:
        """The budget that selects a pod; more than one is an error, as on a real server."""
        namespace = pod.metadata.get("namespace", "")
        found: list[Stored] = []
        for _, budget in self._core.storage.list(BUDGETS, namespace).items:
            try:
                selector = from_label_selector((budget.body.get("spec") or {}).get("selector"))
            except SelectorError:
                continue  # an invalid selector selects no pod
            if selector is not None and selector.matches(pod.labels):
                found.append(budget)
        if len(found) > 1:
            raise refusals.two_budgets()
        return found[0] if found else None

    def _charge(self, budget: Stored, pod: Key, request: RequestContext) -> None:
        """Use up one allowed disruption of a budget, or refuse the eviction.

        The pod is listed in the budget's status until the budget's controller has seen it go, so
        that two quick evictions cannot use the same disruption.
        """
        body = budget.copy()
        name = body["metadata"]["name"]
        status = body.setdefault("status", {})
        # A budget that its controller has not seen yet says nothing about allowed disruptions.
        if status.get("observedGeneration", 0) < body["metadata"].get("generation", 0):
            raise refusals.budget_lags(name)
        allowed = status.get("disruptionsAllowed", 0)
        if allowed < 0:
            raise refusals.budget_exhausted(f"pdb disruptions allowed is negative: {allowed}")
        disrupted = status.setdefault("disruptedPods", {})
        if len(disrupted) > _DISRUPTED_PODS_MAX:
            raise refusals.budget_exhausted("too many evictions not confirmed by the controller")
        if allowed == 0:
            raise refusals.budget_exhausted(
                f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy "
                f"pods and has {status.get('currentHealthy', 0)} currently"
            )
        context = self._core.context("update", request, "status")
        status["disruptionsAllowed"] = allowed - 1
        if allowed == 1:
            _set_exhausted(status, body["metadata"], context.now)
        disrupted[pod.name] = format_time(context.now)
        kind = self._core.registry.stored(BUDGETS)
        if kind is None:
            raise AssertionError("a stored budget is of a kind that is served")
        self._core.put(kind, Key(pod.namespace, name), budget, body, context)


def _set_exhausted(status: Body, metadata: Body, now: float) -> None:
    """Set the condition that a budget allows no disruption now."""
    kept = [c for c in status.get("conditions") or () if c.get("type") != _ALLOWED]
    condition = {
        "type": _ALLOWED,
        "status": "False",
        "observedGeneration": metadata.get("generation", 0),
        "lastTransitionTime": format_time(now),
        "reason": "InsufficientPods",
        "message": "",
    }
    status["conditions"] = [*kept, condition]


_ALLOWED = "DisruptionAllowed"
# Conditions of pods always have this field.
_PROBE: Body = {"lastProbeTime": None}


def set_condition(body: Body, condition: Body, now: float) -> None:
    """Set a condition of a pod; its transition time moves only when its status changes."""
    conditions = body.setdefault("status", {}).setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            same = old.get("status") == condition["status"]
            changed_at = old.get("lastTransitionTime") if same else format_time(now)
            conditions[index] = {**_PROBE, **condition, "lastTransitionTime": changed_at}
            return
    conditions.append({**_PROBE, **condition, "lastTransitionTime": format_time(now)})


def _check_name(body: Body, key: Key) -> None:
    metadata = body.get("metadata") or {}
    if metadata.get("name") != key.name:
        raise bad_request("the name in the body does not match the name on the URL")
    if metadata.get("namespace") not in {None, "", key.namespace}:
        raise bad_request("the namespace in the body does not match the one of the request")


def _binding_problem(pod: Body) -> str:
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _check_eviction_preconditions(
    kind: ServedKind, key: Key, stored: Stored, options: DeleteOptions
) -> None:
    if options.uid and options.uid != stored.uid:
        raise refusals.delete_conflict(kind, key.name, "the UID in the precondition differs")
    wanted = options.resource_version
    if wanted and wanted != str(stored.version):
        raise refusals.delete_conflict(kind, key.name, "the ResourceVersion differs")


def _is_unbudgeted(pod: Body) -> bool:
    """Whether a pod counts in no budget: it is not running yet, finished, or being deleted."""
    phase = (pod.get("status") or {}).get("phase")
    deleting = pod["metadata"].get("deletionTimestamp")
    return phase in {"Pending", "Succeeded", "Failed"} or bool(deleting)


def _is_unhealthy_surplus(pod: Body, budget: Body) -> bool:
    """Whether an unready pod may go without using up a disruption.

    It may when enough others are healthy, or when its budget always allows unhealthy pods to go.
    """
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)
