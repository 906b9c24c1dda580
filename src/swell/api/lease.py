"""Leases: who leads, and which nodes are alive."""

from __future__ import annotations

from swell.api.meta import ApiStruct, ObjectMeta


class LeaseSpec(ApiStruct, frozen=True):
    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
