"""Nodes and Namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from swell.api import quantity
from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.builtin.scheduling import taint_errors
from swell.cluster.embedded.builtin.warnings import node_warnings
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

NOT_READY = "node.kubernetes.io/not-ready"
NAME_LABEL = "kubernetes.io/metadata.name"
# Resources that are counted in whole numbers; so are extended ones (with a slash).
WHOLE = frozenset({"pods", "services", "replicationcontrollers"})
FEATURE = re.compile(r"([A-Z][A-Za-z0-9]*)(/[A-Za-z][A-Za-z0-9]*)*")
FEATURE_LENGTH_MAX = 253


def default_node(node: Body) -> None:
    spec = node.get("spec", {})
    if spec.get("podCIDR"):
        if spec.get("podCIDRs", [""])[0] != spec["podCIDR"]:
            spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    # Fields of configurations from the server, which Kubernetes does not have any more.
    spec.pop("configSource", None)
    status = node.get("status", {})
    status.pop("config", None)
    if "capacity" in status:  # without reservations all of it is allocatable
        status.setdefault("allocatable", dict(status["capacity"]))


def prepare_node(new: Body, old: Body | None, _context: WriteContext) -> None:
    """Taint a new node as not ready; the node lifecycle controller removes the taint."""
    if old is not None:
        return
    taints = new.setdefault("spec", {}).setdefault("taints", [])
    wanted = {"key": NOT_READY, "effect": "NoSchedule"}
    if not any({**taint, **wanted} == taint for taint in taints):
        taints.append(wanted)


def node_errors(new: Body, old: Body | None, context: WriteContext) -> Iterator[FieldError]:
    spec = new.get("spec", {})
    yield from taint_errors(spec.get("taints", []), "metadata.taints")
    yield from node_status_errors(new, old, context)
    for index, network in enumerate(spec.get("podCIDRs", ())):
        yield from fields.network_errors(network, f"spec.podCIDRs[{index}]")
    networks = spec.get("podCIDRs", ())
    if len(networks) > 1 and any(
        True for network in networks for _ in fields.network_errors(network, "")
    ):
        detail = "invalid podCIDRs: check for dual stack failed"
        yield FieldError("InternalError", "spec.podCIDRs", detail)
    if len({":" in network for network in networks}) < len(networks):
        detail = "may specify no more than one CIDR for each IP family"
        yield field_errors.invalid("spec.podCIDRs", networks, detail)
    before = (old or {}).get("spec", {})
    if old is not None and spec.get("externalID") != before.get("externalID"):
        yield field_errors.forbidden("spec.externalID", "may not be updated")
    for name in ("podCIDRs", "providerID"):
        if before.get(name) and before[name] != spec.get(name):
            detail = f'node updates may not change {name} except from "" to valid'
            yield field_errors.forbidden(f"spec.{name}", detail)


def node_status_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    status = new.get("status", {})
    for side in ("capacity", "allocatable"):
        for name, amount in status.get(side, {}).items():
            value = quantity.parse(amount)
            if value.nano < 0:
                detail = "must be greater than or equal to 0"
                yield field_errors.invalid(f"status.{side}.{name}", amount, detail)
            if (name in WHOLE or "/" in name) and value.nano % quantity.NANO:
                yield field_errors.invalid(f"status.{side}.{name}", amount, "must be an integer")
    yield from _feature_errors(status.get("declaredFeatures") or ())
    # kube-apiserver checks addresses only on updates.
    addresses = status.get("addresses", []) if old is not None else []
    for index, address in enumerate(addresses):
        if addresses.index(address) != index:
            yield field_errors.duplicate(f"status.addresses[{index}]", address)


def _feature_errors(names: Sequence[str]) -> Iterator[FieldError]:
    """The declared features of a node: known by their form, each once, in order."""
    for index, name in enumerate(names):
        where = f"status.declaredFeatures[{index}]"
        if len(name) > FEATURE_LENGTH_MAX or not FEATURE.fullmatch(name):
            yield field_errors.invalid(where, name, "must be words in upper camel case")
        if index and name == names[index - 1]:
            yield field_errors.duplicate(where, name)
        elif index and name < names[index - 1]:
            yield field_errors.invalid(where, name, "the list must be in order")


def default_namespace(namespace: Body) -> None:
    name = namespace["metadata"].get("name")
    if name:
        namespace["metadata"].setdefault("labels", {})[NAME_LABEL] = name


def prepare_namespace(new: Body, old: Body | None, context: WriteContext) -> None:
    """Add the finalizer that keeps a namespace until it is empty. Only /finalize removes it."""
    default_namespace(new)
    if old is None:
        finalizers = new.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
    elif context.subresource != "finalize":
        new["spec"] = old.get("spec", {})


def namespace_errors(new: Body, _old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    for name in new.get("spec", {}).get("finalizers", ()):
        problems = list(fields.qualified_name_errors(name, "spec.finalizers"))
        yield from problems
        if not problems and name != "kubernetes" and "/" not in name:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield field_errors.invalid("spec.finalizers", name, detail)


def namespace_status_errors(
    new: Body, _old: Body | None, _context: WriteContext
) -> Iterator[FieldError]:
    wanted = "Terminating" if new["metadata"].get("deletionTimestamp") else "Active"
    phase = new.get("status", {}).get("phase")
    if phase != wanted:
        yield field_errors.invalid("status.Phase", phase, f"may only be '{wanted}' now")


NODES = Behaviour(
    default=default_node,
    prepare=prepare_node,
    errors=node_errors,
    warnings=node_warnings,
    status_errors=node_status_errors,
    keeps_status=True,
)
NAMESPACES = Behaviour(
    default=default_namespace,
    prepare=prepare_namespace,
    errors=namespace_errors,
    status_errors=namespace_status_errors,
)
