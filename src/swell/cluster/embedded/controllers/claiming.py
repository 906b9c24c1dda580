"""Which pods an owner with a selector claims: it adopts some and releases others.

A pod without a controller is adopted when the selector matches it; a pod of the owner that it no
longer matches is released. An owner that is being deleted does neither, and a pod that is being
deleted is not adopted. This is the behaviour of Kubernetes' controller reference manager.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from swell.api.codec import to_body
from swell.api.kinds import PODS
from swell.api.meta import Body, OwnerReference
from swell.api.pod import LabelSelector, Pod
from swell.api.resource import ApiObject, Resource
from swell.cluster.embedded.controllers.pods import is_deleted
from swell.cluster.embedded.selectors import LabelRequirements, from_label_selector
from swell.runtime.cluster import Patch, PatchKind
from swell.runtime.plan import PatchObject

# A selector may have tens of thousands of values, and as many owners as there are wake for a pod.
PARSED_MAX = 256


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The pods an owner has, and the patches that adopt or release others."""

    owned: tuple[Pod, ...]
    patches: tuple[PatchObject, ...]


def controller_reference(owner: ApiObject, resource: Resource[object]) -> OwnerReference:
    """The owner reference of an object to its controller."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def selects(selector: LabelSelector | None) -> Callable[[Pod], bool]:
    """The test of a pod's labels; without a selector no pod matches."""
    parsed = _parsed.of(selector) if selector is not None else None
    return lambda pod: parsed is not None and parsed.matches(pod.metadata.labels)


class _ParsedSelectors:
    """The selectors that were parsed last: each is asked about many pods.

    They are told apart as objects, which are frozen; one that is kept here keeps its identity.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[LabelSelector, LabelRequirements | None]] = OrderedDict()

    def of(self, selector: LabelSelector) -> LabelRequirements | None:
        found = self._kept.get(id(selector))
        if found is not None:
            return found[1]
        parsed = from_label_selector(to_body(selector))
        self._kept[id(selector)] = selector, parsed
        if len(self._kept) > PARSED_MAX:
            self._kept.popitem(last=False)
        return parsed


_parsed = _ParsedSelectors()


def claim(
    pods: Iterable[Pod],
    reference: OwnerReference,
    matches: Callable[[Pod], bool],
    *,
    settling: bool,
    finalizer: str = "",
) -> PodClaims:
    """Claim pods for an owner; without `settling` none is adopted or released.

    A finalizer is added to adopted pods and removed from released ones.
    """
    owned: list[Pod] = []
    patches: list[PatchObject] = []
    for pod in pods:
        controller = pod.metadata.controller
        if controller is not None and controller.uid != reference.uid:
            continue  # owned by another controller
        if controller is not None:
            if matches(pod):
                owned.append(pod)
            elif settling:
                patches.append(_patch(pod, _released(reference, finalizer)))
        elif settling and matches(pod) and not is_deleted(pod):
            patches.append(_patch(pod, _adopted(reference, finalizer)))
    return PodClaims(tuple(owned), tuple(patches))


def finalizer_removal(pod: Pod, finalizer: str) -> PatchObject:
    """Remove a finalizer; concurrent changes of the pod do not conflict with it."""
    return _patch(pod, {"$deleteFromPrimitiveList/finalizers": [finalizer]})


def _adopted(reference: OwnerReference, finalizer: str) -> Body:
    metadata: Body = {"ownerReferences": [to_body(reference)]}
    return {**metadata, "finalizers": [finalizer]} if finalizer else metadata


def _released(reference: OwnerReference, finalizer: str) -> Body:
    metadata: Body = {"ownerReferences": [{"$patch": "delete", "uid": reference.uid}]}
    if finalizer:
        metadata["$deleteFromPrimitiveList/finalizers"] = [finalizer]
    return metadata


def _patch(pod: Pod, metadata: Body) -> PatchObject:
    """A strategic patch, which changes single items of lists. The UID guards against a new pod of
    the same name.
    """
    body = {"metadata": {"uid": pod.metadata.uid, **metadata}}
    return PatchObject(PODS, pod.metadata.key, Patch(PatchKind.STRATEGIC, body))
