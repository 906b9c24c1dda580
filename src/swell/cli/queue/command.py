"""The command `swell queue`: creates, shows, closes, opens and deletes queues."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from swell.api import codec
from swell.api.kinds import POD_GROUPS, QUEUES
from swell.api.meta import Body, Key
from swell.api.scheduling import PodGroup, Queue, QueueState
from swell.api.validation import FieldProblem, validate
from swell.api.wording import count_of
from swell.cli import options
from swell.cli.command_line import CommandError, note
from swell.cli.connection import ClusterConnection, connected
from swell.cli.objects.deleting import delete_one, wait_until_gone
from swell.cli.options import ClusterOptions, OutputFormat, option_groups
from swell.cli.output import print_list, print_names, print_object
from swell.cli.queue.table import described, listed
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import NotFoundError
from swell.scheduler.model.queue_rules import (
    CLOSED_BY_PARENT,
    DEFAULT_QUEUE,
    SHUT,
    deletion_problem,
    is_closed_by_parent,
    parent_of,
    placing_problems,
)

app = typer.Typer(help="Queues: how groups of users share the cluster.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of queues.")]
Amounts = Annotated[
    list[str] | None, typer.Option(metavar="RESOURCE=AMOUNT,...", help="Such as cpu=4,memory=8Gi.")
]
# Between two looks at a queue that is waited for.
PAUSE_S = 0.2


@app.callback()
def queue() -> None:
    """Queues: how groups of users share the cluster."""


@app.command()
@option_groups
def create(
    name: Name,
    *,
    weight: Annotated[int, typer.Option(help="Share against the others.")] = 1,
    capability: Amounts = None,
    deserved: Amounts = None,
    guarantee: Amounts = None,
    parent: Annotated[str, typer.Option(metavar="NAME", help="The queue above it.")] = "",
    priority: Annotated[int, typer.Option(help="Higher is served first.")] = 0,
    reclaimable: Annotated[
        bool, typer.Option("--reclaimable/--no-reclaimable", help="Gives back what it borrows.")
    ] = True,
    cluster: ClusterOptions,
) -> None:
    """Create a queue; what it does not limit is unlimited."""
    amounts = {
        "capability": _amounts("--capability", capability or ()),
        "deserved": _amounts("--deserved", deserved or ()),
        "guarantee": _amounts("--guarantee", guarantee or ()),
    }
    spec: Body = {"weight": weight, "reclaimable": reclaimable}
    spec |= {"parent": parent} if parent else {}
    spec |= {"priority": priority} if priority else {}
    spec |= {field: amounts[field] for field in ("capability", "deserved") if amounts[field]}
    spec |= {"guarantee": {"resource": amounts["guarantee"]}} if amounts["guarantee"] else {}
    body: Body = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    # Checked here although the server would: all problems are shown together, by flag.
    problems = validate(body)
    with connected(cluster, writes=True) as connection:
        snapshot = _QueueSnapshot(connection)
        problems += placing_problems(
            _without_wrong_amounts(body, problems), snapshot.queues, snapshot.n_groups
        )
        _refuse([(_flag(problem), problem.message, problem.hint) for problem in problems])
        made = connection.client.send(calls.create(QUEUES.untyped(), body))
        print_names([made], suffix=" created")


@app.command("list")
@option_groups
def list_(
    *,
    output: options.OutputOption = None,
    cluster: ClusterOptions,
) -> None:
    """Show all queues, each below its parent."""
    with connected(cluster) as connection:
        if output in {None, OutputFormat.WIDE}:
            queues = connection.client.send(calls.list_page(QUEUES)).items
            if queues:
                sys.stdout.write(listed(queues, wide=output is OutputFormat.WIDE))
            else:
                note("nothing found in the cluster")
            return
        bodies = list(connection.client.send(calls.list_page(QUEUES.untyped())).items)
    if output is OutputFormat.NAME:
        print_names(bodies)
    else:
        print_list(bodies, as_yaml=output is OutputFormat.YAML)


@app.command()
@option_groups
def describe(
    name: Name,
    *,
    output: options.OutputOption = None,
    cluster: ClusterOptions,
) -> None:
    """Tell all about a queue: its limits, what it holds, and the groups in it."""
    with connected(cluster) as connection:
        body = _read(connection, name)
        if output in {OutputFormat.JSON, OutputFormat.YAML}:
            print_object(body, as_yaml=output is OutputFormat.YAML)
        elif output is OutputFormat.NAME:
            print_names([body])
        else:
            snapshot = _QueueSnapshot(connection)
            groups = [group for group in snapshot.groups if _queue_of(group) == name]
            sys.stdout.write(described(body, snapshot.queues, groups, connection.client))


@app.command()
@option_groups
def close(
    names: Names,
    *,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Until the last group has gone.")
    ] = False,
    cluster: ClusterOptions,
) -> None:
    """Let queues take no new groups; those below them close, too. What runs stays."""
    with connected(cluster, writes=True) as connection:
        snapshot = _QueueSnapshot(connection)
        _refuse(_unknown(names, snapshot))
        for name in names:
            if is_closed_by_parent(snapshot.queues[name]):
                # Closed by name from now on: it must not open again with its parent.
                change = merge_patch({"metadata": {"annotations": {CLOSED_BY_PARENT: None}}})
                connection.client.send(calls.patch(QUEUES, Key("", name), change))
            state = QueueState.CLOSING if snapshot.n_groups(name) else QueueState.CLOSED
            if wait and state is QueueState.CLOSING:
                _write_state(connection, snapshot, name, state)
                _wait_until_empty(connection, name)
                state = QueueState.CLOSED
            else:
                _write_state(connection, snapshot, name, state)
            sys.stdout.write(f"queue/{name} {state.value.lower()}\n")


@app.command("open")
@option_groups
def open_(
    names: Names,
    *,
    cluster: ClusterOptions,
) -> None:
    """Let queues take groups again, and those below that were closed with them."""
    with connected(cluster, writes=True) as connection:
        snapshot = _QueueSnapshot(connection)
        problems = _unknown(names, snapshot)
        for name in names:
            above = (
                parent_of(snapshot.queues[name], snapshot.queues.get)
                if name in snapshot.queues
                else None
            )
            if (
                above is not None
                and above.status.state in SHUT
                and above.metadata.name not in names
            ):
                shut = above.metadata.name
                message = f"queue {name} cannot be open while {shut} above it is closed"
                problems.append(("", message, f"open that one: swell queue open {shut}"))
        _refuse(problems)
        for name in names:
            _write_state(connection, snapshot, name, QueueState.OPEN)
            sys.stdout.write(f"queue/{name} open\n")


@app.command()
@option_groups
def delete(
    names: Names,
    *,
    force: Annotated[bool, typer.Option("--force", help="Even with groups in them.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until they are gone.")] = True,
    cluster: ClusterOptions,
) -> None:
    """Delete queues that nobody uses."""
    with connected(cluster, writes=True) as connection:
        snapshot = _QueueSnapshot(connection)
        problems = _unknown(names, snapshot)
        # A parent may be deleted together with all queues below it.
        others = {name: queue for name, queue in snapshot.queues.items() if name not in names}
        for name in names:
            if name in snapshot.queues:
                n_groups = (lambda _: 0) if force else snapshot.n_groups
                problem = deletion_problem(name, {**others, name: snapshot.queues[name]}, n_groups)
                problems += [("", *problem)] if problem else []
        _refuse(problems)
        bodies = [_read(connection, name) for name in names]
        for body in bodies:
            delete_one(QUEUES.untyped(), body, connection)
        for body in bodies:
            if wait:
                wait_until_gone(QUEUES.untyped(), body, connection)
            print_names([body], suffix=" deleted")


def _without_wrong_amounts(body: Body, problems: Iterable[FieldProblem]) -> Queue:
    """Return the queue without the amounts that are already reported as wrong.

    The rules about amounts of parent and children could not parse them.
    """
    wrong = {problem.steps[-1] for problem in problems if len(problem.steps) > 1}
    spec = dict(body["spec"])
    for field in ("capability", "deserved"):
        spec[field] = {k: v for k, v in spec.get(field, {}).items() if k not in wrong}
    given = spec.get("guarantee", {}).get("resource", {})
    spec["guarantee"] = {"resource": {k: v for k, v in given.items() if k not in wrong}}
    return codec.convert({**body, "spec": spec}, Queue)


class _QueueSnapshot:
    """The queues and PodGroups of a cluster, as they were when the command began."""

    def __init__(self, connection: ClusterConnection) -> None:
        client = connection.client
        found = client.send(calls.list_page(QUEUES)).items
        self.queues = {queue.metadata.name: queue for queue in found}
        self.groups: Sequence[PodGroup] = client.send(calls.list_page(POD_GROUPS)).items
        self._counts = Counter(_queue_of(group) for group in self.groups)

    def n_groups(self, name: str) -> int:
        return self._counts[name]


def _queue_of(group: PodGroup) -> str:
    return group.spec.queue or DEFAULT_QUEUE


def _read(connection: ClusterConnection, name: str) -> Body:
    try:
        return connection.client.send(calls.get(QUEUES.untyped(), Key("", name)))
    except NotFoundError as error:
        raise CommandError(f"no queue {name}", "see: swell queue list") from error


def _write_state(
    connection: ClusterConnection, snapshot: _QueueSnapshot, name: str, state: QueueState
) -> None:
    """Write the state of a queue, unless it has it already.

    A queue that was closed with its parent is written all the same: the scheduler is about to
    open it with the parent.
    """
    queue = snapshot.queues[name]
    if queue.status.state is not state or is_closed_by_parent(queue):
        change = merge_patch({"status": {"state": state.value}})
        connection.client.send(calls.patch(QUEUES.status, Key("", name), change))


def _wait_until_empty(connection: ClusterConnection, name: str) -> None:
    n_before = -1
    while True:
        found = connection.client.send(calls.list_page(POD_GROUPS)).items
        n = sum(_queue_of(group) == name for group in found)
        if not n:
            return
        if n != n_before:
            note(f"waiting for {count_of(n, 'group')} to leave queue {name} ...")
        n_before = n
        time.sleep(PAUSE_S)


def _unknown(names: Iterable[str], snapshot: _QueueSnapshot) -> list[tuple[str, str, str]]:
    hint = "see: swell queue list"
    return [("", f"no queue {name}", hint) for name in names if name not in snapshot.queues]


def _refuse(problems: Sequence[tuple[str, str, str]]) -> None:
    """End the command if there are problems; all of them are printed."""
    if not problems:
        return
    # The last one becomes the error of the command; the others are printed in its form.
    *others, last = [(f"{flag}: {text}" if flag else text, hint) for flag, text, hint in problems]
    for text, hint in others:
        note(f"error: {text}\n  {hint}")
    raise CommandError(*last)


def _amounts(flag: str, texts: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",") if part):
        resource, equals, amount = part.partition("=")
        if not resource or not equals or not amount:
            hint = "write it like cpu=4,memory=8Gi,nvidia.com/gpu=2"
            raise CommandError(f"{flag}: not an amount: {part!r}", hint, 2)
        found[resource] = amount
    return found


def _flag(problem: FieldProblem) -> str:
    """Return the flag that sets a field, for messages about it."""
    match problem.steps:
        case ("spec", field, *rest):
            resource = [str(step) for step in rest if step != "resource"]
            return " ".join([f"--{field}", *resource])
        case _:
            return problem.path
