"""The command `swell create`: objects from manifests, and small ones from the command line."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from swell.api.kinds import CONFIG_MAPS, NAMESPACES, PRIORITY_CLASSES, SECRETS
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import connected
from swell.cli.objects.outcome import WritingOptions, WrittenReport
from swell.cli.options import ClusterOptions, option_groups, text_of_file
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
FromEnvFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--from-env-file", metavar="FILE", help="A key for each line KEY=VALUE of a file."
    ),
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
    outcome: WritingOptions,
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
    telling = WrittenReport(outcome)
    with connected(cluster, writes=True) as connection:
        found = [resolve(document.body, connection, namespace) for document in documents]
        for one in found:
            body = with_last_applied(one.body)
            if telling.is_sent:
                call = calls.create(one.resource, body, telling.options)
                body = one.body | connection.client.send(call)
            telling.tell(body, "created")
        telling.end()


@app.command("namespace")
@app.command("ns", hidden=True)
@option_groups
def namespace_(name: Name, *, outcome: WritingOptions, cluster: ClusterOptions) -> None:
    """Create a namespace."""
    _create(_NewObject(NAMESPACES.untyped(), name, {}), outcome, cluster)


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
    outcome: WritingOptions,
    cluster: ClusterOptions,
) -> None:
    """Create a priority class."""
    body: Body = {"value": value, "preemptionPolicy": preemption_policy}
    body |= {"globalDefault": True} if is_default else {}
    body |= {"description": description} if description else {}
    _create(_NewObject(PRIORITY_CLASSES.untyped(), name, body), outcome, cluster)


@app.command("configmap")
@app.command("cm", hidden=True)
@option_groups
def config_map(
    name: Name,
    *,
    literals: Literals = None,
    files: FromFiles = None,
    env_files: FromEnvFiles = None,
    outcome: WritingOptions,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Create a config map from literals and files."""
    texts: dict[str, str] = {}
    binary: dict[str, str] = {}
    for key, content in _contents(literals, files, env_files).items():
        try:
            texts[key] = content.decode()
        except UnicodeDecodeError:
            binary[key] = base64.b64encode(content).decode()
    body: Body = {"data": texts} if texts else {}
    body |= {"binaryData": binary} if binary else {}
    _create(_NewObject(CONFIG_MAPS.untyped(), name, body, namespace), outcome, cluster)


@app.command("secret")
@option_groups
def secret(
    arguments: Annotated[
        list[str], typer.Argument(metavar="[generic] NAME", help="Name of the new secret.")
    ],
    *,
    literals: Literals = None,
    files: FromFiles = None,
    env_files: FromEnvFiles = None,
    kind: Annotated[str, typer.Option("--type", help="Such as Opaque.")] = "Opaque",
    outcome: WritingOptions,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Create a secret from literals and files."""
    names = arguments[1:] if arguments[:1] == ["generic"] else arguments
    if len(arguments) > 1 and arguments[0] in {"docker-registry", "tls"}:
        hint = (
            f"kubectl create secret {arguments[0]} ... --dry-run=client -o yaml | swell apply -f -"
        )
        raise CommandError(f"{arguments[0]} secrets are made by kubectl", hint, USAGE)
    if len(names) != 1:
        hint = "for example: swell create secret generic key --from-literal token=abc"
        raise CommandError("one secret at a time", hint, USAGE)
    contents = _contents(literals, files, env_files)
    data = {key: base64.b64encode(content).decode() for key, content in contents.items()}
    new = _NewObject(SECRETS, names[0], {"type": kind, "data": data}, namespace)
    _create(new, outcome, cluster)


app.command("queue")(create_queue)


def _contents(
    literals: Sequence[str] | None, files: Sequence[str] | None, env_files: Sequence[str] | None
) -> dict[str, bytes]:
    """Return the keys of a config map or secret with their contents."""
    contents: dict[str, bytes] = {}
    lines = [line.strip() for path in env_files or () for line in text_of_file(path).splitlines()]
    pairs = [line for line in lines if line and not line.startswith("#")]
    for text in (*(literals or ()), *pairs):
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CommandError(f"not KEY=VALUE: {text!r}", "see: swell create --help", USAGE)
        contents[key] = value.encode()
    for text in files or ():
        key, equals, path = text.rpartition("=")
        contents[key if equals else Path(path).name] = Path(path).read_bytes()
    return contents


@dataclass(frozen=True, slots=True)
class _NewObject:
    """An object whose fields were given on the command line."""

    resource: Resource[Body]
    name: str
    fields: Body
    namespace: str = ""


def _create(new: _NewObject, outcome: WritingOptions, cluster: ClusterOptions) -> None:
    telling = WrittenReport(outcome)
    with connected(cluster, writes=True) as connection:
        meta = {"name": new.name}
        if new.resource.namespaced:
            meta["namespace"] = connection.namespace(new.namespace)
        body: Body = {
            "apiVersion": new.resource.api_version,
            "kind": new.resource.kind,
            "metadata": meta,
            **new.fields,
        }
        if telling.is_sent:
            body |= connection.client.send(calls.create(new.resource, body, telling.options))
        telling.tell(body, "created")
        telling.end()
