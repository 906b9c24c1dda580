"""AITrainingJobs to submit, and what their hollow pods do. The checks are elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body
from swell.node.hollow import PREFIX
from swell.node.nodes import HOSTNAME_LABEL

# Nodes that belong to one scenario alone carry this taint, so that no other pod comes near them.
OWN_NODES = "e2e/own"
GRACE_S = 1
PRIORITY_CLASS, PRIORITY = "e2e-high", 1000


def pods(
    n: int,
    /,
    *,
    gpu: bool = False,
    grace_s: int = GRACE_S,
    does: Mapping[str, str] | None = None,
    **fields: object,
) -> Body:
    """A role of n pods with these fields of a replica spec; `does` is their hollow scenario."""
    container: Body = {
        "name": "aitj-main",
        "image": "local",
        "ports": [{"name": "aitj-2222", "containerPort": 2222}],
        "resources": {"requests": {"cpu": "600m", "memory": "64Mi"}},
    }
    if gpu:
        container["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    annotations = {PREFIX + name.replace("_", "-"): text for name, text in (does or {}).items()}
    return {
        "replicas": n,
        **fields,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {"terminationGracePeriodSeconds": grace_s, "containers": [container]},
        },
    }


def job(roles: Mapping[str, Body], /, **spec: object) -> Body:
    """The spec of a job."""
    return {**spec, "replicaSpecs": dict(roles)}


def manifest(name: str, namespace: str, spec: Body, nodes: Sequence[str] = ()) -> Body:
    """A job as a user writes it, its pods confined to some nodes if any are named."""
    roles: dict[str, Body] = spec["replicaSpecs"]
    placed = {role: _confined(own, nodes) for role, own in roles.items()} if nodes else roles
    return {
        "apiVersion": AI_TRAINING_JOBS.api_version,
        "kind": AI_TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "replicaSpecs": placed},
    }


def _confined(role: Body, nodes: Sequence[str]) -> Body:
    here = {"key": HOSTNAME_LABEL, "operator": "In", "values": list(nodes)}
    required = {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    template = role["template"]
    spec = {
        **template["spec"],
        "affinity": affinity,
        "tolerations": [{"key": OWN_NODES, "operator": "Exists"}],
    }
    return {**role, "template": {**template, "spec": spec}}
