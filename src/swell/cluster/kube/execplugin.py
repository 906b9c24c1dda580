"""Runs the exec plugin of a kubeconfig user, and reads the credential that it prints.

The protocol is that of client.authentication.k8s.io: the plugin finds the question in a variable,
talks to the person on stderr, and prints one ExecCredential.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from swell.api.times import parse_time
from swell.cluster.kube.access import AccessError, ExecPlugin

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from swell.api.meta import Body

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
# A plugin that may ask a person is waited for; one that may not has this long.
ANSWER_S = 60.0
ANSWER_BYTES_MAX = 1 << 20


class PluginCredential(NamedTuple):
    """A token, or a certificate with its key, and when it ends if that was said (Unix time)."""

    token: str
    certificate_pem: bytes
    key_pem: bytes
    expires_at: float | None


async def ask(plugin: ExecPlugin) -> PluginCredential:
    """Run a plugin to its end and return what it printed. Raises AccessError, with its words."""
    if plugin.api_version not in API_VERSIONS:
        said = f"its exec plugin speaks {plugin.api_version!r}, not {' or '.join(API_VERSIONS)}"
        raise _error(plugin, said)
    is_interactive = plugin.interactive_mode != "Never" and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not is_interactive:
        raise _error(plugin, f"its exec plugin {plugin.command!r} needs a terminal")
    question = {
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": {
            "interactive": is_interactive,
            **({"cluster": plugin.cluster} if plugin.cluster is not None else {}),
        },
    }
    environment = {"KUBERNETES_EXEC_INFO": json.dumps(question)}
    try:
        process = await asyncio.create_subprocess_exec(
            _path(plugin),
            *plugin.arguments,
            env={**os.environ, **plugin.environment, **environment},
            stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        said = f"its exec plugin {plugin.command!r} cannot be started: {error.strerror}{hint}"
        raise _error(plugin, said) from error
    printed = await _answer(plugin, process, None if is_interactive else ANSWER_S)
    return _read(plugin, printed)


def _path(plugin: ExecPlugin) -> str:
    """The program: with a slash in it relative to the kubeconfig, else one of the PATH."""
    has_folder = os.sep in plugin.command
    return str(plugin.folder / plugin.command) if has_folder else plugin.command


async def _answer(plugin: ExecPlugin, process: Process, within_s: float | None) -> bytes:
    assert process.stdout is not None  # noqa: S101 - it was asked for
    printed = b""
    try:
        async with asyncio.timeout(within_s):
            while part := await process.stdout.read(1 << 16):
                printed += part
                if len(printed) > ANSWER_BYTES_MAX:
                    raise _error(plugin, f"its exec plugin {plugin.command!r} prints too much")
            code = await process.wait()
    except TimeoutError as error:
        said = f"its exec plugin {plugin.command!r} did not end within {within_s:.0f} s"
        raise _error(plugin, said) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code:
        raise _error(plugin, f"its exec plugin {plugin.command!r} ended with code {code}")
    return printed


def _read(plugin: ExecPlugin, printed: bytes) -> PluginCredential:
    """Check a plugin's answer; nothing of it is shown, since it holds a secret."""
    try:
        answer: Body = json.loads(printed)
        kind = answer["apiVersion"], answer["kind"]
        status: Body = answer.get("status") or {}
        credential = PluginCredential(
            token=str(status.get("token") or ""),
            certificate_pem=str(status.get("clientCertificateData") or "").encode(),
            key_pem=str(status.get("clientKeyData") or "").encode(),
            expires_at=_seconds(status.get("expirationTimestamp")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = f"its exec plugin {plugin.command!r} printed no ExecCredential"
        raise _error(plugin, said) from error
    if kind != (plugin.api_version, "ExecCredential"):
        said = f"its exec plugin {plugin.command!r} printed {kind[1]} of {kind[0]}"
        raise _error(plugin, f"{said}, not ExecCredential of {plugin.api_version}")
    if bool(credential.certificate_pem) != bool(credential.key_pem):
        raise _error(plugin, "its exec plugin gave a certificate or a key, and not both")
    if not credential.token and not credential.certificate_pem:
        raise _error(plugin, "no credentials came of its login")
    return credential


def _seconds(text: str | None) -> float | None:
    return parse_time(text) if text else None


def _error(plugin: ExecPlugin, said: str) -> AccessError:
    return AccessError(f"context {plugin.context!r}: {said}")
