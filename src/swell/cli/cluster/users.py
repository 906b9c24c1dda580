"""The commands `swell user`: identities of the embedded cluster besides its owner's.

A user is a line in a file of the state folder, with the digest of its token; its rights are role
bindings in the cluster. Whoever can read the folder is its owner: these commands ask for no more.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.api.times import format_time
from swell.cli.choice import START_IT, state_folder
from swell.cli.command_line import USAGE, CommandError
from swell.cli.options import ClusterOptions, seconds_of
from swell.cluster.home import is_running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from swell.cli.connection import ClusterConnection
    from swell.cluster.embedded.http.credentials import Files
    from swell.cluster.embedded.http.users import UserToken

app = typer.Typer(help="Create, show, renew and delete users of the embedded cluster.")

_GROUP = "rbac.authorization.k8s.io"
_BINDINGS: tuple[Resource[Body], ...] = (
    Resource(_GROUP, "v1", "RoleBinding", "rolebindings", dict),
    Resource(_GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", dict, namespaced=False),
)
_LABEL = "swell/user"  # of the bindings that are made and deleted here
_TTL_S_MAX = 366 * 24 * 3600.0  # a token that never expires is a password that is never changed


class UserRole(StrEnum):
    """The roles that a user can be created with."""

    VIEW = "view"
    EDIT = "edit"
    ADMIN = "admin"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
Role = Annotated[UserRole, typer.Option("--role", help="What the user may do.")]
InNamespace = Annotated[
    str,
    typer.Option("-n", "--namespace", metavar="NAME", help="Only there; else in all namespaces."),
]
Lifetime = Annotated[
    float,
    typer.Option(
        "--ttl", parser=seconds_of, metavar="DURATION", help="How long its token is valid."
    ),
]


@app.command()
def create(
    name: Name,
    *,
    role: Role,
    namespace: InNamespace = "",
    ttl: Lifetime = "24h",  # type: ignore[assignment]
) -> None:
    """Create a user and print a kubeconfig with its token, which is shown this once.

    view reads everything but Secrets, edit also writes jobs, pods and Secrets. admin may do
    everything; in one namespace, everything there.
    """
    from swell.cluster.embedded.http.users import (
        UserError,
        UsersFileError,
        add_user,
        check_name,
        remove_user,
    )

    files = _files()
    _check_ttl(ttl)
    if namespace:
        _check_namespace(files, namespace)
    try:
        check_name(name)
        # Also after Ctrl-C: a user without rights would be in the way of the next attempt.
        with _connected(files) as connection, ExitStack() as undo:
            user, token = add_user(files.users_file, name, (), time.time(), ttl)
            undo.callback(remove_user, files.users_file, name)
            _bind(connection, name, role, namespace)
            undo.pop_all()
    except (UserError, UsersFileError) as error:
        raise CommandError(str(error)) from error
    _print_kubeconfig(files, user, token, namespace)
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    _tell(f"{name} may {role} {where} until {format_time(user.expires_at)}")
    if role is not UserRole.VIEW:
        _tell(
            "note: without `swell up --isolate`, whoever can start pods can read this folder"
            " through them"
        )


@app.command()
def renew(name: Name, *, ttl: Lifetime = "24h") -> None:  # type: ignore[assignment]
    """Make a new token for a user and print a kubeconfig with it; the old one is refused."""
    from swell.cluster.embedded.http.users import UserError, UsersFileError, renew_user

    files = _files()
    _check_ttl(ttl)
    try:
        user, token = renew_user(files.users_file, name, time.time(), ttl)
    except (UserError, UsersFileError) as error:
        raise CommandError(str(error), "see: swell user list") from error
    _wait_until_seen(files)
    _print_kubeconfig(files, user, token, "")
    _tell(f"the token of {name} is valid until {format_time(user.expires_at)}")


@app.command("list")
def list_users() -> None:
    """Show all users, until when their tokens are valid, and the roles they were created with."""
    from swell.cli.output import aligned
    from swell.cluster.embedded.http.users import UsersFileError, read_users

    files = _files()
    roles: dict[str, list[str]] = {}
    if is_running(files.folder):
        with _connected(files) as connection:
            for _, binding in _bindings(connection):
                user = binding["metadata"]["labels"][_LABEL]
                where = binding["metadata"].get("namespace") or "*"
                roles.setdefault(user, []).append(f"{binding['roleRef']['name']} in {where}")
    try:
        users = read_users(files.users_file)
    except UsersFileError as error:
        raise CommandError(str(error), "its users are not let in") from error
    now = time.time()
    rows = [["NAME", "ROLE", "EXPIRES"]]
    for user in users:
        until = format_time(user.expires_at) + (" (expired)" if user.expires_at <= now else "")
        rows.append([user.name, ", ".join(roles.get(user.name, ["?"])), until])
    sys.stdout.write(aligned(rows) + "\n")


@app.command()
def delete(name: Name) -> None:
    """Delete a user: its token is refused from now on, and its roles are taken away."""
    from swell.cluster.embedded.http.users import UsersFileError, remove_user

    files = _files()
    try:
        found = remove_user(files.users_file, name)
    except UsersFileError as error:
        raise CommandError(str(error)) from error
    _wait_until_seen(files)
    if is_running(files.folder):
        with _connected(files) as connection:
            found = _unbind(connection, name) or found
    elif found:
        _tell(
            "the cluster does not run: the user's role binding is deleted when it is created anew"
        )
    if not found:
        raise CommandError(f"there is no user {name}", "see: swell user list")
    sys.stdout.write(f"user {name} deleted\n")


def _bind(connection: ClusterConnection, name: str, role: UserRole, namespace: str) -> None:
    """Bind a role to a user. What an earlier user of that name had is taken away first."""
    from swell.cluster.kube import calls

    _unbind(connection, name)
    of_cluster = role is UserRole.ADMIN and not namespace
    metadata: Body = {"name": f"swell:user:{name}", "labels": {_LABEL: name}}
    resource = _BINDINGS[0] if namespace else _BINDINGS[1]
    body: Body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata | ({"namespace": namespace} if namespace else {}),
        "roleRef": {
            "apiGroup": _GROUP,
            "kind": "ClusterRole",
            "name": "cluster-admin" if of_cluster else role.value,
        },
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": name}],
    }
    connection.client.send(calls.create(resource, body))


def _unbind(connection: ClusterConnection, name: str) -> bool:
    """Delete the bindings that were made for a user; whether there were any."""
    from swell.cluster.kube import calls

    found = False
    for resource, binding in _bindings(connection, name):
        metadata = binding["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        connection.client.send(calls.delete(resource, key))
        found = True
    return found


def _bindings(
    connection: ClusterConnection, name: str = ""
) -> Iterator[tuple[Resource[Body], Body]]:
    from swell.cluster.kube import calls
    from swell.runtime.cluster import Selection

    selection = Selection(labels=f"{_LABEL}={name}" if name else _LABEL)
    for resource in _BINDINGS:
        for binding in connection.client.send(calls.list_page(resource, selection)).items:
            yield resource, binding


def _check_namespace(files: Files, namespace: str) -> None:
    from swell.api.kinds import NAMESPACES
    from swell.cluster.kube import calls
    from swell.runtime.errors import NotFoundError

    with _connected(files) as connection:
        try:
            connection.client.send(calls.get(NAMESPACES, Key("", namespace)))
        except NotFoundError as error:
            hint = f"create it first: kubectl create namespace {namespace}"
            raise CommandError(f"there is no namespace {namespace}", hint) from error


def _check_ttl(ttl_s: float) -> None:
    if not 0 < ttl_s <= _TTL_S_MAX:
        raise CommandError("--ttl: a token is valid for up to 8784h (366 days)", exit_code=USAGE)


def _connected(files: Files) -> AbstractContextManager[ClusterConnection]:
    """The running cluster of the folder, as its owner."""
    from swell.cli.connection import connected

    if not is_running(files.folder):
        raise CommandError(f"the embedded cluster in {files.folder} is not running", START_IT)
    return connected(ClusterOptions(kubeconfig=str(files.kubeconfig)))


def _wait_until_seen(files: Files) -> None:
    """Wait until a running server has looked at the file of users again."""
    from swell.cluster.embedded.http.users import LOOK_S

    if is_running(files.folder):
        time.sleep(2 * LOOK_S)


def _print_kubeconfig(files: Files, user: UserToken, token: str, namespace: str) -> None:
    from swell.cluster.embedded.http.credentials import kubeconfig_text, last_port

    port = last_port(files)
    sys.stdout.write(kubeconfig_text(files, port, token, user.name, namespace))
    sys.stdout.flush()


def _files() -> Files:
    from swell.cluster.embedded.http.credentials import Files

    return Files(state_folder(os.environ, Path.home()))


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
