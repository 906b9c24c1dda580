"""Jobs that are deleted, in every phase there is, and jobs that come again under the same name."""

from __future__ import annotations

from tests.e2e.operator.happenings import (
    annotates,
    deletes_job,
    ends,
    loses_node,
    submits,
    tears_job_away,
)
from tests.e2e.operator.jobs import job, pods
from tests.e2e.operator.sightings import (
    becomes,
    nothing_is_left,
    pods_are,
    runs,
)
from tests.e2e.operator.story import Story, story

SLOW_START = {"start_delay": "1h"}
SLOW_RESTART = {"start_delay": "0,1h"}
SLOW_STOP = {"stop_delay": "800ms"}


# fmt: off
STORIES: tuple[Story, ...] = (
    story("deleted-at-once", job({"a": pods(2)}), deletes_job(), nothing_is_left()),
    story("deleted-pending", job({"a": pods(2)}, schedulerName="nobody"),
          becomes("Pending"), deletes_job(), nothing_is_left()),
    story("deleted-creating", job({"a": pods(2, does=SLOW_START)}),
          becomes("Creating"), deletes_job(), nothing_is_left()),
    story("deleted-running", job({"a": pods(2)}), runs(), deletes_job(), nothing_is_left()),
    story("deleted-terminating", job({"a": pods(2, restartPolicy="Always", does=SLOW_STOP)}),
          runs(), ends("a-0", code=1), becomes("Terminating"), deletes_job(), nothing_is_left()),
    story("deleted-while-it-ends", job({"a": pods(2, does=SLOW_STOP)}),
          runs(), ends("a-0", code=1), becomes("Terminating"), deletes_job(), nothing_is_left()),
    story("deleted-restarting", job({"a": pods(2, restartPolicy="Always", does=SLOW_RESTART)}),
          runs(), ends("a-0", code=1), becomes("Restarting"), deletes_job(), nothing_is_left()),
    *[
        story(f"deleted-{phase.lower()}", job({"a": pods(2, completePolicy="Any")},
                                              cleanPodPolicy="None"),
              runs(), ends("a-0", code=code), becomes(phase), pods_are("a-0", "a-1"),
              deletes_job(), nothing_is_left())
        for phase, code in (("Succeed", 0), ("Failed", 1))
    ],
    story("deleted-timeout", job({"a": pods(1)}, timeLimit=1),
          becomes("Timeout"), deletes_job(), nothing_is_left()),
    story("deleted-preempted", job({"a": pods(1)}),
          runs(), annotates("Preempted", "by others"), becomes("Preempted"), deletes_job(),
          nothing_is_left()),
    story("deleted-node-fail", job({"a": pods(1)}),
          runs(), loses_node("a-0"), becomes("NodeFail"), deletes_job(), nothing_is_left(),
          n_nodes=1),
    story("deleted-with-a-lost-node", job({"a": pods(2)}, failPolicy="None"),
          runs(), loses_node("a-0"), deletes_job(), nothing_is_left(), n_nodes=2),
    story("torn-away", job({"a": pods(2)}), runs(), tears_job_away(), nothing_is_left()),
    story("again-after-running", job({"a": pods(2, does=SLOW_STOP)}),
          runs(), deletes_job(), nothing_is_left(), submits(job({"a": pods(2)})), runs(anew=True),
          ends("a-0", "a-1"), becomes("Succeed")),
    story("again-after-the-end", job({"a": pods(1)}, cleanPodPolicy="None"),
          runs(), ends("a-0"), becomes("Succeed"), pods_are("a-0"), deletes_job(),
          nothing_is_left(), submits(job({"a": pods(1)})), runs(anew=True), ends("a-0"),
          becomes("Succeed")),
    story("again-before-the-old-pods-are-gone", job({"a": pods(2, does=SLOW_STOP)}),
          runs(), tears_job_away(), submits(job({"a": pods(3)})), runs(anew=True),
          pods_are("a-0", "a-1", "a-2"), ends("a-0", "a-1", "a-2"), becomes("Succeed")),
)
# fmt: on
