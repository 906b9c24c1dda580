"""ConfigMaps and Secrets: keys, sizes, known types, and immutable objects."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

BYTES_MAX = 1024 * 1024  # Kubernetes' limit of the data of one object
TYPED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
JSON_KEYS = (".dockercfg", ".dockerconfigjson")
BASIC_AUTH_KEYS = ("username", "password")
SERVICE_ACCOUNT = "kubernetes.io/service-account.name"


def config_map_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    data, binary = new.get("data", {}), new.get("binaryData", {})
    for name, entries in (("data", data), ("binaryData", binary)):
        for key in entries:
            yield from fields.config_key_errors(key, f"{name}[{key}]")
    for key in data:
        if key in binary:
            detail = "duplicate of key present in binaryData"
            yield field_errors.invalid(f"data[{key}]", key, detail)
    n_bytes = sum(len(value.encode("utf-8", "replace")) for value in data.values())
    if n_bytes + _n_decoded(binary) > BYTES_MAX:
        yield field_errors.too_long("[]", BYTES_MAX)  # kube-apiserver names no field here
    yield from _immutable_errors(new, old, ("data", "binaryData"))


def _n_decoded(entries: dict[str, str]) -> int:
    # Four characters of base64 are three bytes, less the padding.
    return sum(len(value) * 3 // 4 - value.count("=") for value in entries.values())


def _immutable_errors(new: Body, old: Body | None, names: tuple[str, ...]) -> Iterator[FieldError]:
    if old is None or not old.get("immutable"):
        return
    detail = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield field_errors.forbidden("immutable", detail)
    for name in names:
        if new.get(name) != old.get(name):
            yield field_errors.forbidden(name, detail)


def default_secret(secret: Body) -> None:
    """Move stringData into data, encoded."""
    texts = secret.pop("stringData", {})
    if texts:
        data = secret.setdefault("data", {})
        for key, value in texts.items():
            data[key] = base64.b64encode(value.encode("utf-8", "replace")).decode()


def secret_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    data = new.get("data", {})
    for key in data:
        yield from fields.config_key_errors(key, f"data[{key}]")
    if _n_decoded(data) > BYTES_MAX:
        yield field_errors.too_long("data", BYTES_MAX)
    yield from _type_errors(new, data)
    if old is not None:
        yield from fields.immutable(new.get("type"), old.get("type"), "type")
    yield from _immutable_errors(new, old, ("data",))


def _type_errors(secret: Body, data: dict[str, str]) -> Iterator[FieldError]:
    kind = secret.get("type", "")
    for key in TYPED_KEYS.get(kind, ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            yield field_errors.required(f"data[{key}]")
        elif key in JSON_KEYS and not _is_json_object(data[key]):
            yield field_errors.invalid(
                f"data[{key}]", "<secret contents redacted>", "no JSON object"
            )
    if kind == "kubernetes.io/basic-auth" and not any(key in data for key in BASIC_AUTH_KEYS):
        for key in BASIC_AUTH_KEYS:
            yield field_errors.required(f"data[{key}]")
    if kind == "kubernetes.io/service-account-token":
        annotations = secret["metadata"].get("annotations", {})
        if not annotations.get(SERVICE_ACCOUNT):
            yield field_errors.required(f"metadata.annotations[{SERVICE_ACCOUNT}]")


def _is_json_object(encoded: str) -> bool:
    try:
        return isinstance(json.loads(base64.b64decode(encoded)), dict)
    except ValueError:
        return False


CONFIG_MAPS = Behaviour(errors=config_map_errors)
SECRETS = Behaviour(default=default_secret, errors=secret_errors)
