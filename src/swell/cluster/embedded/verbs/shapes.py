"""The shapes of bodies that are no stored kind: bindings, evictions, scales. Types only."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from swell.api.codec import convert
from swell.cluster.embedded import refusals


class _Shape(msgspec.Struct, rename="camel"):
    """null says nothing, anywhere: it is as if the field were not there."""


class _Metadata(_Shape):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, object]] | None = None


class _Target(_Shape):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class BindingShape(_Shape):
    kind: Literal["Binding", ""] | None = None
    api_version: Literal["v1", ""] | None = None
    metadata: _Metadata | None = None
    target: _Target | None = None


class _Preconditions(_Shape):
    uid: str | None = None
    resource_version: str | None = None


class _DeleteOptions(_Shape):
    preconditions: _Preconditions | None = None
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


class EvictionShape(_Shape):
    kind: Literal["Eviction", ""] | None = None
    api_version: Literal["policy/v1", "policy/v1beta1", ""] | None = None
    metadata: _Metadata | None = None
    delete_options: _DeleteOptions | None = None


class _ScaleSpec(_Shape):
    replicas: int | None = None


class _ScaleStatus(_Shape):
    replicas: int | None = None
    selector: str | None = None


class ScaleShape(_Shape):
    kind: Literal["Scale", ""] | None = None
    api_version: Literal["autoscaling/v1", ""] | None = None
    metadata: _Metadata | None = None
    spec: _ScaleSpec | None = None
    status: _ScaleStatus | None = None


def check_shape(body: object, shape: type[_Shape], verb: str) -> None:
    """Refuse a body whose fields are of other types."""
    try:
        convert(body, shape)
    except msgspec.ValidationError as error:
        raise refusals.not_of_kind(verb, str(error)) from error
