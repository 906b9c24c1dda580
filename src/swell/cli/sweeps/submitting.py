"""Creates the jobs of a sweep, all in one go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body
from swell.cli.bulk import send_each
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection
from swell.cli.jobs.submission import with_submitter
from swell.cli.sweeps.state import sweep_selection
from swell.cluster.kube import calls
from swell.runtime.errors import AlreadyExistsError

JOBS = AI_TRAINING_JOBS.untyped()
_NAMES_SHOWN_MAX = 5


def refuse_known_sweep(connection: ClusterConnection, namespace: str, sweep: str) -> None:
    """Refuse the name of a sweep that has jobs already."""
    selection = sweep_selection(namespace, sweep)
    if connection.client.send(calls.list_page(JOBS, selection, limit=1)).items:
        hint = (
            f"see: swell get sweep {sweep}; remove it: swell delete sweep/{sweep}; or give --name"
        )
        raise CommandError(f"there is a sweep {sweep} already", hint)


def create_jobs(
    connection: ClusterConnection,
    namespace: str,
    bodies: Sequence[Body],
    report: Callable[[int], None],
) -> None:
    """Create jobs; `report` is called with the number of those that are there.

    A job of such a name that is there already belongs to no sweep or to another one.
    """
    placed = [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in bodies]
    creates = [calls.create(JOBS, with_submitter(one)) for one in placed]
    answers = send_each(connection, creates, expected=(AlreadyExistsError,), report=report)
    taken = [
        body["metadata"]["name"]
        for body, answer in zip(bodies, answers, strict=True)
        if isinstance(answer, AlreadyExistsError)
    ]
    if taken:
        hint = f"the other {len(bodies) - len(taken)} were created; see: swell get sweeps"
        named = ", ".join(taken[:_NAMES_SHOWN_MAX])
        raise CommandError(f"jobs of another sweep or of none have the names: {named}", hint)
