"""PodGroups of Kubernetes itself as children of a job: what all job kinds say in them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from swell.api.aitrainingjob import API_GROUP
from swell.api.kinds import NATIVE_GROUPS
from swell.api.meta import Body
from swell.api.native_groups import GROUP_MODE, GROUP_SCHEDULED, POD_MODE, NativeGroup
from swell.operator.framework.children import OwnerJob, controller_reference

QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
# The spec that was asked for. A server drops the fields of gates that are off, so the spec that it
# shows is not what the next one is compared with.
ASKED: Final = f"{API_GROUP}/asked-gang"
# Kueue's annotations about topology, and the one of them that such a group can say.
TOPOLOGY_PREFIX: Final = "kueue.x-k8s.io/podset-"
REQUIRED_TOPOLOGY: Final = f"{TOPOLOGY_PREFIX}required-topology"


def native_group_spec(
    least: int, *, is_elastic: bool, priority_class: str, topology_key: str
) -> Body:
    """The spec of the group of a job's minimum. An elastic job may lose single pods."""
    spec: Body = {
        "schedulingPolicy": {"gang": {"minCount": max(least, 1)}},
        "disruptionMode": POD_MODE if is_elastic else GROUP_MODE,
    }
    if priority_class:
        spec["priorityClassName"] = priority_class
    if topology_key:
        spec["schedulingConstraints"] = {"topology": [{"key": topology_key}]}
    return spec


def native_group_body(
    job: OwnerJob, name: str, spec: Body, *, queue: str, labels: Mapping[str, str]
) -> Body:
    """The whole group, owned by the job."""
    return {
        "apiVersion": NATIVE_GROUPS.api_version,
        "kind": NATIVE_GROUPS.kind,
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": dict(labels),
            "annotations": {ASKED: canonical(spec), QUEUE_ANNOTATION: queue},
            "ownerReferences": [controller_reference(job)],
        },
        "spec": spec,
    }


def canonical(spec: Body) -> str:
    """A text that is the same for equal specs."""
    return json.dumps(spec, sort_keys=True, separators=(",", ":"))


def why_native_waits(groups: Iterable[NativeGroup]) -> str:
    """The reason that a scheduler has written on such groups; empty if none waits."""
    found = (one for group in groups for one in group.status.conditions)
    refusals = (c.message for c in found if c.type == GROUP_SCHEDULED and c.status == "False")
    return next(refusals, "")
