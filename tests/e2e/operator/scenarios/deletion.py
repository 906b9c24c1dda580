"""Jobs that are deleted, in every phase there is, and jobs that come again under the same name."""

from __future__ import annotations

from tests.e2e.operator.actions import (
    annotates,
    deletes_job,
    ends,
    loses_node,
    submits,
    tears_job_away,
)
from tests.e2e.operator.checks import (
    becomes,
    nothing_is_left,
    pods_are,
    runs,
)
from tests.e2e.operator.jobs import job, pods
from tests.e2e.operator.scenario import Scenario, scenario

SLOW_START = {"start_delay": "1h"}
SLOW_RESTART = {"start_delay": "0,1h"}
SLOW_STOP = {"stop_delay": "800ms"}


# fmt: off
SCENARIOS: tuple[Scenario, ...] = (
    scenario("deleted-at-once", job({"a": pods(2)}), deletes_job(), nothing_is_left()),
    scenario("deleted-pending", job({"a": pods(2)}, schedulerName="nobody"),
          becomes("Pending"), deletes_job(), nothing_is_left()),
    scenario("deleted-creating", job({"a": pods(2, does=SLOW_START)}),
          becomes("Creating"), deletes_job(), nothing_is_left()),
    scenario("deleted-running", job({"a": pods(2)}), runs(), deletes_job(), nothing_is_left()),
    scenario("deleted-terminating", job({"a": pods(2, restartPolicy="Always", does=SLOW_STOP)}),
          runs(), ends("a-0", code=1), becomes("Terminating"), deletes_job(), nothing_is_left()),
    scenario("deleted-while-it-ends", job({"a": pods(2, does=SLOW_STOP)}),
          runs(), ends("a-0", code=1), becomes("Terminating"), deletes_job(), nothing_is_left()),
    scenario("deleted-restarting", job({"a": pods(2, restartPolicy="Always", does=SLOW_RESTART)}),
          runs(), ends("a-0", code=1), becomes("Restarting"), deletes_job(), nothing_is_left()),
    *[
        scenario(f"deleted-{phase.lower()}", job({"a": pods(2, completePolicy="Any")},
                                              cleanPodPolicy="None"),
              runs(), ends("a-0", code=code), becomes(phase), pods_are("a-0", "a-1"),
              deletes_job(), nothing_is_left())
        for phase, code in (("Succeed", 0), ("Failed", 1))
    ],
    scenario("deleted-timeout", job({"a": pods(1)}, timeLimit=1),
          becomes("Timeout"), deletes_job(), nothing_is_left()),
    scenario("deleted-preempted", job({"a": pods(1)}),
          runs(), annotates("Preempted", "by others"), becomes("Preempted"), deletes_job(),
          nothing_is_left()),
    scenario("deleted-node-fail", job({"a": pods(1)}),
          runs(), loses_node("a-0"), becomes("NodeFail"), deletes_job(), nothing_is_left(),
          n_nodes=1),
    scenario("deleted-with-a-lost-node", job({"a": pods(2)}, failPolicy="None"),
          runs(), loses_node("a-0"), deletes_job(), nothing_is_left(), n_nodes=2),
    scenario("torn-away", job({"a": pods(2)}), runs(), tears_job_away(), nothing_is_left()),
    scenario("again-after-running", job({"a": pods(2, does=SLOW_STOP)}),
          runs(), deletes_job(), nothing_is_left(), submits(job({"a": pods(2)})), runs(anew=True),
          ends("a-0", "a-1"), becomes("Succeed")),
    scenario("again-after-the-end", job({"a": pods(1)}, cleanPodPolicy="None"),
          runs(), ends("a-0"), becomes("Succeed"), pods_are("a-0"), deletes_job(),
          nothing_is_left(), submits(job({"a": pods(1)})), runs(anew=True), ends("a-0"),
          becomes("Succeed")),
    scenario("again-before-the-old-pods-are-gone", job({"a": pods(2, does=SLOW_STOP)}),
          runs(), tears_job_away(), submits(job({"a": pods(3)})), runs(anew=True),
          pods_are("a-0", "a-1", "a-2"), ends("a-0", "a-1", "a-2"), becomes("Succeed")),
)
# fmt: on
