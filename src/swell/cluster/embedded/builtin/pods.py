"""Pods: the priority, tolerations and QoS class the server sets, and which fields may change."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from swell.api import quantity
from swell.api.meta import Body, Key
from swell.api.times import format_time
from swell.cluster.embedded import refusals
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.podspec import (
    all_containers,
    default_pod_only,
    default_pod_spec,
    pod_spec_errors,
)
from swell.cluster.embedded.builtin.policies import PRIORITY_CLASSES, default_class
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.builtin.scheduling import toleration_errors
from swell.cluster.embedded.builtin.warnings import pod_warnings
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

# The tolerations that the admission plugin DefaultTolerationSeconds adds, with its default.
TOLERATED_S = 300
TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set"
    " to 1 if it was previously negative)"
)
# These need no qualified name; conditions of others do.
SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})


def default(pod: Body) -> None:
    _pair_addresses(pod["status"])
    default_pod_spec(pod["spec"])
    default_pod_only(pod["spec"])


def _pair_addresses(status: Body) -> None:
    """Set podIP from podIPs or the reverse; podIP is the first of podIPs."""
    if status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]
    elif status.get("podIPs") and not status.get("podIP"):
        status["podIP"] = status["podIPs"][0].get("ip", "")


def prepare(new: Body, old: Body | None, context: WriteContext) -> None:
    spec = new["spec"]
    if old is None:
        _set_priority(new, context)
        _refuse_runtime_classes(new)
        new["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            gated = {**GATED, "lastTransitionTime": format_time(context.now)}
            new["status"]["conditions"] = [gated]
    else:  # a writer may leave out what the server filled in
        for name in ("priority", "preemptionPolicy"):
            if name in old["spec"]:
                spec.setdefault(name, old["spec"][name])
    # On updates too, as the admission plugin runs on both.
    spec["tolerations"] = [*spec.get("tolerations", ()), *_missing_tolerations(spec)]
    if not spec["tolerations"]:
        del spec["tolerations"]


def _set_priority(pod: Body, context: WriteContext) -> None:
    """Set priority and preemption policy from the PriorityClass, as its admission plugin does.

    A pod that gives other values than its class is refused.
    """
    spec, name = pod["spec"], pod["spec"].get("priorityClassName", "")
    if name:
        found = context.read(PRIORITY_CLASSES, Key("", name))
        if found is None:
            raise _refused(pod, f"no PriorityClass with name {name} was found")
    else:
        found = default_class(context)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = found["value"] if found is not None else 0
    policy = found.get("preemptionPolicy") if found is not None else None
    policy = policy or "PreemptLowerPriority"
    if spec.get("priority", value) != value:
        detail = "the integer value of priority must not be provided in pod spec"
        raise _refused(pod, detail)
    if spec.get("preemptionPolicy", policy) != policy:
        given = spec["preemptionPolicy"]
        detail = f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec"
        raise _refused(pod, detail)
    spec["priority"], spec["preemptionPolicy"] = value, policy


def _refuse_runtime_classes(pod: Body) -> None:
    """Refuse a pod with a RuntimeClass: the embedded server serves none."""
    name = pod["spec"].get("runtimeClassName")
    if name:
        raise _refused(pod, f'pod rejected: RuntimeClass "{name}" not found')
    if pod["spec"].get("overhead"):
        detail = (
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )
        raise _refused(pod, detail)


def _refused(pod: Body, message: str) -> Exception:
    return refusals.access_denied("pods", "", refusals.admitted_name(pod["metadata"]), message)


def _missing_tolerations(spec: Body) -> list[Body]:
    """The default tolerations that the pod does not set itself."""
    given = spec.get("tolerations", ())

    def is_tolerated(key: str) -> bool:
        return any(
            one.get("key", key) == key and one.get("effect", "NoExecute") == "NoExecute"
            for one in given
        )

    return [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": TOLERATED_S,
        }
        for key in TOLERATED
        if not is_tolerated(key)
    ]


def qos_class(spec: Body) -> str:
    """The QoS class of a pod.

    It is BestEffort without any request or limit, Guaranteed when every container limits cpu and
    memory and requests as much, else Burstable.
    """
    guaranteed, asked = True, False
    # Resources of the whole pod count in place of those of its containers.
    for holder in [spec] if spec.get("resources") else all_containers(spec):
        resources = holder.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        for name in ("cpu", "memory"):
            request, limit = _amount(requests, name), _amount(limits, name)
            # A quantity of 0 counts as none.
            asked = asked or bool(request or limit)
            guaranteed = guaranteed and bool(limit) and request == limit
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amount(amounts: Body, name: str) -> int:
    amount = amounts.get(name)
    return 0 if amount is None else quantity.parse(amount).nano


def errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    if old is not None and new["spec"] == old["spec"]:
        return  # it was valid when it was stored
    yield from pod_spec_errors(new["spec"], "spec", is_pod=True)
    if old is not None:
        yield from _update_errors(new["spec"], old["spec"])
        return
    if new["spec"].get("ephemeralContainers"):
        yield field_errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if new["spec"].get("nodeName") and new["spec"].get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        yield field_errors.forbidden("spec.nodeName", detail)


def _update_errors(new: Body, old: Body) -> Iterator[FieldError]:
    """Only images, the deadline, added tolerations and removed gates may change."""
    for name in ("containers", "initContainers"):
        if len(new.get(name, ())) != len(old.get(name, ())):
            detail = "pod updates may not add or remove containers"
            yield field_errors.forbidden(f"spec.{name}", detail)
            return
    problem = _deadline_problem(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    if problem:
        deadline = new.get("activeDeadlineSeconds")
        yield field_errors.invalid("spec.activeDeadlineSeconds", deadline, problem)
        if deadline is not None:  # kube-apiserver reports nothing else then
            return
    yield from _toleration_change_errors(new.get("tolerations", []), old.get("tolerations", []))
    gates = {gate["name"] for gate in old.get("schedulingGates", ())}
    for index, gate in enumerate(new.get("schedulingGates", ())):
        if gate["name"] not in gates:
            where = f"spec.schedulingGates[{index}].name"
            yield field_errors.forbidden(where, "only deletion is allowed")
    # Whatever still differs after all changes that are allowed were undone is forbidden.
    allowed = _as_old(new, old)
    if gates:
        yield from _gated_errors(allowed, old)
    if allowed != old:
        yield field_errors.forbidden("spec", _CHANGEABLE)


def _deadline_problem(new: int | None, old: int | None) -> str:
    if new is None:
        return "must not update from a positive integer to nil value" if old is not None else ""
    if old is not None and new > old:
        return "must be less than or equal to previous value"
    return ""


def _toleration_change_errors(new: list[Body], old: list[Body]) -> Iterator[FieldError]:
    def kept(toleration: Body) -> Body:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    given = [kept(toleration) for toleration in new]
    if any(kept(toleration) not in given for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield field_errors.forbidden("spec.tolerations", detail)
    yield from toleration_errors(new, "spec.tolerations")


def _as_old(new: Body, old: Body) -> Body:
    """The new spec with every field that may change set back to the old value."""
    spec = copy.deepcopy(new)
    for name in ("containers", "initContainers"):
        for container, before in zip(spec.get(name, ()), old.get(name, ()), strict=True):
            container["image"] = before.get("image", "")
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        if name in old:
            spec[name] = old[name]
        else:
            spec.pop(name, None)
    return spec


def _gated_errors(spec: Body, old: Body) -> Iterator[FieldError]:
    """While a pod has scheduling gates, its node selector may be extended.

    Sets the fields that may change back to the old values in `spec`.
    """
    before = old.get("nodeSelector", {})
    if any(spec.get("nodeSelector", {}).get(key) != value for key, value in before.items()):
        yield field_errors.invalid("spec.nodeSelector", spec.get("nodeSelector"), "only additions")
    spec.pop("nodeSelector", None)
    if before:
        spec["nodeSelector"] = before
    affinity = old.get("affinity", {}).get("nodeAffinity")
    narrowed = dict(spec.get("affinity", {}))
    narrowed.pop("nodeAffinity", None)
    if affinity is not None:
        narrowed["nodeAffinity"] = affinity
    spec.pop("affinity", None)
    if narrowed or "affinity" in old:
        spec["affinity"] = narrowed


def prepare_status(new: Body, old: Body | None, _context: WriteContext) -> None:
    """A write of /status may change labels, annotations and finalizers, but not the owners."""
    if old is None:
        return
    metadata, before = new["metadata"], old["metadata"]
    metadata.pop("ownerReferences", None)
    if "ownerReferences" in before:
        metadata["ownerReferences"] = before["ownerReferences"]
    # A writer may leave these out; they are kept.
    for name in ("qosClass", "observedGeneration"):
        if name in old.get("status", {}):
            new["status"].setdefault(name, old["status"][name])


def status_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    status, before = new["status"], (old or {}).get("status", {})
    for index, condition in enumerate(status.get("conditions", ())):
        if condition.get("type") not in SYSTEM_CONDITIONS:
            where = f"status.conditions[{index}].Type"
            yield from fields.qualified_name_errors(condition.get("type", ""), where)
        yield from fields.non_negative(
            condition, "observedGeneration", f"status.conditions[{index}]"
        )
    yield from fields.non_negative(status, "observedGeneration", "status")
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName"):
        yield from fields.name_errors(nominated, "status.nominatedNodeName")
        if new["spec"].get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            yield field_errors.forbidden("status.nominatedNodeName", detail)
    yield from fields.immutable(status.get("qosClass"), before.get("qosClass"), "status.qosClass")
    yield from _claim_status_errors(status, new["spec"])
    for name in ("containerStatuses", "initContainerStatuses"):
        yield from _revival_errors(status, before, new["spec"], name)
    hosts = status.get("hostIPs") or [{}]
    if hosts[0].get("ip", "") != status.get("hostIP", "") and "hostIPs" in status:
        yield field_errors.invalid("status.hostIPs[0].ip", hosts[0], "must be equal to `hostIP`")
    for name in ("podIPs", "hostIPs"):
        yield from _addresses_errors([one.get("ip", "") for one in status.get(name, ())], name)


def _claim_status_errors(status: Body, spec: Body) -> Iterator[FieldError]:
    """Each claim of the status is one of the pod's."""
    names = {claim.get("name") for claim in spec.get("resourceClaims", ())}
    seen: set[str] = set()
    for index, claim in enumerate(status.get("resourceClaimStatuses", ())):
        name, where = claim.get("name", ""), f"status.resourceClaimStatuses[{index}]"
        if name not in names:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            yield field_errors.invalid(f"{where}.name", name, detail)
        if name in seen:
            yield field_errors.duplicate(f"{where}.name", name)
        seen.add(name)
        if claim.get("resourceClaimName") is not None:
            found = claim["resourceClaimName"]
            yield from fields.name_errors(found, f"{where}.resourceClaimName")


def _addresses_errors(addresses: list[str], name: str) -> Iterator[FieldError]:
    """Every address is one, and there is at most one of each family."""
    valid = True
    for index, address in enumerate(addresses):
        problems = list(fields.ip_errors(address, f"status.{name}[{index}]"))
        valid = valid and not problems
        yield from problems
    if valid and len({":" in address for address in addresses}) < len(addresses):
        detail = "may specify no more than one IP for each IP family"
        yield field_errors.invalid(f"status.{name}", addresses, detail)


def _revival_errors(status: Body, before: Body, spec: Body, name: str) -> Iterator[FieldError]:
    """A container that will not be restarted stays terminated."""
    policy = spec.get("restartPolicy", "Always")
    now = {one.get("name"): one for one in status.get(name, ())}
    for index, one in enumerate(before.get(name, ())):
        ended = one.get("state", {}).get("terminated")
        held = now.get(one.get("name"))
        if ended is None or held is None or "terminated" in held.get("state", {}):
            continue
        failed = ended.get("exitCode", 0) != 0
        if policy == "Never" or (policy == "OnFailure" and not failed):
            detail = "may not be transitioned to non-terminated state"
            yield field_errors.forbidden(f"status.{name}[{index}].state", detail)


PODS = Behaviour(
    default=default,
    prepare=prepare,
    errors=errors,
    warnings=pod_warnings,
    prepare_status=prepare_status,
    status_errors=status_errors,
)
