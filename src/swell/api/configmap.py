"""ConfigMaps: the members of a job as its pods read them, and the node agent's volumes."""

from __future__ import annotations

from swell.api.meta import ApiStruct, ObjectMeta


class ConfigMap(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool = False
    api_version: str = "v1"
    kind: str = "ConfigMap"
