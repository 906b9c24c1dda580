"""Answers the plain forms of `swell get` with nothing loaded but the standard library.

A command line of another form, a cluster that is not reached by a token in one JSON kubeconfig, and
any answer that is not a table are left to `objects.get`, which reads anew and has the sentences for
what is wrong. Nothing is printed before everything has been read, so the output is that of one of
the two, and tests hold both to the same text.
"""

from __future__ import annotations

import fcntl
import os
import sys

from swell.cli.command_line import note
from swell.cli.output import aligned, is_any_waiting, shown_rows, with_positions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# The kinds of `api.kinds.ALL` whose rows need no sorting: kind, path, whether they have namespaces,
# and the names they are asked for by. A test holds them equal.
_OURS, _SHARED = "/apis/elasticdeeplearning.ai/v1", "/apis/scheduling.volcano.sh/v1beta1"
KINDS: tuple[tuple[str, str, bool, tuple[str, ...]], ...] = (
    ("aitrainingjob", f"{_OURS}/aitrainingjobs", True, ("aitrainingjobs", "aitj")),
    ("trainingjob", "/apis/paddlepaddle.org/v1/trainingjobs", True, ("trainingjobs", "tj")),
    ("podgroup", f"{_SHARED}/podgroups", True, ("podgroups", "pg", "podgroup-v1beta1")),
    ("queue", f"{_SHARED}/queues", False, ("queues", "q", "queue-v1beta1")),
    ("hypernode", "/apis/topology.volcano.sh/v1alpha1/hypernodes", False, ("hypernodes", "hn")),
    ("pod", "/api/v1/pods", True, ("pods", "po")),
    ("node", "/api/v1/nodes", False, ("nodes", "no")),
    ("namespace", "/api/v1/namespaces", False, ("namespaces", "ns")),
    ("service", "/api/v1/services", True, ("services", "svc")),
    ("configmap", "/api/v1/configmaps", True, ("configmaps", "cm")),
    ("secret", "/api/v1/secrets", True, ("secrets",)),
    ("replicaset", "/apis/apps/v1/replicasets", True, ("replicasets", "rs")),
)
_BY_NAME = {name: kind for kind in reversed(KINDS) for name in (kind[0], *kind[3])}
_ANY_JOB = {"job", "jobs"}
_JOBS = KINDS[:2]
_VALUES = {
    "-n": "namespace",
    "--namespace": "namespace",
    "-o": "output",
    "--output": "output",
    "-l": "labels",
    "--selector": "labels",
    "--kubeconfig": "kubeconfig",
}
_SWITCHES = {
    "-A": "everywhere",
    "--all-namespaces": "everywhere",
    "--no-headers": "no_headers",
    "--show-labels": "show_labels",
    "--embedded": "embedded",
}
# Asks for a Table as kubectl does.
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
# As for every other command, from `cluster.kube.policy`, whose import this file does without.
_CONNECT_S, _ANSWER_S = 10.0, 30.0
_PIECE_BYTES = 64 << 10
# The scopes that need no look whether they exist: all namespaces, and one that no server deletes.
_ALWAYS_THERE = {"", "default"}
# All that reading a file or an answer of an unexpected form raises; ssl.SSLError is an OSError.
_UNEXPECTED = (OSError, ValueError, LookupError, TypeError, AttributeError)


class QuickGet:
    """One command line that can be answered here."""

    def __init__(self, arguments: Sequence[str], flags: Mapping[str, str]) -> None:
        self._flags = flags
        first = arguments[0].lower() if arguments else ""
        self._names = tuple(arguments[1:])
        self._kinds = _JOBS if not arguments or first in _ANY_JOB else (_BY_NAME[first],)
        # Where no kind was written, rows of two kinds need none either.
        self._has_kinds = bool(arguments) and len(self._kinds) > 1

    def answer(self, environ: Mapping[str, str]) -> int | None:
        """Print the tables that were asked for; None, and nothing printed, if that takes more."""
        try:
            access = _access(self._flags, environ)
            if access is None:
                return None
            scope = self._scope(access)
            with QuickClient(access) as client:
                shown = self._rows([client.read(path) for path in self._paths(scope)])
                if not shown and scope not in _ALWAYS_THERE:
                    client.read(f"/api/v1/namespaces/{scope}")
        except _UNEXPECTED:
            return None
        if shown:
            sys.stdout.write("\n\n".join(map(aligned, shown)) + "\n")
        else:
            note(f"nothing found in namespace {scope}" if scope else "nothing found in the cluster")
        return 0

    def _paths(self, scope: str) -> list[str]:
        query = ""
        if labels := self._flags.get("labels"):
            from urllib.parse import urlencode

            query = "?" + urlencode({"labelSelector": labels})
        collections = [
            _scoped(path, scope) if is_namespaced else path
            for _, path, is_namespaced, _ in self._kinds
        ]
        if self._names:
            return [f"{collections[0]}/{_plain(name)}" for name in self._names]
        return [path + query for path in collections]

    def _scope(self, access: TokenAccess) -> str:
        """Return the namespace that is looked in; empty for all, and for kinds without one."""
        if "everywhere" in self._flags or not self._kinds[0][2]:
            return ""
        return _plain(self._flags.get("namespace") or access.namespace)

    def _rows(self, tables: Sequence[dict[str, Any]]) -> list[list[list[str]]]:
        """Return the tables that have rows; those of several names are one."""
        pages = [self._shown(at, table) for at, table in enumerate(tables)]
        if self._names:
            pages = [[*pages[0], *(row for page in pages[1:] for row in page[1:])]]
        first = 1 if "no_headers" in self._flags else 0
        return [page[first:] for page in pages if len(page) > 1]

    def _shown(self, at: int, table: dict[str, Any]) -> list[list[str]]:
        shown = self._kinds[0 if self._names else at]
        kind, _, is_namespaced, _ = shown
        if "output" in self._flags and shown in _JOBS:
            if is_any_waiting(table):
                raise LookupError("its position in the queue takes the scheduler's rules")
            table = with_positions(table, [None] * len(table.get("rows") or ()))
        return shown_rows(
            table,
            wide="output" in self._flags,
            with_namespace="everywhere" in self._flags and is_namespaced,
            with_labels="show_labels" in self._flags,
            kind=kind if self._has_kinds else "",
        )


def try_get(arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Run `swell get` with these arguments; None, with nothing done, if it is not a plain one."""
    found = parse(arguments)
    return found.answer(environ) if found is not None else None


def parse(arguments: Sequence[str]) -> QuickGet | None:
    """Parse the arguments of `get`; None unless all of them are known here and go together."""
    plain: list[str] = []
    flags: dict[str, str] = {}
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if word in _SWITCHES:
            flags[_SWITCHES[word]] = "true"
        elif name in _VALUES and (not equals or name.startswith("--")):
            value = value if equals else next(rest, "-")
            if not value or value.startswith("-"):
                return None
            flags[_VALUES[name]] = value
        elif word.startswith("-") or not word:
            return None
        else:
            plain.append(word)
    if plain and plain[0].lower() not in {*_BY_NAME, *_ANY_JOB}:
        return None
    is_any_job = not plain or plain[0].lower() in _ANY_JOB
    has_names = len(plain) > 1
    if has_names and (is_any_job or "everywhere" in flags or "labels" in flags):
        return None
    if flags.get("output", "wide") != "wide":
        return None
    # Nodes have columns then that take more than the server's table.
    if "output" in flags and plain and _BY_NAME.get(plain[0].lower(), ("",))[0] == "node":
        return None
    return QuickGet(plain, flags)


class TokenAccess:
    """The server, the token and the namespace of a kubeconfig's current context."""

    def __init__(self, config: dict[str, Any]) -> None:
        context = _named(config, "context", config["current-context"])
        cluster = _named(config, "cluster", context["cluster"])
        user = _named(config, "user", context["user"])
        # Whatever else is said there is for the client that knows all of it.
        if cluster.keys() - {"server", "certificate-authority-data"} or user.keys() != {"token"}:
            raise ValueError("more than an address and a token")
        self.namespace: str = context.get("namespace") or "default"
        self.token = str(user["token"])
        self.authority: str = cluster["certificate-authority-data"]
        scheme, _, self.place = cluster["server"].partition("://")
        self.host, _, port = self.place.partition(":")
        self.port = int(port)
        if scheme != "https" or not self.host.replace(".", "").isalnum() or "\n" in self.token:
            raise ValueError("not the form that servers of ours are written in")


def _named(config: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in config[f"{kind}s"] if one["name"] == name)[kind]
    return found


def _access(flags: Mapping[str, str], environ: Mapping[str, str]) -> TokenAccess | None:
    file = kubeconfig_file(flags, environ)
    if file is None:
        return None
    import json

    with open(file, "rb") as opened:  # noqa: PTH123 - pathlib is slow to load
        return TokenAccess(json.loads(opened.read()))


def kubeconfig_file(flags: Mapping[str, str], environ: Mapping[str, str]) -> str | None:
    """Return the kubeconfig that `choice` would choose; None where that takes a closer look."""
    if flags.get("kubeconfig"):
        return flags["kubeconfig"]
    user_home = os.path.expanduser("~")  # noqa: PTH111 - as above
    home = environ.get("SWELL_HOME") or f"{user_home}/.local/state/swell"
    embedded = f"{home}/kubeconfig"
    is_running = _is_locked(f"{home}/lock")
    if "embedded" in flags or environ.get("SWELL_HOME"):
        return embedded if is_running else None
    config = environ.get("XDG_CONFIG_HOME") or f"{user_home}/.config"
    saved = _saved(f"{config}/swell/cluster.json")
    if saved is not None and saved.keys() - {"is_by_user"}:
        return None
    named = environ.get("KUBECONFIG") or ""
    if is_running:
        is_meant = saved is not None and saved.get("is_by_user", True)
        return embedded if is_meant or named in {"", embedded} else None
    is_other = saved is None and named and os.pathsep not in named and named != embedded
    return named if is_other else None


def _saved(path: str) -> dict[str, Any] | None:
    import json

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            saved: dict[str, Any] = json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
    return saved


def _is_locked(path: str) -> bool:
    """Whether a process holds the lock of a state folder, as `cluster.home` asks it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class QuickClient:
    """A connection on which reads are sent one after the other. It raises `_UNEXPECTED` errors."""

    def __init__(self, access: TokenAccess) -> None:
        import socket
        import ssl
        from base64 import b64decode

        trust = ssl.create_default_context(cadata=b64decode(access.authority).decode())
        host = access.host.encode("ascii")  # as text it would load the names of all languages
        with socket.socket() as plain:  # securing takes the descriptor over, and leaves none here
            plain.settimeout(_CONNECT_S)
            plain.connect((host, access.port))
            self._connection = trust.wrap_socket(plain, server_hostname=host)
        self._connection.settimeout(_ANSWER_S)
        self._headers = f"Host: {access.place}\r\nUser-Agent: swell\r\nAccept: {_TABLE}\r\n"
        self._headers += f"Authorization: Bearer {access.token}\r\n"

    def __enter__(self) -> QuickClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def read(self, path: str) -> dict[str, Any]:
        """Return the object at a path; ValueError for an answer that is no plain success."""
        import json

        self._connection.sendall(f"GET {path} HTTP/1.1\r\n{self._headers}\r\n".encode("ascii"))
        seen = self._received()
        while b"\r\n\r\n" not in seen:
            seen += self._received()
        head, _, body = seen.partition(b"\r\n\r\n")
        first, *lines = head.lower().split(b"\r\n")
        headers = dict(line.partition(b":")[::2] for line in lines)
        # A warning is for people to read.
        if not first.startswith(b"http/1.1 200 ") or b"warning" in headers:
            raise ValueError(first)
        if headers.get(b"transfer-encoding", b"").strip() == b"chunked":
            body = self._unchunked(body)  # as an answer of more than 256 KiB comes
        else:
            body = self._at_least(body, int(headers[b"content-length"]))
        found = json.loads(body)
        if not isinstance(found, dict):
            raise ValueError("no object")
        return found

    def _unchunked(self, seen: bytes) -> bytes:
        """Return a body that comes in chunks. Chunked bodies with trailers are refused."""
        pieces: list[bytes] = []
        while True:
            while b"\r\n" not in seen:
                seen += self._received()
            line, _, seen = seen.partition(b"\r\n")
            length = int(line.partition(b";")[0], 16)
            seen = self._at_least(seen, length + 2)
            if seen[length : length + 2] != b"\r\n":
                raise ValueError("no end of a chunk")
            if not length:
                return b"".join(pieces)
            pieces.append(seen[:length])
            seen = seen[length + 2 :]

    def _at_least(self, seen: bytes, n_bytes: int) -> bytes:
        """Return what has been received, of which there are so many bytes."""
        pieces, n_received = [seen], len(seen)
        while n_received < n_bytes:
            pieces.append(self._received())
            n_received += len(pieces[-1])
        return b"".join(pieces)

    def _received(self) -> bytes:
        piece = self._connection.recv(_PIECE_BYTES)
        if not piece:
            raise ValueError("the connection has ended")
        return piece


def _scoped(path: str, namespace: str) -> str:
    root, _, plural = path.rpartition("/")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else path


def _plain(name: str) -> str:
    """Return a name that needs no quoting in a path; ValueError for any other."""
    if not name.replace("-", "").replace(".", "").isalnum() or not name.isascii():
        raise ValueError(f"{name!r} is no plain name")
    return name
