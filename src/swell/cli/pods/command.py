"""The commands `swell exec`, `cp` and `port-forward`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from swell.api.kinds import PODS
from swell.api.meta import Body, Key
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.connection import ClusterConnection, connected
from swell.cli.job_kinds import find_job, parse_job_name
from swell.cli.jobs.job_pods import pod_selector, replica_of
from swell.cli.options import ClusterOptions, option_groups
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection
from swell.runtime.errors import NotFoundError

if TYPE_CHECKING:
    from swell.cli.invocation import Invocation

R = TypeVar("R")

Container = Annotated[
    str, typer.Option("-c", "--container", metavar="NAME", help="Container; the only one.")
]
PodArgument = Annotated[
    str, typer.Argument(metavar="POD", help="A pod; or a job, whose first running pod is taken.")
]


@option_groups
def execute(
    invoked: typer.Context,
    pod: PodArgument,
    *,
    container: Container = "",
    stdin: Annotated[bool, typer.Option("-i", "--stdin", help="Hand standard input on.")] = False,
    tty: Annotated[bool, typer.Option("-t", "--tty", help="Give it a terminal.")] = False,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Run a command in a container of a pod: swell exec -it fit-trainer-0 -- sh

    It has the container's variables, folder, user and limits, and ends as the command ends.
    """
    from swell.cli.pods.execution import RemoteCommand, raw_terminal, run_remote, standard_input

    invocation: Invocation = invoked.obj
    if not invocation.command:
        raise CommandError("say which command", f"for example: swell exec {pod} -- ls", USAGE)
    is_terminal = tty and stdin and sys.stdin.isatty()
    if tty and not is_terminal:
        note("standard input is no terminal, so that the command gets none")
    with connected(cluster, writes=True) as connection:
        key = _pod_of(connection, connection.namespace(namespace), pod)
        command = RemoteCommand(key, container, tuple(invocation.command), stdin, is_terminal)
        with raw_terminal() if is_terminal else contextlib.nullcontext():
            code = _run(
                connection,
                run_remote(
                    connection.access,
                    command,
                    pieces=standard_input() if stdin else None,
                    stdout=_write_to(sys.stdout.buffer),
                    stderr=_write_to(sys.stderr.buffer),
                ),
            )
    raise typer.Exit(code)


@option_groups
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="PATH, or POD:PATH.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="POD:PATH, or PATH.")],
    *,
    container: Container = "",
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Copy files and folders to and from a container, which has to have tar."""
    from swell.cli.pods.copying import download, parse_place, upload
    from swell.cli.pods.execution import RemoteCommand

    with connected(cluster, writes=True) as connection:
        scope = connection.namespace(namespace)
        (from_pod, from_path), (to_pod, to_path) = (
            parse_place(text, scope) for text in (source, target)
        )
        if (from_pod is None) == (to_pod is None):
            hint = "for example: swell cp fit-trainer-0:/tmp/model.pt ."
            raise CommandError("one side has to be a pod's, the other this machine's", hint, USAGE)
        asked = from_pod or to_pod
        if asked is None:
            raise AssertionError("one of the two sides is a pod's")
        key = _pod_of(connection, asked.namespace, asked.name)
        command = RemoteCommand(key, container, ())
        access = connection.access
        if to_pod is not None:
            _run(connection, upload(access, command, Path(from_path), to_path))
        else:
            _run(connection, download(access, command, from_path, Path(to_path)))


@option_groups
def port_forward(
    pod: PodArgument,
    ports: Annotated[
        list[str], typer.Argument(metavar="[LOCAL:]REMOTE...", help="Ports; :80 takes a free one.")
    ],
    *,
    address: Annotated[str, typer.Option("--address", help="Where to listen.")] = "127.0.0.1",
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Let local ports lead to ports of a pod, until Ctrl-C."""
    from swell.cli.pods.forwarding import forward, parse_ports

    pairs = parse_ports(ports)
    with connected(cluster, writes=True) as connection:
        key = _pod_of(connection, connection.namespace(namespace), pod)

        def ready(local: int, remote: int) -> None:
            sys.stdout.write(f"Forwarding from {address}:{local} -> {remote}\n")
            sys.stdout.flush()

        _run(connection, forward(connection.access, key, pairs, address, ready))


def _pod_of(connection: ClusterConnection, namespace: str, name: str) -> Key:
    """Return the pod of this name, or the first running one of the job of this name."""
    kind, slash, rest = name.partition("/")
    is_pod = not slash or kind.lower() in {"pod", "pods", "po"}
    key = Key(namespace, rest if slash else name)
    if is_pod:
        try:
            connection.client.send(calls.get(PODS.untyped(), key))
        except NotFoundError:
            if slash:
                raise
        else:
            return key
    job = find_job(connection, namespace, parse_job_name(name))
    if job is None:
        message = f"no pod and no job {key.name} in namespace {namespace}"
        raise CommandError(message, "see: swell get pods")
    selection = Selection(namespace, pod_selector(job))
    found = connection.client.send(calls.list_page(PODS.untyped(), selection)).items
    running = [pod for pod in found if replica_of(job, pod) is not None and _is_running(pod)]
    if not running:
        raise CommandError(f"no pod of {key.name} runs", f"see: swell describe {key.name}")
    first = min(running, key=lambda pod: str(pod["metadata"]["name"]))["metadata"]["name"]
    note(f"pod: {first}")
    return Key(namespace, first)


def _is_running(pod: Body) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


def _run(connection: ClusterConnection, work: Coroutine[Any, Any, R]) -> R:
    """Run asynchronous work; a stream that was refused is explained as its server does."""
    import aiohttp

    from swell.cli.pods.sockets import StreamRefusedError, explain_refusal

    try:
        return asyncio.run(work)
    except StreamRefusedError as error:
        raise explain_refusal(connection, error) from error
    except aiohttp.ClientError as error:
        raise CommandError(f"cannot reach {connection.access.server}: {error}") from error


def _write_to(stream: Any) -> Any:
    def write(piece: bytes) -> None:
        stream.write(piece)
        stream.flush()

    return write
