"""The cells of the built-in kinds in kubectl's tables, in the order of their columns. Pure.

The columns themselves are data (see `builtin.kinds`); a cell stands at the position of its column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from swell.api.meta import Body
from swell.api.times import parse_time
from swell.cluster.embedded.http.tables.formats import NONE, UNKNOWN, age, human_duration
from swell.cluster.embedded.http.tables.podcells import pod_cells
from swell.cluster.embedded.selectors import selector_text

ENDPOINTS_MAX = 3  # kubectl prints so many, then "+ n more..."
Cells = list[object]


def cells_of(resource: str, body: Body, now: float) -> Cells | None:
    """The cells of an object of a built-in resource (`pods`, `jobs.batch`); None for others."""
    make = _BY_RESOURCE.get(resource)
    return make(body, now) if make else None


def _config_map(body: Body, now: float) -> Cells:
    n_data = len(body.get("data") or {}) + len(body.get("binaryData") or {})
    return [_name(body), n_data, _age(body, now)]


def _secret(body: Body, now: float) -> Cells:
    return [_name(body), body.get("type", ""), len(body.get("data") or {}), _age(body, now)]


def _namespace(body: Body, now: float) -> Cells:
    return [_name(body), _part(body, "status").get("phase", ""), _age(body, now)]


def _priority_class(body: Body, now: float) -> Cells:
    is_default = bool(body.get("globalDefault"))
    policy = body.get("preemptionPolicy", "")
    return [_name(body), body.get("value", 0), is_default, _age(body, now), policy]


def _pod_group(body: Body, now: float) -> Cells:
    spec = _part(body, "spec")
    policy = "Gang" if _part(spec, "schedulingPolicy").get("gang") is not None else "Basic"
    reference = _part(_part(spec, "podGroupTemplateRef"), "workload")
    found = {one.get("type"): one for one in _part(body, "status").get("conditions", ())}
    status = "Pending"
    if "DisruptionTarget" in found:  # whatever its status, as in kubectl
        status = found["DisruptionTarget"].get("reason", "")
    elif "PodGroupScheduled" in found:
        is_true = found["PodGroupScheduled"].get("status") == "True"
        status = "Scheduled" if is_true else "Unschedulable"
    workload = reference.get("workloadName") or "<none>"
    return [_name(body), policy, workload, status, _age(body, now)]


def _workload(body: Body, now: float) -> Cells:
    return [_name(body), _age(body, now)]


def _lease(body: Body, now: float) -> Cells:
    return [_name(body), _part(body, "spec").get("holderIdentity", ""), _age(body, now)]


def _disruption_budget(body: Body, now: float) -> Cells:
    spec, status = _part(body, "spec"), _part(body, "status")
    least, most = spec.get("minAvailable", "N/A"), spec.get("maxUnavailable", "N/A")
    allowed = status.get("disruptionsAllowed", 0)
    return [_name(body), str(least), str(most), allowed, _age(body, now)]


def _scale(body: Body, now: float) -> Cells:
    wanted, observed = (_part(body, part).get("replicas", 0) for part in ("spec", "status"))
    return [_name(body), wanted, observed, _age(body, now)]


def _created(body: Body, _now: float) -> Cells:
    """The cells of definitions and roles, whose creation time is printed as it is."""
    return [_name(body), _part(body, "metadata").get("creationTimestamp")]


def _role_binding(body: Body, now: float) -> Cells:
    reference, named = _part(body, "roleRef"), {"User": "", "Group": "", "ServiceAccount": ""}
    for kind in named:
        subjects = [one for one in body.get("subjects") or () if one.get("kind") == kind]
        prefix = "{namespace}/{name}" if kind == "ServiceAccount" else "{name}"
        named[kind] = ", ".join(
            prefix.format(namespace=one.get("namespace", ""), name=one.get("name", ""))
            for one in subjects
        )
    role = f"{reference.get('kind')}/{reference.get('name')}"
    return [_name(body), role, _age(body, now), *named.values()]


def _node(body: Body, now: float) -> Cells:
    status, info = _part(body, "status"), _part(_part(body, "status"), "nodeInfo")
    addresses = {a.get("type"): a.get("address") for a in reversed(status.get("addresses") or [])}
    return [
        _name(body),
        _node_status(body),
        ",".join(_roles(_part(body, "metadata").get("labels") or {})) or NONE,
        _age(body, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        _kernel(info),
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _kernel(info: Body) -> str:
    version, architecture = info.get("kernelVersion"), info.get("architecture")
    return f"{version or UNKNOWN} ({architecture})" if architecture else version or UNKNOWN


def _node_status(body: Body) -> str:
    conditions = _part(body, "status").get("conditions") or []
    ready = next((c for c in reversed(conditions) if c.get("type") == "Ready"), None)
    if ready is None:
        states = ["Unknown"]
    else:
        states = ["Ready" if ready.get("status") == "True" else "NotReady"]
    if _part(body, "spec").get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _roles(labels: Mapping[str, str]) -> list[str]:
    prefix = "node-role.kubernetes.io/"
    named = {label.removeprefix(prefix) for label in labels if label.startswith(prefix)}
    if labels.get("kubernetes.io/role"):
        named.add(labels["kubernetes.io/role"])
    return sorted(named - {""})


def _service(body: Body, now: float) -> Cells:
    spec = _part(body, "spec")
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or NONE]
    return [
        _name(body),
        spec.get("type", ""),
        addresses[0] or NONE,
        _external_address(spec, _part(body, "status")),
        ",".join(_service_ports(spec)) or NONE,
        _age(body, now),
        _labels(spec.get("selector")),
    ]


def _external_address(spec: Body, status: Body) -> str:
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    listed: list[str] = list(spec.get("externalIPs") or [])
    if spec.get("type") != "LoadBalancer":
        return ",".join(listed) or NONE
    ingress = _part(status, "loadBalancer").get("ingress") or []
    given = {point.get("ip") or point.get("hostname") or "" for point in ingress}
    return ",".join([*sorted(given - {""}), *listed]) or "<pending>"


def _service_ports(spec: Body) -> Iterable[str]:
    for port in spec.get("ports") or []:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        yield f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


def _endpoints(body: Body, now: float) -> Cells:
    subsets = body.get("subsets") or []
    pairs = [
        _socket(str(address.get("ip")), port)
        for subset in subsets
        for port in subset.get("ports") or [None]
        for address in subset.get("addresses") or []
    ]
    # Subsets of which no address is ready are not nothing.
    shown = _first_few(pairs) if subsets else NONE
    return [_name(body), shown, _age(body, now)]


def _socket(address: str, port: Body | None) -> str:
    if port is None:
        return address
    return f"[{address}]:{port.get('port')}" if ":" in address else f"{address}:{port.get('port')}"


def _endpoint_slice(body: Body, now: float) -> Cells:
    ports = [str(p.get("port", p.get("name", "*"))) for p in body.get("ports") or []]
    found = [a for e in body.get("endpoints") or [] for a in e.get("addresses") or []]
    listed = [_first_few(items) or "<unset>" for items in (ports, found)]
    return [_name(body), body.get("addressType", ""), *listed, _age(body, now)]


def _first_few(items: list[str]) -> str:
    more = len(items) - ENDPOINTS_MAX
    first = ",".join(items[:ENDPOINTS_MAX])
    return f"{first} + {more} more..." if more > 0 else first


def _replica_set(body: Body, now: float) -> Cells:
    spec, status = _part(body, "spec"), _part(body, "status")
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [_name(body), *counts, _age(body, now), *_template(spec)]


def _job(body: Body, now: float) -> Cells:
    spec, status = _part(body, "spec"), _part(body, "status")
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        wanted = f"{succeeded}/{spec['completions']}"
    elif (spec.get("parallelism") or 0) > 1:  # one success ends the job, but several pods run
        wanted = f"{succeeded}/1 of {spec['parallelism']}"
    else:
        wanted = f"{succeeded}/1"
    duration = _duration(status, now)
    return [_name(body), _job_status(body), wanted, duration, _age(body, now), *_template(spec)]


def _job_status(body: Body) -> str:
    conditions = _part(body, "status").get("conditions") or []
    first = {c.get("type"): c.get("status") for c in reversed(conditions)}
    true = {kind for kind, status in first.items() if status == "True"}
    for final in ("Complete", "Failed"):  # a finished job keeps its earlier conditions
        if final in true:
            return final
    if _part(body, "metadata").get("deletionTimestamp"):
        return "Terminating"
    waiting = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((state for state in waiting if state in true), "Running")


def _duration(status: Body, now: float) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return human_duration((parse_time(end) if end else now) - parse_time(start))


def _template(spec: Body) -> Cells:
    containers = _part(_part(spec, "template"), "spec").get("containers") or []
    names = ",".join(c.get("name", "") for c in containers)
    images = ",".join(c.get("image", "") for c in containers)
    return [names, images, selector_text(spec.get("selector")) or NONE]


def _event(body: Body, now: float) -> Cells:
    """Events of both groups: one has involvedObject and message, the other regarding and note."""
    series = _part(body, "series")
    first_at = _either(body, "firstTimestamp", "deprecatedFirstTimestamp") or body.get("eventTime")
    last_at = _either(body, "lastTimestamp", "deprecatedLastTimestamp") or first_at
    count = _either(body, "count", "deprecatedCount") or 1
    if series:
        last_at, count = series.get("lastObservedTime"), series.get("count", 0)
    about = body.get("involvedObject") or body.get("regarding") or {}
    kind, name = str(about.get("kind", "")).lower(), about.get("name")
    return [
        age(last_at, now),
        body.get("type", ""),
        body.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        _event_source(body),
        str(_either(body, "message", "note") or "").strip(),
        age(first_at, now),
        count,
        _name(body),
    ]


def _event_source(body: Body) -> str:
    source = body.get("source") or body.get("deprecatedSource") or {}
    component = source.get("component") or _either(
        body, "reportingComponent", "reportingController"
    )
    instance = source.get("host") or body.get("reportingInstance")
    return f"{component or ''}, {instance}" if instance else str(component or "")


def _either(body: Body, name: str, other: str) -> object:
    return body.get(name) or body.get(other)


def _claim(body: Body, now: float) -> Cells:
    spec, status = _part(body, "spec"), _part(body, "status")
    is_leaving = "deletionTimestamp" in _part(body, "metadata")
    phase = "Terminating" if is_leaving else status.get("phase", "")
    volume = spec.get("volumeName", "")
    capacity = _part(status, "capacity").get("storage", "0") if volume else ""
    modes = _modes(status.get("accessModes")) if volume else ""
    classes = [_class_name(body), spec.get("volumeAttributesClassName", "<unset>")]
    mode = spec.get("volumeMode", "<unset>")
    return [_name(body), phase, volume, capacity, modes, *classes, _age(body, now), mode]


def _volume(body: Body, now: float) -> Cells:
    spec, status = _part(body, "spec"), _part(body, "status")
    is_leaving = "deletionTimestamp" in _part(body, "metadata")
    phase = "Terminating" if is_leaving else status.get("phase", "")
    reference = _part(spec, "claimRef")
    claim = f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""
    return [
        _name(body),
        _part(spec, "capacity").get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        claim,
        _class_name(body),
        spec.get("volumeAttributesClassName", "<unset>"),
        status.get("reason", ""),
        _age(body, now),
        spec.get("volumeMode", "<unset>"),
    ]


def _class_name(body: Body) -> object:
    """The storage class of a volume or a claim; an annotation of the beta is heeded first."""
    notes = _part(_part(body, "metadata"), "annotations")
    own = _part(body, "spec").get("storageClassName", "")
    return notes.get("volume.beta.kubernetes.io/storage-class", own)


def _storage_class(body: Body, now: float) -> Cells:
    notes = _part(_part(body, "metadata"), "annotations")
    marks = ("storageclass.kubernetes.io", "storageclass.beta.kubernetes.io")
    is_default = any(notes.get(f"{mark}/is-default-class") == "true" for mark in marks)
    name = f"{_name(body)} (default)" if is_default else _name(body)
    return [
        name,
        body.get("provisioner", ""),
        body.get("reclaimPolicy", "Delete"),
        body.get("volumeBindingMode", "Immediate"),
        bool(body.get("allowVolumeExpansion", False)),
        _age(body, now),
    ]


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: object) -> str:
    """Returns access modes in short, in kubectl's order."""
    found = modes if isinstance(modes, list) else []
    return ",".join(short for mode, short in _MODES.items() if mode in found)


def _labels(labels: object) -> str:
    if not isinstance(labels, dict) or not labels:
        return NONE
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _name(body: Body) -> object:
    return _part(body, "metadata").get("name", "")


def _age(body: Body, now: float) -> str:
    return age(_part(body, "metadata").get("creationTimestamp"), now)


def _part(body: Body, name: str) -> Body:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


_BY_RESOURCE: Mapping[str, Callable[[Body, float], Cells]] = {
    "configmaps": _config_map,
    "clusterrolebindings.rbac.authorization.k8s.io": _role_binding,
    "clusterroles.rbac.authorization.k8s.io": _created,
    "customresourcedefinitions.apiextensions.k8s.io": _created,
    "endpoints": _endpoints,
    "endpointslices.discovery.k8s.io": _endpoint_slice,
    "events": _event,
    "events.events.k8s.io": _event,
    "jobs.batch": _job,
    "leases.coordination.k8s.io": _lease,
    "namespaces": _namespace,
    "nodes": _node,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "poddisruptionbudgets.policy": _disruption_budget,
    "podgroups.scheduling.k8s.io": _pod_group,
    "pods": pod_cells,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "replicasets.apps": _replica_set,
    "rolebindings.rbac.authorization.k8s.io": _role_binding,
    "roles.rbac.authorization.k8s.io": _created,
    "scales.autoscaling": _scale,
    "secrets": _secret,
    "services": _service,
    "storageclasses.storage.k8s.io": _storage_class,
    "workloads.scheduling.k8s.io": _workload,
}
