"""PodGroups and Workloads, the gangs of Kubernetes itself, and the feature gates they are behind.

Without the gate GenericWorkload the kinds are not served, and pods lose `schedulingGroup`. Of a
group, the fields of gates that are off are dropped when it is created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.policies import PRIORITY_CLASSES, default_class
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

GENERIC: Final = "GenericWorkload"
TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
PREEMPTION: Final = "WorkloadAwarePreemption"
CLAIMS: Final = "DRAWorkloadResourceClaims"
# The gates that may be given. GangScheduling is kube-scheduler's and changes nothing here.
GATES: Final = (GENERIC, "GangScheduling", TOPOLOGY, PREEMPTION)
WORKLOADS: Final = "workloads.scheduling.k8s.io"
POD_GROUPS: Final = "podgroups.scheduling.k8s.io"
PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
# The fields of a group's spec and the gate that each needs.
_GATED: Final[Mapping[str, str]] = {
    "schedulingConstraints": TOPOLOGY,
    "disruptionMode": PREEMPTION,
    "priorityClassName": PREEMPTION,
    "priority": PREEMPTION,
    "resourceClaims": CLAIMS,
}
_SPEC = (
    "podGroupTemplateRef",
    "schedulingPolicy",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
)
_TEMPLATES_MAX = 8


def gang_behaviours(gates: frozenset[str]) -> Mapping[str, Behaviour]:
    """The behaviours of the kinds that are served with these gates."""

    def prepare_group(new: Body, old: Body | None, context: WriteContext) -> None:
        if old is not None:
            return
        _drop(new.get("spec", {}), gates)
        _resolve_priority(new, gates, context)
        _check_workload(new, context)
        finalizers = new["metadata"].setdefault("finalizers", [])
        if PROTECTION not in finalizers:
            finalizers.append(PROTECTION)

    def prepare_workload(new: Body, old: Body | None, _context: WriteContext) -> None:
        for template in new.get("spec", {}).get("podGroupTemplates", ()) if old is None else ():
            _drop(template, gates)

    return {
        POD_GROUPS: Behaviour(
            prepare=prepare_group, errors=_group_errors, status_errors=_status_errors
        ),
        WORKLOADS: Behaviour(
            default=_default_workload, prepare=prepare_workload, errors=_workload_errors
        ),
    }


def without_groups(behaviour: Behaviour) -> Behaviour:
    """The behaviour of a kind with pods, or templates of pods, that lose their scheduling group."""

    def default(body: Body) -> None:
        spec = body.get("spec", {})
        for owner in (spec, spec.get("template", {}).get("spec", {})):
            owner.pop("schedulingGroup", None)
        behaviour.default(body)

    return replace(behaviour, default=default)


def with_groups(behaviour: Behaviour) -> Behaviour:
    """The behaviour of pods whose scheduling group is checked."""

    def errors(new: Body, old: Body | None, context: WriteContext) -> Iterator[FieldError]:
        yield from behaviour.errors(new, old, context)
        group, path = new["spec"].get("schedulingGroup"), "spec.schedulingGroup.podGroupName"
        if group is None:
            return
        name = group.get("podGroupName")
        if not name:
            yield field_errors.invalid(path, None, "must specify one of: `podGroupName`")
        else:
            yield from fields.name_errors(name, path)

    return replace(behaviour, errors=errors)


def _drop(spec: Body, gates: frozenset[str]) -> None:
    for name, gate in _GATED.items():
        if gate not in gates:
            spec.pop(name, None)


def _default_workload(workload: Body) -> None:
    # The published schema has the default of a group's mode for templates, too; the server not.
    for template in workload.get("spec", {}).get("podGroupTemplates", ()):
        if template.get("disruptionMode") is None:
            template.pop("disruptionMode", None)


def _resolve_priority(group: Body, gates: frozenset[str], context: WriteContext) -> None:
    """Set the priority from the class, as for pods."""
    if PREEMPTION not in gates:
        return
    spec = group["spec"]
    name = spec.get("priorityClassName", "")
    if name:
        found = context.read(PRIORITY_CLASSES, Key("", name))
        if found is None:
            raise _refused(group, f"no PriorityClass with name {name} was found")
    else:
        found = default_class(context)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = found["value"] if found is not None else 0
    given = spec.get("priority", value)
    if given != value:
        text = (
            f"priority set in the pod group ({given}) must match the priority computed ({value}) "
            "based on the priority class set in the spec"
        )
        raise _refused(group, text)
    spec["priority"] = value


def _check_workload(group: Body, context: WriteContext) -> None:
    """Refuse a group whose Workload does not exist, is being deleted, or lacks the template."""
    reference = (group["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if not reference:
        return
    name, template = reference.get("workloadName", ""), reference.get("podGroupTemplateName", "")
    found = context.read(WORKLOADS, Key(group["metadata"].get("namespace", ""), name))
    if found is None:
        raise _refused(group, f'PodGroup rejected: Workload "{name}" not found')
    if found["metadata"].get("deletionTimestamp"):
        raise _refused(group, f'PodGroup rejected: Workload "{name}" is being deleted')
    if all(one.get("name") != template for one in found["spec"].get("podGroupTemplates", ())):
        text = f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{name}"'
        raise _refused(group, text)


def _group_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new.get("spec", {})
    if old is not None:
        before = old.get("spec", {})
        for name in _SPEC:
            yield from _same(spec.get(name), before.get(name), f"spec.{name}")
        return
    reference = spec.get("podGroupTemplateRef")
    if reference is not None and not reference.get("workload"):
        detail = "must specify one of: `workload`"
        yield field_errors.invalid("spec.podGroupTemplateRef", "", detail)
    yield from _terms_errors(spec, "spec")


def _terms_errors(spec: Body, path: str) -> Iterator[FieldError]:
    """The errors of the fields that a group and a template of a Workload share."""
    policy, field = spec.get("schedulingPolicy", {}), f"{path}.schedulingPolicy"
    given = [name for name in ("basic", "gang") if policy.get(name) is not None]
    if not given:
        yield field_errors.invalid(field, "", "must specify one of: `basic`, `gang`")
    elif len(given) > 1:
        detail = "must specify exactly one of: `basic`, `gang`"
        yield field_errors.invalid(field, "{basic, gang}", detail)
    if "gang" in given:
        least = policy["gang"].get("minCount", 0)
        if not least:
            yield field_errors.required(f"{field}.gang.minCount")
        elif least < 0:
            detail = "must be greater than or equal to 1"
            yield field_errors.invalid(f"{field}.gang.minCount", least, detail)
    constraints = (spec.get("schedulingConstraints") or {}).get("topology", ())
    field = f"{path}.schedulingConstraints.topology"
    if len(constraints) > 1:
        yield field_errors.too_many(field, len(constraints), 1)
        return
    for one in constraints:
        if not one.get("key"):
            yield field_errors.required(f"{field}[0].key")
        else:
            yield from fields.qualified_name_errors(one["key"], f"{field}[0].key")


def _workload_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new.get("spec", {})
    templates = spec.get("podGroupTemplates", ())
    if old is not None:
        before = old.get("spec", {})
        for name in ("controllerRef", "podGroupTemplates"):
            yield from _same(spec.get(name), before.get(name), f"spec.{name}")
        return
    for name in ("kind", "name") if spec.get("controllerRef") is not None else ():
        if not spec["controllerRef"].get(name):
            yield field_errors.required(f"spec.controllerRef.{name}")
    if not templates:
        yield field_errors.required("spec.podGroupTemplates")
    elif len(templates) > _TEMPLATES_MAX:
        yield field_errors.too_many("spec.podGroupTemplates", len(templates), _TEMPLATES_MAX)
        return
    seen: set[str] = set()
    for index, template in enumerate(templates):
        path, name = f"spec.podGroupTemplates[{index}]", template.get("name", "")
        if name in seen:
            yield field_errors.duplicate(path, template)
        seen.add(name)
        if not name:
            yield field_errors.required(f"{path}.name")
        else:
            yield from fields.name_errors(name, f"{path}.name", "label")
        yield from _terms_errors(template, path)


def _status_errors(new: Body, _old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    for index, condition in enumerate(new.get("status", {}).get("conditions", ())):
        for name in ("type", "status", "lastTransitionTime", "reason"):
            if not condition.get(name):
                yield field_errors.required(f"status.conditions[{index}].{name}")


def _same(new: object, old: object, field: str) -> Iterator[FieldError]:
    # kube-apiserver shows no value here.
    if (new or None) != (old or None):
        yield field_errors.invalid(field, None, "field is immutable")


def _refused(group: Body, message: str) -> Exception:
    name = refusals.admitted_name(group["metadata"])
    return refusals.access_denied("podgroups", "scheduling.k8s.io", name, message)
