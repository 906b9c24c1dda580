"""Namespaces, as far as their life matters to what lives in them."""

from __future__ import annotations

from swell.api.meta import ApiStruct, Condition, ObjectMeta


class NamespaceSpec(ApiStruct, frozen=True):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(ApiStruct, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()
    api_version: str = "v1"
    kind: str = "Namespace"
