"""Security contexts of pods and containers, and the namespaces of the host that a pod may share."""

from __future__ import annotations

import re
from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
SYSCTL_LENGTH_MAX = 253
HOST_NAMESPACES = ("hostIPC", "hostNetwork", "hostPID")

# MountOption is behind a gate that a real server has off.
SELINUX_POLICIES = ("Recursive",)


def pod_security_errors(context: Body, path: str) -> Iterator[FieldError]:
    policy = context.get("seLinuxChangePolicy", SELINUX_POLICIES[0])
    if policy not in SELINUX_POLICIES:
        yield field_errors.not_supported(f"{path}.seLinuxChangePolicy", policy, SELINUX_POLICIES)
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        yield from fields.id_errors(context.get(name, 0), f"{path}.{name}")
    for index, group in enumerate(context.get("supplementalGroups", ())):
        yield from fields.id_errors(group, f"{path}.supplementalGroups[{index}]")
    seen: set[str] = set()
    for index, sysctl in enumerate(context.get("sysctls", ())):
        name, where = sysctl.get("name", ""), f"{path}.sysctls[{index}].name"
        if name and (len(name) > SYSCTL_LENGTH_MAX or not SYSCTL.fullmatch(name)):
            yield field_errors.invalid(where, name, "is no name of a sysctl")
        elif name in seen:
            yield field_errors.duplicate(where, name)
        seen.add(name)
    yield from _shared_errors(context, path)


def container_security_errors(context: Body, path: str) -> Iterator[FieldError]:
    for field in ("runAsUser", "runAsGroup"):
        yield from fields.id_errors(context.get(field, 0), f"{path}.{field}")
    if context.get("allowPrivilegeEscalation") is False:
        added = context.get("capabilities", {}).get("add", ())
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield field_errors.invalid(path, context, detail)
        if "CAP_SYS_ADMIN" in added:
            detail = "cannot set `allowPrivilegeEscalation` to false and add CAP_SYS_ADMIN"
            yield field_errors.invalid(path, context, detail)
    yield from _shared_errors(context, path)


def host_namespace_errors(spec: Body, path: str) -> Iterator[FieldError]:
    """A pod with users of its own, or with one process namespace, cannot share the host's."""
    if spec.get("hostUsers") is False:
        for name in HOST_NAMESPACES:
            if spec.get(name):
                detail = "not allowed when `hostUsers` is set to false"
                yield field_errors.forbidden(f"{path}.{name}", detail)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        where = f"{path}.securityContext.shareProcessNamespace"
        yield field_errors.invalid(where, True, "may not be set together with `hostPID`")


def _shared_errors(context: Body, path: str) -> Iterator[FieldError]:
    """The parts that both kinds of context have."""
    profile, where = context.get("seccompProfile", {}), f"{path}.seccompProfile.localhostProfile"
    if profile.get("type") == "Localhost":
        if not profile.get("localhostProfile"):
            detail = "must be set when seccomp type is Localhost"
            yield field_errors.required(where, detail)
    elif "localhostProfile" in profile:
        detail = "can only be set when seccomp type is Localhost"
        yield field_errors.invalid(where, profile["localhostProfile"], detail)
    user = context.get("windowsOptions", {}).get("runAsUserName")
    if user == "":
        where = f"{path}.windowsOptions.runAsUserName"
        yield field_errors.invalid(where, user, "must not be an empty string")
