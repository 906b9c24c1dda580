"""The effective requests and limits of a pod, as Kubernetes counts them.

Containers run together, so their requests add up. Init containers run before them, one after the
other, beside the sidecars (init containers that restart always) started so far: the largest moment
counts. Overhead is added. A container with a limit and no request requests the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swell.api.codec import convert
from swell.api.meta import Body
from swell.api.pod import Container, PodSpec
from swell.api.quantity import ZERO, Quantity, QuantityText, parse

Amounts = dict[str, Quantity]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
HUGE_PAGES_PREFIX = "hugepages-"
# Resources that begin so are parts of a GPU, which Volcano's plugin deviceshare hands out.
_PARTS_OF_GPUS = ("volcano.sh/vgpu-", "volcano.sh/gpu-")

# Scheduled in whole units; a fraction of a byte or of a pod means nothing.
_IN_UNITS = frozenset({MEMORY, PODS, EPHEMERAL_STORAGE})


def pod_requests(spec: PodSpec) -> Amounts:
    """Returns the effective request of a pod, exactly."""
    amounts = _combined(spec, container_requests)
    if spec.resources is not None:
        stated = {**spec.resources.limits, **spec.resources.requests}
        amounts |= {name: parse(raw) for name, raw in stated.items() if _is_of_pods(name)}
    return _sum(amounts, _parsed(spec.overhead))


def pod_limits(spec: PodSpec) -> Amounts:
    """Returns the effective limits of a pod, for the resources that some container limits."""
    amounts = _combined(spec, lambda container: _parsed(container.resources.limits))
    if spec.resources is not None:
        amounts |= {
            name: parse(raw) for name, raw in spec.resources.limits.items() if _is_of_pods(name)
        }
    overhead = _parsed(spec.overhead)
    return _sum(amounts, {name: overhead[name] for name in overhead if name in amounts})


def template_requests(template: Body) -> Amounts:
    """Returns the effective request of the pods made from a valid raw template."""
    return pod_requests(convert(template.get("spec", {}), PodSpec))


def container_requests(container: Container) -> Amounts:
    """Returns the requests of a container, with its limits where a request is missing."""
    return _parsed({**container.resources.limits, **container.resources.requests})


def scheduling_amount(name: str, amount: Quantity) -> int:
    """Returns the amount as an integer in the unit in which the resource is scheduled.

    Memory, storage and huge pages count in bytes, pods as such, everything else in thousandths.
    """
    if name in _IN_UNITS or name.startswith(HUGE_PAGES_PREFIX):
        return amount.value()
    return amount.milli_value()


def scheduling_amounts(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: scheduling_amount(name, amount) for name, amount in amounts.items()}


def _combined(spec: PodSpec, amounts_of: Callable[[Container], Amounts]) -> Amounts:
    """Returns the larger of the amounts of the containers and of any moment before them."""
    together: Amounts = {}
    for container in spec.containers:
        together = _sum(together, amounts_of(container))
    sidecars: Amounts = {}
    before: Amounts = {}
    for container in spec.init_containers:
        # A sidecar runs on from here, so it counts in every later moment.
        running = _sum(sidecars, amounts_of(container))
        if container.restart_policy == "Always":
            sidecars = running
        before = _greater(before, running)
    return _greater(_sum(together, sidecars), before) if spec.init_containers else together


def _is_of_pods(name: str) -> bool:
    """Whether Kubernetes lets a pod as a whole state an amount of this resource."""
    return name in {CPU, MEMORY} or name.startswith(HUGE_PAGES_PREFIX)


def _parsed(amounts: Mapping[str, QuantityText]) -> Amounts:
    return {name: parse(raw) for name, raw in amounts.items()}


def _sum(first: Amounts, second: Amounts) -> Amounts:
    if not first or not second:
        return first or second
    return first | {name: first.get(name, ZERO) + amount for name, amount in second.items()}


def _greater(first: Amounts, second: Amounts) -> Amounts:
    return first | {name: max(first.get(name, ZERO), amount) for name, amount in second.items()}


def asks_for_parts_of_gpus(spec: PodSpec) -> bool:
    """Whether a pod asks for resources that Volcano's plugin hands out as parts of GPUs."""
    return any(
        name.startswith(_PARTS_OF_GPUS)
        for container in (*spec.containers, *spec.init_containers)
        for name in (*container.resources.limits, *container.resources.requests)
    )
