"""The command `swell plan queue`: when the jobs of a queue would start. It writes nothing."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from swell.cli.options import ClusterOptions, option_groups
from swell.cli.plan.job import Dump, Output, read_world
from swell.cli.plan.tables import PlanFormat


@option_groups
def queue(
    name: Annotated[
        str, typer.Argument(metavar="[QUEUE]", help="The queue; all of them without one.")
    ] = "",
    *,
    files: Dump = None,
    output: Output = PlanFormat.TABLE,
    cluster: ClusterOptions,
) -> None:
    """Tell when the waiting jobs of a queue would start, with a spread, and what that hangs on."""
    from swell.api.codec import to_body
    from swell.autoscaler.estimates.keeper import EstimateKeeper
    from swell.autoscaler.plan import inquiry_resource
    from swell.cli.output import aligned, to_json
    from swell.cli.plan.whatif import sizing_objects
    from swell.cli.starts import START_HEADING, cells

    world = read_world(files, cluster)
    now = time.time()
    values = {one.metadata.name: one.value for one in world.priority_classes}
    keeper = EstimateKeeper(lambda priority: values.get(priority, 0))
    for job in world.training_jobs:
        keeper.note_run(job)
    snapshot = inquiry_resource(sizing_objects(world))
    queues = {job.view.id: job.view.queue for job in snapshot.jobs}
    found = [
        (str(id_), spread.body(now))
        for id_, spread in keeper.estimate(snapshot, now).items()
        if name in {"", queues[id_]}
    ]
    if output is PlanFormat.JSON:
        bodies = [{"job": job, "startEstimate": to_body(estimate)} for job, estimate in found]
        sys.stdout.write(to_json(bodies))
        return
    if not found:
        sys.stdout.write("no job waits\n")
        return
    rows = [(job, *cells(estimate, now)) for job, estimate in found]
    sys.stdout.write(aligned([START_HEADING, *rows]) + "\n")
