"""The command `swell plan queue`: when the jobs of a queue would start. It writes nothing."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from swell.cli.options import ClusterOptions, option_groups
from swell.cli.plan.job import DECIDING, Dump, Output, read_world
from swell.cli.plan.tables import PlanFormat
from swell.cli.progress import ProgressLine


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
    from swell.cli.output import aligned, to_json
    from swell.outlook.starts import START_HEADING, cells
    from swell.outlook.whatif import estimated_starts
    from swell.scheduler.plan import without_collections

    now = time.time()
    with without_collections(), ProgressLine() as line:
        world = read_world(files, cluster, line)
        line.say(DECIDING, is_urgent=True)
        estimates = estimated_starts(world, now)
    queues = {job.metadata.key: job.spec.queue for job in world.training_jobs}
    found = [
        (str(id_), estimate) for id_, estimate in estimates.items() if name in {"", queues[id_.key]}
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
