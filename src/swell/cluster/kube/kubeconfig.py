"""Reads kubeconfig files into an Access, and finds the service account inside a cluster.

Server, trust, token and client certificate are read here. A user entry with an exec plugin or an
auth provider is only checked: `credentials` logs in.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from swell.api import codec
from swell.api.meta import Body
from swell.cluster.kube.access import (
    Access,
    AccessError,
    ExecPlugin,
    KubeUser,
    ProviderLogin,
)

ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LISTS = ("clusters", "users", "contexts")


class _PluginVariable(msgspec.Struct):
    name: str
    value: str = ""


class _PluginEntry(msgspec.Struct, rename="camel"):
    """The `exec` part of a user."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_PluginVariable] | None = None
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    provide_cluster_info: bool = False


def read_kubeconfig(paths: Sequence[Path], context: str = "") -> Access:
    """Returns the access of a context in these files; of the current one if none is named.

    Several files are merged as kubectl merges them: the first mention of a name wins.
    """
    config, origin = _merged(paths)
    chosen = context or _text(config, "current-context")
    if not chosen:
        raise AccessError(f"{_where(paths)}: no current context; choose one with --context")
    entry = _named(config, "contexts", chosen, _where(paths))
    cluster_name, user_name = _text(entry, "cluster"), _text(entry, "user")
    cluster = _named(config, "clusters", cluster_name, _where(paths))
    user = _named(config, "users", user_name, _where(paths)) if user_name else {}
    if cluster.get("proxy-url"):
        raise AccessError(f"cluster {cluster_name!r}: proxy-url is not supported; remove it")
    folder = origin["clusters", cluster_name].parent
    server = _text(cluster, "server").rstrip("/")
    if not is_address(server):
        raise AccessError(f"cluster {cluster_name!r}: server {server!r} is no http(s) address")
    ca_pem = _material(cluster, "certificate-authority", folder)
    user_folder = origin["users", user_name].parent if user_name else folder
    return Access(
        server=server,
        user=_user(user, (cluster, ca_pem), ProviderLogin(config, chosen, user_folder)),
        context=chosen,
        namespace=_text(entry, "namespace") or "default",
        ca_pem=ca_pem,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=_text(cluster, "tls-server-name"),
    )


def in_cluster(environment: Mapping[str, str], account_dir: Path = ACCOUNT_DIR) -> Access | None:
    """Returns the access from within a pod; None when this process is in no pod."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    token_file = account_dir / "token"
    if not (host and port and token_file.exists()):
        return None
    namespace_file = account_dir / "namespace"
    namespace = namespace_file.read_text().strip() if namespace_file.exists() else "default"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        user=KubeUser(token_file=token_file),
        context="in-cluster",
        namespace=namespace,
        ca_pem=_read(account_dir / "ca.crt"),
    )


def _user(user: Body, cluster: tuple[Body, bytes], login: ProviderLogin) -> KubeUser:
    folder = login.folder
    if user.get("exec"):
        return KubeUser(source=_plugin(user["exec"], cluster, login))
    if user.get("auth-provider"):
        return KubeUser(source=login)
    if user.get("username"):
        raise AccessError(f"context {login.context!r}: name and password are not supported")
    token_file = _text(user, "tokenFile")
    return KubeUser(
        token=_text(user, "token"),
        token_file=folder / token_file if token_file else None,
        certificate_pem=_material(user, "client-certificate", folder),
        key_pem=_material(user, "client-key", folder),
    )


def _plugin(entry: object, cluster: tuple[Body, bytes], login: ProviderLogin) -> ExecPlugin:
    try:
        plugin = msgspec.convert(entry, _PluginEntry)
    except msgspec.ValidationError as error:
        raise AccessError(f"context {login.context!r}: its exec plugin: {error}") from error
    return ExecPlugin(
        context=login.context,
        folder=login.folder,
        command=plugin.command,
        api_version=plugin.api_version,
        arguments=tuple(plugin.args or ()),
        environment={one.name: one.value for one in plugin.env or ()},
        interactive_mode=plugin.interactive_mode,
        install_hint=" ".join(plugin.install_hint.split()),
        cluster=_cluster_info(*cluster) if plugin.provide_cluster_info else None,
    )


def _cluster_info(cluster: Body, ca_pem: bytes) -> Body:
    """A cluster as plugins are shown it: certificates are given, files are not named."""
    names = ("server", "insecure-skip-tls-verify", "tls-server-name")
    shown = {name: cluster[name] for name in names if cluster.get(name)}
    if ca_pem:
        shown["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    return shown


def _merged(paths: Sequence[Path]) -> tuple[Body, dict[tuple[str, str], Path]]:
    """Returns one kubeconfig made of several, and the file of each entry.

    Relative paths in an entry are relative to the folder of its file.
    """
    config: Body = {name: [] for name in _LISTS}
    origin: dict[tuple[str, str], Path] = {}
    found = [path for path in paths if path.exists()]
    if not found:
        raise AccessError(f"{_where(paths)}: no such file")
    for path in found:
        one = _parsed(path)
        config.setdefault("current-context", one.get("current-context"))
        for kind in _LISTS:
            for entry in one.get(kind) or []:
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise AccessError(f"{path}: {kind} has an entry without a name")
                if (kind, entry["name"]) not in origin:
                    origin[kind, entry["name"]] = path.absolute()
                    config[kind].append(entry)
    return config, origin


def _parsed(path: Path) -> Body:
    text = path.read_bytes()
    if text.lstrip().startswith(b"{"):
        try:
            config: object = codec.decode(text, dict)
        except (msgspec.DecodeError, RecursionError) as error:
            raise AccessError(f"{path}: not JSON: {error}") from error
    else:
        from swell.api.manifest.composer import ManifestSyntaxError
        from swell.api.manifest.yamldata import read_document

        try:
            config = read_document(text)
        except ManifestSyntaxError as error:
            raise AccessError(f"{path}: not YAML: line {error.line}: {error.message}") from error
    if not isinstance(config, dict) or not isinstance(config.get("clusters") or [], list):
        raise AccessError(f"{path}: not a kubeconfig")
    return config


def is_address(server: str) -> bool:
    """Whether a text is the http or https address of a server."""
    try:
        parts = urlsplit(server)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # from `port`, when it is no number
        return False


def _named(config: Body, kind: str, name: str, where: str) -> Body:
    """Returns the entry of that name: entries of `contexts` hold a `context`, and so on."""
    for entry in config[kind]:
        if entry["name"] == name:
            inner = entry.get(kind.removesuffix("s"))
            if inner is None or isinstance(inner, dict):
                return inner or {}
            raise AccessError(f"{where}: {kind} {name!r} is not an object")
    known = ", ".join(entry["name"] for entry in config[kind]) or "none"
    raise AccessError(f"{where}: {kind} has no {name!r} (there are: {known})")


def _material(owner: Body, name: str, folder: Path) -> bytes:
    """Returns a certificate or key: inline in base64, or from a file beside the kubeconfig."""
    inline, file = _text(owner, f"{name}-data"), _text(owner, name)
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except ValueError as error:  # binascii's own, or for letters that are not ASCII
            raise AccessError(f"{name}-data: not base64: {error}") from error
    return _read(folder / file) if file else b""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}") from error


def _text(owner: Body, name: str) -> str:
    value = owner.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise AccessError(f"{name} must be text, not {type(value).__name__}")
    return value


def _where(paths: Sequence[Path]) -> str:
    return os.pathsep.join(str(path) for path in paths)
