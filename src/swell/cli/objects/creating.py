"""The command `swell create`: objects from manifests, and small ones from the command line."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from swell.api.kinds import CONFIG_MAPS, NAMESPACES, PRIORITY_CLASSES, SECRETS
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import connected
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import kind_and_name
from swell.cli.queue.command import create as create_queue
from swell.cluster.kube import calls

app = typer.Typer(help="Create objects.", invoke_without_command=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the new object.")]
Literals = Annotated[
    list[str] | None, typer.Option("--from-literal", metavar="KEY=VALUE", help="A key's value.")
]
FromFiles = Annotated[
    list[str] | None,
    typer.Option("--from-file", metavar="[KEY=]FILE", help="A key with the content of a file."),
]


@app.callback()
@option_groups
def create(
    invoked: typer.Context,
    *,
    files: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", metavar="FILE", help="Manifest; - is stdin."),
    ] = None,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Create objects; one that is there already is an error."""
    if invoked.invoked_subcommand is not None:
        return
    if not files:
        hint = "or: swell create namespace|configmap|secret|priorityclass|queue NAME"
        raise CommandError("say what to create: -f FILE", hint, USAGE)
    # Imported here: objects from the command line need no manifests.
    from swell.cli.manifests import read_valid
    from swell.cli.objects.apply import resolve
    from swell.cli.objects.three_way import with_last_applied

    documents = [document for reading in read_valid(files) for document in reading.documents]
    with connected(cluster, writes=True) as connection:
        found = [resolve(document.body, connection, namespace) for document in documents]
        for one in found:
            connection.client.send(calls.create(one.resource, with_last_applied(one.body)))
            sys.stdout.write(f"{kind_and_name(one.body)} created\n")


@app.command("namespace")
@app.command("ns", hidden=True)
@option_groups
def namespace_(name: Name, *, cluster: ClusterOptions) -> None:
    """Create a namespace."""
    _create(NAMESPACES.untyped(), name, {}, cluster)


@app.command("priorityclass")
@app.command("pc", hidden=True)
@option_groups
def priority_class(
    name: Name,
    *,
    value: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    description: Annotated[str, typer.Option(help="For people.")] = "",
    is_default: Annotated[
        bool, typer.Option("--global-default", help="Also of pods that name no class.")
    ] = False,
    preemption_policy: Annotated[
        str,
        typer.Option(metavar="POLICY", help="PreemptLowerPriority, or Never to take no room."),
    ] = "PreemptLowerPriority",
    cluster: ClusterOptions,
) -> None:
    """Create a priority class."""
    body: Body = {"value": value, "preemptionPolicy": preemption_policy}
    body |= {"globalDefault": True} if is_default else {}
    body |= {"description": description} if description else {}
    _create(PRIORITY_CLASSES.untyped(), name, body, cluster)


@app.command("configmap")
@app.command("cm", hidden=True)
@option_groups
def config_map(
    name: Name,
    *,
    literals: Literals = None,
    files: FromFiles = None,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Create a config map from literals and files."""
    texts: dict[str, str] = {}
    binary: dict[str, str] = {}
    for key, content in _contents(literals or (), files or ()).items():
        try:
            texts[key] = content.decode()
        except UnicodeDecodeError:
            binary[key] = base64.b64encode(content).decode()
    body: Body = {"data": texts} if texts else {}
    body |= {"binaryData": binary} if binary else {}
    _create(CONFIG_MAPS.untyped(), name, body, cluster, namespace)


@app.command("secret")
@option_groups
def secret(
    arguments: Annotated[
        list[str], typer.Argument(metavar="[generic] NAME", help="Name of the new secret.")
    ],
    *,
    literals: Literals = None,
    files: FromFiles = None,
    kind: Annotated[str, typer.Option("--type", help="Such as Opaque.")] = "Opaque",
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Create a secret from literals and files."""
    names = arguments[1:] if arguments[:1] == ["generic"] else arguments
    if len(names) != 1:
        hint = "for example: swell create secret generic key --from-literal token=abc"
        raise CommandError("one secret at a time", hint, USAGE)
    contents = _contents(literals or (), files or ())
    data = {key: base64.b64encode(content).decode() for key, content in contents.items()}
    _create(SECRETS, names[0], {"type": kind, "data": data}, cluster, namespace)


app.command("queue")(create_queue)


def _contents(literals: Sequence[str], files: Sequence[str]) -> dict[str, bytes]:
    """Return the keys of a config map or secret with their contents."""
    contents: dict[str, bytes] = {}
    for text in literals:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CommandError(f"not KEY=VALUE: {text!r}", "see: swell create --help", USAGE)
        contents[key] = value.encode()
    for text in files:
        key, equals, path = text.rpartition("=")
        contents[key if equals else Path(path).name] = Path(path).read_bytes()
    return contents


def _create(
    resource: Resource[Body], name: str, fields: Body, cluster: ClusterOptions, namespace: str = ""
) -> None:
    with connected(cluster, writes=True) as connection:
        meta = {"name": name}
        if resource.namespaced:
            meta["namespace"] = connection.namespace(namespace)
        body: Body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": meta,
            **fields,
        }
        connection.client.send(calls.create(resource, body))
        sys.stdout.write(f"{kind_and_name(body)} created\n")
