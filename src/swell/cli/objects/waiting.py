"""The command `swell wait`: stays until a condition holds for objects."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from swell.api.meta import Body
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.objects.deleting import POLL
from swell.cli.objects.finding import (
    ObjectChoice,
    WantedObjects,
    chosen_objects,
    each_served,
    read_objects,
    wanted_objects,
)
from swell.cli.objects.jsonpath import JsonPathError, find_all, text_of
from swell.cli.options import ClusterOptions, option_groups, seconds_of
from swell.cli.output import print_names
from swell.cli.progress import ProgressLine
from swell.runtime.cluster import Selection
from swell.runtime.errors import NotFoundError

# Objects whose states are shown on a terminal while they are waited for.
_SHOWN_MAX = 3


@option_groups
def wait(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KIND] NAME...", help="Kind (jobs without it); names."),
    ] = None,
    *,
    for_: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="CONDITION",
            help="condition=TYPE[=STATUS], jsonpath={PATH}=VALUE, phase=PHASE, delete or create.",
        ),
    ],
    timeout: Annotated[
        float, typer.Option("--timeout", parser=seconds_of, metavar="DURATION", help="Give up.")
    ] = 30.0,
    files: options.ObjectFiles = None,
    every: options.EveryObject = False,
    labels: options.Labels = "",
    fields: options.FieldSelector = "",
    namespace: options.Namespace = "",
    everywhere: options.AllNamespaces = False,
    cluster: ClusterOptions,
) -> None:
    """Wait until a condition holds for objects."""
    condition = _Condition(for_)
    chosen = ObjectChoice(files or (), labels, fields, every, everywhere)
    with connected(cluster) as connection, ProgressLine() as line:
        deadline = time.monotonic() + timeout
        for n_reads in itertools.count(1):
            bodies = _found_if_any(arguments or (), chosen, connection, namespace)
            if condition.holds(bodies):
                line.clear()
                print_names(bodies, suffix=" condition met")
                return
            if time.monotonic() > deadline:
                message = f"{for_} did not hold within {timeout:g} s"
                raise CommandError(message, "see: swell describe")
            line.say(f"waiting for {for_}: {_states(bodies)}")
            time.sleep(POLL.full_s(n_reads))


def _states(bodies: Sequence[Body]) -> str:
    """Return what the first objects are at, such as `fit is Pending: NotEnough`."""
    shown = []
    for body in bodies[:_SHOWN_MAX]:
        status = body.get("status") or {}
        states = [str(status[name]) for name in ("phase", "reason") if status.get(name)]
        shown.append(f"{body['metadata']['name']} is {': '.join(states) or 'there'}")
    more = [f"and {len(bodies) - _SHOWN_MAX} more"] if bodies[_SHOWN_MAX:] else []
    return ", ".join([*shown, *more]) or "nothing is there"


def found_objects(
    arguments: Sequence[str], connection: ClusterConnection, namespace: str
) -> list[Body]:
    return _read(wanted_objects(arguments, connection, Selection(namespace)), connection)


def _read(wanted: Sequence[WantedObjects], connection: ClusterConnection) -> list[Body]:

    def read(one: WantedObjects) -> list[Body]:
        kind = {"apiVersion": one.resource.api_version, "kind": one.resource.kind}
        return [{**kind, **body} for body in read_objects(one, connection)]

    return [body for _, bodies in each_served(wanted, read) for body in bodies]


def _found_if_any(
    arguments: Sequence[str], chosen: ObjectChoice, connection: ClusterConnection, namespace: str
) -> list[Body]:
    try:
        return _read(chosen_objects(arguments, chosen, connection, namespace), connection)
    except NotFoundError:
        return []


class _Condition:
    """The condition of `wait --for`; CommandError if it is none."""

    def __init__(self, text: str) -> None:
        self._kind, _, rest = text.partition("=")
        if self._kind == "jsonpath":
            self._path, _, self._value = rest.rpartition("=")
        else:
            self._path, _, self._value = rest.partition("=")
        known = self._kind in {"condition", "jsonpath", "phase"} and rest
        if text not in {"delete", "create"} and not known:
            hint = "write condition=Complete, phase=Running, delete, create or jsonpath={.a}=b"
            raise CommandError(f"not a condition: {text!r}", hint, USAGE)

    def holds(self, bodies: Sequence[Body]) -> bool:
        if self._kind == "delete":
            return not bodies
        return bool(bodies) and all(map(self._holds_for, bodies))

    def _holds_for(self, body: Body) -> bool:
        status = body.get("status") or {}
        match self._kind:
            case "create":
                return True
            case "phase":
                return str(status.get("phase")) == self._path
            case "condition":
                wanted = (self._path.lower(), (self._value or "true").lower())
                held = status.get("conditions") or ()
                return any((c["type"].lower(), c["status"].lower()) == wanted for c in held)
        try:
            return any(text_of(found) == self._value for found in find_all(self._path, body))
        except JsonPathError as error:
            raise CommandError(f"{self._path}: {error}", exit_code=USAGE) from error
