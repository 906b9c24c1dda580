"""Services: how pods of a job find each other by name."""

from __future__ import annotations

import msgspec

from swell.api.meta import ApiStruct, ObjectMeta


class ServicePort(ApiStruct, frozen=True):
    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    target_port: int | str | None = None


class ServiceSpec(ApiStruct, frozen=True):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    type: str = ""


class Service(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    api_version: str = "v1"
    kind: str = "Service"
