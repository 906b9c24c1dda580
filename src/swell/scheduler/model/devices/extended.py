"""Extended resources that devices stand for, where no device plugin offers them.

A DeviceClass names the resource that its devices can stand for. A pod that requests it gets one
claim of its own for all such requests, which the scheduler makes; until that is there the pod
waits for it like a pod with a template. From then on it is a claim like any other.

A node has as much of the resource as it reaches devices of the class, unless its device plugin
offers some: then the pod needs no devices there. So room, queues and scores count it as if a plugin
did; which devices there are to be had, the search decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from swell.api import quantity
from swell.api.devices import EXACT_COUNT, ResourceClaim
from swell.api.meta import Body, Uid
from swell.api.pod import Container, Pod, PodResourceClaim, PodResourceClaimStatus, PodSpec
from swell.api.quantity import QuantityError
from swell.scheduler.model.devices.wanted import ReadClass

# So much of a pod's name is kept in that of its claim: 253 letters in all.
_NAME_MAX: Final = 220
# Stands for the claim in the pod's list of claims, as the scheduler sees it.
EXTENDED: Final = "extended-resources"
# Marks the claim, which belongs to the pod.
IS_EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
# Names every class as an extended resource.
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class ExtendedRequest:
    """The devices that one container requests by the name of a resource."""

    container: str
    resource: str
    request: str  # the name in the claim
    device_class: str
    count: int


class ExtendedResources:
    """Which classes stand for which resources, and the claims that were made for pods."""

    def __init__(self) -> None:
        self._classes: dict[str, ReadClass] = {}
        self._explicit: dict[str, str] = {}  # resource -> class
        self._claims: dict[Uid, dict[str, ResourceClaim]] = {}  # pod -> its claims by name
        self._owner_of: dict[str, Uid] = {}  # claim -> pod

    # --- classes and claims

    @property
    def mapping(self) -> dict[str, str]:
        """The classes by the resources that they stand for, under all names."""
        return {**{IMPLICIT + name: name for name in self._classes}, **self._explicit}

    def put_classes(self, classes: Mapping[str, ReadClass]) -> None:
        """Takes all classes as they are."""
        self._classes = dict(classes)
        self._explicit = {}
        # Of several classes the newest counts, then the first by name, as in kube-scheduler.
        ordered = sorted(classes.values(), key=lambda one: one.name)
        for one in sorted(ordered, key=lambda one: one.created, reverse=True):
            if one.extended_resource:
                self._explicit.setdefault(one.extended_resource, one.name)

    def class_of(self, resource: str) -> str:
        """Returns the class whose devices stand for a resource; empty if there is none."""
        found = self._explicit.get(resource)
        if found is None and resource.startswith(IMPLICIT):
            found = resource.removeprefix(IMPLICIT)
            return found if found in self._classes else ""
        return found or ""

    def put_claim(self, key: str, claim: ResourceClaim) -> None:
        self.remove_claim(key)
        owner = owner_of(claim)
        if owner is not None:
            self._claims.setdefault(owner, {})[key] = claim
            self._owner_of[key] = owner

    def remove_claim(self, key: str) -> None:
        owner = self._owner_of.pop(key, None)
        if owner is not None:
            del self._claims[owner][key]
            if not self._claims[owner]:
                del self._claims[owner]

    # --- pods

    def claim_of(self, pod: Pod) -> ResourceClaim | None:
        """Returns the claim for the extended resources of a pod: the one that it names, if any."""
        own = self._claims.get(pod.metadata.uid, {})
        named = pod.status.extended_resource_claim_status
        if named is not None:
            return own.get(f"{pod.metadata.namespace}/{named.resource_claim_name}")
        return next((own[key] for key in sorted(own)), None)

    def with_claim(self, pod: Pod) -> Pod:
        """Returns a pod with an entry for the claim that it needs; the pod itself if for none."""
        if not self._classes or not any(self._resources_of(pod.spec)):
            return pod
        claim = self.claim_of(pod)
        entry = PodResourceClaim(name=EXTENDED, resource_claim_template_name=EXTENDED)
        statuses = pod.status.resource_claim_statuses
        if claim is not None:
            made = PodResourceClaimStatus(name=EXTENDED, resource_claim_name=claim.metadata.name)
            statuses = (*statuses, made)
        return replace(
            pod,
            spec=replace(pod.spec, resource_claims=(*pod.spec.resource_claims, entry)),
            status=replace(pod.status, resource_claim_statuses=statuses),
        )

    def requests_of(self, spec: PodSpec) -> tuple[ExtendedRequest, ...]:
        """Returns the requests of a pod by container and resource, those of init containers first.

        An init container that has ended leaves its devices: where a later container requests as
        many of the same resource, they share a request.
        """
        found: list[ExtendedRequest] = []
        containers = (*spec.init_containers, *spec.containers)
        for at in reversed(range(len(containers))):
            container = containers[at]
            ends = at < len(spec.init_containers) and container.restart_policy != "Always"
            own: list[ExtendedRequest] = []
            for index, (resource, count) in enumerate(self._amounts_of(container)):
                name = f"container-{at}-request-{index}"
                if ends:
                    name = _shared_with(found, resource, count) or name
                of_class = self.class_of(resource)
                own.append(ExtendedRequest(container.name, resource, name, of_class, count))
            found = own + found
        return tuple(found)

    def resources_of(self, spec: PodSpec) -> dict[str, None]:
        """Returns the requested resources that devices can stand for."""
        return dict.fromkeys(self._resources_of(spec))

    def _resources_of(self, spec: PodSpec) -> Iterator[str]:
        for container in (*spec.init_containers, *spec.containers):
            for resource, _ in self._amounts_of(container):
                yield resource

    def _amounts_of(self, container: Container) -> Iterator[tuple[str, int]]:
        resources = container.resources
        if not resources.limits and not resources.requests:
            return
        for name, raw in sorted({**resources.limits, **resources.requests}.items()):
            if "/" in name and self.class_of(name):
                try:
                    count = quantity.parse(str(raw)).value()
                except QuantityError:
                    continue  # the pod cannot be read, and waits for that
                if count > 0:
                    yield name, count


def _shared_with(later: Iterable[ExtendedRequest], resource: str, count: int) -> str:
    same = (one.request for one in later if (one.resource, one.count) == (resource, count))
    return next(same, "")


def owner_of(claim: ResourceClaim) -> Uid | None:
    """Returns the UID of the pod for whose extended resources a claim was made."""
    meta = claim.metadata
    if meta.annotations.get(IS_EXTENDED) != "true" or meta.controller is None:
        return None
    return meta.controller.uid if meta.deletion_timestamp is None else None


def claim_spec(requests: Iterable[ExtendedRequest]) -> Body:
    """Returns the spec of the claim for these requests."""
    by_name = {one.request: one for one in requests}
    return {
        "devices": {
            "requests": [
                {
                    "name": name,
                    "exactly": {
                        "deviceClassName": one.device_class,
                        "allocationMode": EXACT_COUNT,
                        "count": one.count,
                    },
                }
                for name, one in sorted(by_name.items())
            ]
        }
    }


def claim_name(pod: Pod) -> str:
    """Returns a name that no other pod's claim has: one that was made is found again by it."""
    meta = pod.metadata
    mark = hashlib.sha256(meta.uid.encode()).hexdigest()[:8]
    return f"{meta.name[:_NAME_MAX]}-{EXTENDED}-{mark}"


def claim_body(pod: Pod, requests: Iterable[ExtendedRequest]) -> Body:
    """Returns the claim that a pod needs for its extended resources."""
    meta = pod.metadata
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": claim_name(pod),
            "namespace": meta.namespace,
            "annotations": {IS_EXTENDED: "true"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": meta.name,
                    "uid": meta.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": claim_spec(requests),
    }


def status_body(claim: str, requests: Iterable[ExtendedRequest]) -> Body:
    """Returns what is written into the pod's status: the kubelet looks there for its devices."""
    return {
        "extendedResourceClaimStatus": {
            "resourceClaimName": claim,
            "requestMappings": [
                {
                    "containerName": one.container,
                    "resourceName": one.resource,
                    "requestName": one.request,
                }
                for one in requests
            ],
        }
    }
