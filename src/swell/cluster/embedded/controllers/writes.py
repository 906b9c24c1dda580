"""The writes that controllers share: pods from a template, slow start, status patches.

The name of a pod ends in characters derived from a seed. The same seed gives the same names, so a
create whose answer was lost, or that was refused, is repeated under the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from swell.api.codec import to_body
from swell.api.kinds import PODS
from swell.api.meta import ApiStruct, Body, OwnerReference
from swell.api.pod import Pod
from swell.runtime.plan import Action, CreateObject, DeleteObject, Together

# Kubernetes' alphabet of generated names: without vowels, so that no words come out.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
# How far apart the suffixes of neighbouring positions are: the golden section of all suffixes, and
# no multiple of 3, so that no two positions of one seed have the same.
_STRIDE = 8_868_124
# A pod's name is used as a host name, which has 63 characters.
PREFIX_LENGTH_MAX = 63 - SUFFIX_LENGTH


def name_with_suffix(prefix: str, seed: int, position: int) -> str:
    """The name of a pod, in the form that an API server generates from a prefix.

    The names of one seed are different: among 500 drawn at random two would be the same in one of
    a hundred plans, which could not be carried out.
    """
    begin = int.from_bytes(blake2b(f"{seed}".encode(), digest_size=8).digest())
    number = begin + position * _STRIDE
    suffix = ""
    for _ in range(SUFFIX_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        suffix += ALPHABET[digit]
    return prefix[:PREFIX_LENGTH_MAX] + suffix


def pod_from_template(
    template: Body, reference: OwnerReference, namespace: str, prefix: str, name: str
) -> CreateObject:
    """The create of a pod with a template's spec, labels, annotations and finalizers."""
    given = template.get("metadata") or {}
    metadata: Body = {
        "name": name,
        "generateName": prefix,
        "namespace": namespace,
        "ownerReferences": [to_body(reference)],
    }
    for field in ("labels", "annotations", "finalizers"):
        if given.get(field):
            metadata[field] = given[field]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    return CreateObject(PODS, body)


def pod_deletion(pod: Pod) -> DeleteObject:
    return DeleteObject(PODS, pod.metadata.key, pod.metadata.uid)


# --- slow start ----------------------------------------------------------------------------------

FIRST_STEP = 1
# Kubernetes' limit of creates or deletes in one pass; a larger difference takes several.
BURST_MAX = 500


def slow_start(actions: Sequence[Action]) -> tuple[Together, ...]:
    """Group actions into steps of 1, 2, 4, 8 … of them.

    An error that concerns the first pod mostly concerns all: a plan stops at the first step that
    fails, so a quota or a bad template costs one refused request and not five hundred.
    """
    steps: list[Together] = []
    size, begin = FIRST_STEP, 0
    while begin < len(actions):
        steps.append(Together(tuple(actions[begin : begin + size])))
        begin += size
        size *= 2
    return tuple(steps)


# --- status patches ------------------------------------------------------------------------------


def status_patch(old: ApiStruct, new: ApiStruct) -> Body:
    """The merge patch that turns the old status into the new one; empty when they are equal.

    It names only fields of the struct, so that fields which others add to the status stay.
    """
    return _difference(to_body(old), to_body(new))


def _difference(old: Body, new: Body) -> Body:
    patch: Body = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            inner = _difference(before, value)
            if inner:
                patch[name] = inner
        elif name not in old or before != value:
            patch[name] = value
    return patch
