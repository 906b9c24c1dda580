"""The resource-claim controller for tests in virtual time, over all objects at a given pace.

Like that of Kubernetes it makes claims from templates, takes pods that are done off their claims,
frees a claim only when it has taken off the last one itself, and gives a bound pod that is missing
from its allocated claim its reservation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from swell.api.codec import to_body
from swell.api.devices import DELETE_PROTECTION, ConsumerReference, ResourceClaim
from swell.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod
from swell.cluster.embedded.controllers.pods import is_finished
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Deletion, merge_patch
from swell.runtime.errors import ClusterError

# What the controller manager notes in a claim that it has made: which entry of the pod it is for.
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


@dataclass(slots=True)
class ClaimActor:
    """Steps through all pods and claims again and again."""

    cluster: Cluster
    clock: Clock
    pace_s: Callable[[int], float] = lambda _: 0.05

    async def run(self) -> None:
        n_steps = 0
        while True:
            n_steps += 1
            await self.clock.sleep(self.pace_s(n_steps))
            await self.step()

    async def step(self) -> None:
        pods = {one.metadata.key: one for one in (await self.cluster.list(PODS)).items}
        claims = (await self.cluster.list(RESOURCE_CLAIMS)).items
        made = {
            (owner.uid, one.metadata.annotations.get(POD_CLAIM_NAME, "")): one.metadata.name
            for one in claims
            for owner in one.metadata.owner_references
        }
        for pod in pods.values():
            if not is_finished(pod) and pod.metadata.deletion_timestamp is None:
                with suppress(ClusterError):  # it has changed meanwhile: the next step looks again
                    await self._make_claims(pod, made)
        for claim in claims:
            with suppress(ClusterError):
                await self._settle(claim, pods)

    async def _make_claims(self, pod: Pod, made: dict[tuple[Uid, str], str]) -> None:
        known = {one.name for one in pod.status.resource_claim_statuses}
        meta, statuses = pod.metadata, []
        for entry in pod.spec.resource_claims:
            if not entry.resource_claim_template_name or entry.name in known:
                continue
            name = made.get((meta.uid, entry.name)) or await self._make(pod, entry.name)
            statuses.append({"name": entry.name, "resourceClaimName": name})
        if statuses:
            body: Body = {"status": {"resourceClaimStatuses": statuses}}
            patch = merge_patch({"metadata": {"uid": meta.uid}, **body})
            await self.cluster.patch(PODS.status, meta.key, patch)

    async def _make(self, pod: Pod, entry: str) -> str:
        wanted = next(one for one in pod.spec.resource_claims if one.name == entry)
        key = Key(pod.metadata.namespace, wanted.resource_claim_template_name or "")
        template = await self.cluster.get(RESOURCE_CLAIM_TEMPLATES, key)
        body: Body = {
            "apiVersion": RESOURCE_CLAIMS.api_version,
            "kind": RESOURCE_CLAIMS.kind,
            "metadata": {
                # A pod of the same name that came later has a claim of its own.
                "name": f"{pod.metadata.name}-{entry}-{pod.metadata.uid[-5:]}",
                "namespace": pod.metadata.namespace,
                "annotations": {POD_CLAIM_NAME: entry},
                "ownerReferences": [_owner(pod)],
            },
            "spec": template.spec["spec"],
        }
        await self.cluster.create(RESOURCE_CLAIMS, body)
        name: str = body["metadata"]["name"]
        return name

    async def _settle(self, claim: ResourceClaim, pods: dict[Key, Pod]) -> None:
        meta, status = claim.metadata, claim.status
        owners = {one.uid for one in meta.owner_references}
        owner = next((pod for pod in pods.values() if pod.metadata.uid in owners), None)
        if owners and (owner is None or is_finished(owner)) and meta.deletion_timestamp is None:
            # The garbage collector would do the first; the second is this controller's.
            await self.cluster.delete(RESOURCE_CLAIMS, meta.key, Deletion(uid=meta.uid))
            return
        users = [pod for pod in pods.values() if _uses(pod, claim)]
        kept = [
            one
            for one in status.reserved_for
            if any(pod.metadata.uid == one.uid and not is_finished(pod) for pod in users)
        ]
        missing = [
            pod
            for pod in users
            if pod.spec.node_name
            and not is_finished(pod)
            and status.allocation is not None
            and all(one.uid != pod.metadata.uid for one in status.reserved_for)
        ]
        if len(kept) < len(status.reserved_for) or missing:
            await self._write(claim, list(_references(kept, missing)))
        elif status.allocation is None and meta.deletion_timestamp is not None:
            finalizers = [one for one in meta.finalizers if one != DELETE_PROTECTION]
            note = {"resourceVersion": meta.resource_version, "finalizers": finalizers}
            patch = merge_patch({"metadata": note})
            await self.cluster.patch(RESOURCE_CLAIMS, meta.key, patch)

    async def _write(self, claim: ResourceClaim, reserved: list[Body]) -> None:
        status: Body = {"reservedFor": reserved}
        if not reserved:
            status = {"reservedFor": None, "allocation": None}
        meta = claim.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        await self.cluster.patch(RESOURCE_CLAIMS.status, meta.key, merge_patch(body))


def _uses(pod: Pod, claim: ResourceClaim) -> bool:
    if pod.metadata.namespace != claim.metadata.namespace:
        return False
    owner = claim.metadata.controller
    if owner is not None and owner.uid == pod.metadata.uid:
        return True  # made by a template, or for extended resources
    made = {one.resource_claim_name for one in pod.status.resource_claim_statuses}
    named = {one.resource_claim_name for one in pod.spec.resource_claims}
    return claim.metadata.name in made | named


def _owner(pod: Pod) -> Body:
    return {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _references(kept: list[ConsumerReference], missing: list[Pod]) -> Iterator[Body]:
    yield from (to_body(one) for one in kept)
    for pod in missing:
        yield {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
