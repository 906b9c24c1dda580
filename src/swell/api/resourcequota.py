"""ResourceQuota: what a namespace may use, and what it uses, as the API server counts it."""

from __future__ import annotations

from swell.api.meta import ApiStruct, ObjectMeta
from swell.api.quantity import QuantityText


class ResourceQuotaSpec(ApiStruct, frozen=True):
    hard: dict[str, QuantityText] = {}


class ResourceQuotaStatus(ApiStruct, frozen=True):
    hard: dict[str, QuantityText] = {}
    used: dict[str, QuantityText] = {}


class ResourceQuota(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
    api_version: str = "v1"
    kind: str = "ResourceQuota"
