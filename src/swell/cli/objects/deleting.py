"""Deletes objects that were read, and waits until they are gone."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace

from swell.api.backoff import Backoff
from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.cli.command_line import CommandError, note
from swell.cli.connection import ClusterConnection
from swell.cluster.kube import calls
from swell.runtime.cluster import Deletion
from swell.runtime.errors import NotFoundError

POLL = Backoff(base_s=0.05, cap_s=1.0)
# Most objects are gone before this; a longer wait is explained on stderr.
REPORT_AFTER_S = 1.0


def delete_one(
    resource: Resource[Body],
    body: Body,
    connection: ClusterConnection,
    way: Deletion = Deletion(propagation="Background"),  # noqa: B008 - a frozen value
) -> None:
    """Delete the object that was read. A later one of its name stays, and so does a missing one.

    The uid is a precondition of the request.
    """
    meta = body["metadata"]
    key = Key(meta.get("namespace", ""), meta["name"])
    try:
        deletion = replace(way, uid=Uid(meta["uid"]))
        connection.client.send(calls.delete(resource, key, deletion))
    except NotFoundError:
        return


def wait_until_gone(
    resource: Resource[Body], body: Body, connection: ClusterConnection, deadline: float = math.inf
) -> None:
    """Wait until the object that was read is gone; another one of its name counts as gone.

    CommandError at the deadline, a time of the monotonic clock.
    """
    meta = body["metadata"]
    key = Key(meta.get("namespace", ""), meta["name"])
    started, is_reported = time.monotonic(), False
    for n_reads in itertools.count(1):
        try:
            now = connection.client.send(calls.get(resource, key))
        except NotFoundError:
            return
        if now["metadata"]["uid"] != meta["uid"]:
            return  # a new object of the same name
        if not is_reported and time.monotonic() - started > REPORT_AFTER_S:
            holders = ", ".join(now["metadata"].get("finalizers") or []) or "its processes"
            note(f"waiting for {meta['name']} to go (held by {holders}) ...")
            is_reported = True
        refuse_late(deadline, f"{meta['name']} is not gone in time")
        time.sleep(POLL.full_s(n_reads))


def refuse_late(deadline: float, problem: str) -> None:
    """Refuse to go on behind a deadline of the monotonic clock."""
    if time.monotonic() > deadline:
        raise CommandError(problem, "it goes on ending; see: swell get, swell describe")
