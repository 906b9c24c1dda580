"""Warnings about objects that are valid but unwise, as kube-apiserver gives them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from swell.api import quantity
from swell.api.meta import Body
from swell.cluster.embedded.objectmeta import name_problems


def pod_warnings(new: Body, old: Body | None) -> Iterator[str]:
    name = new["metadata"].get("name")
    if old is None and name and name_problems(name, "label"):
        yield (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising"
            " behavior; a DNS label is recommended"
        )
    if old is None or old["spec"] != new["spec"]:
        yield from _spec_warnings(new["spec"], "spec")


def template_warnings(new: Body, old: Body | None) -> Iterator[str]:
    """The warnings about a pod template in another kind's spec."""
    template = new["spec"].get("template", {})
    if old is None or old["spec"].get("template") != template:
        yield from _spec_warnings(template.get("spec", {}), "spec.template.spec")


def service_warnings(new: Body, _old: Body | None) -> Iterator[str]:
    spec = new["spec"]
    if "service.kubernetes.io/topology-aware-hints" in new["metadata"].get("annotations", {}):
        yield "annotation service.kubernetes.io/topology-aware-hints is deprecated"
    if spec["type"] == "ClusterIP" and spec.get("clusterIP") == "None":
        ignored = {name for name in ("loadBalancerIP", "externalIPs") if spec.get(name)}
        ignored |= {"SessionAffinity"} if spec.get("sessionAffinity") != "None" else set()
        for name in sorted(ignored):
            yield f"spec.{name} is ignored for headless services"
    elif spec.get("externalIPs") and spec["type"] != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    elif spec.get("externalIPs"):
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec["type"] != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield "spec.trafficDistribution: PreferClose is deprecated; use PreferSameZone"


def claim_warnings(new: Body, _old: Body | None) -> Iterator[str]:
    for side in ("limits", "requests"):
        amount = new["spec"].get("resources", {}).get(side, {}).get("storage", "0")
        if quantity.parse(amount).nano % quantity.NANO:
            yield f"spec.resources.{side}[storage]: fractional byte value is invalid"


def slice_warnings(new: Body, _old: Body | None) -> Iterator[str]:
    if new.get("addressType") == "FQDN":
        yield "addressType: FQDN endpoints are deprecated"


def node_warnings(new: Body, old: Body | None) -> Iterator[str]:
    name = "externalID"
    if new.get("spec", {}).get(name) and (old or {}).get("spec", {}).get(name) is None:
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"


def _spec_warnings(spec: Body, path: str) -> Iterator[str]:
    if spec.get("terminationGracePeriodSeconds", 0) < 0:  # of a template: pods get 1
        yield f"{path}.terminationGracePeriodSeconds: must be >= 0; taken to be 1"
    for index, secret in enumerate(spec.get("imagePullSecrets", ())):
        if not secret.get("name"):
            yield f"{path}.imagePullSecrets[{index}].name: invalid empty name"
    for index, volume in enumerate(spec.get("volumes", ())):
        for at, source in enumerate(volume.get("projected", {}).get("sources") or ()):
            if not source:
                yield f"{path}.volumes[{index}].projected.sources[{at}]: no sources provided"
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            yield from _container_warnings(container, f"{path}.{kind}[{index}]")


def _container_warnings(container: Body, path: str) -> Iterator[str]:
    names: set[str] = set()
    for index, variable in enumerate(container.get("env", ())):
        name = variable.get("name", "")
        if name in names:
            yield f'{path}.env[{index}]: hides previous definition of "{name}"'
        names.add(name)
    ports: set[tuple[object, ...]] = set()
    for index, port in enumerate(container.get("ports", ())):
        where = f"{path}.ports[{index}]"
        number = tuple(port.get(name) for name in ("containerPort", "protocol", "hostIP"))
        if number in ports:
            yield f"{where}: duplicate port definition"
        ports.add(number)
        if port.get("hostIP") and not _is_address(port["hostIP"]):
            yield f"{where}.hostIP: non-standard IP address"
    for side in ("limits", "requests"):
        for name, amount in container.get("resources", {}).get(side, {}).items():
            fraction = quantity.parse(amount).nano % quantity.NANO
            if name in {"memory", "ephemeral-storage"} and fraction:
                yield f"{path}.resources.{side}[{name}]: fractional byte value is invalid"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
