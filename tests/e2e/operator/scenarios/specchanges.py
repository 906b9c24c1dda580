"""What may change once a job has begun, and what may not."""

from __future__ import annotations

from swell.api.meta import Body
from tests.e2e.operator.actions import changes
from tests.e2e.operator.checks import becomes, refused, runs, shows, stays
from tests.e2e.operator.jobs import job, pods
from tests.e2e.operator.scenario import Scenario, scenario

OTHER_IMAGE: Body = {"spec": {"containers": [{"name": "aitj-main", "image": "another"}]}}

FIXED: dict[str, Body] = {
    "framework": {"frameworkType": "pytorch"},
    "fault-tolerant": {"faultTolerant": True},
    "priority": {"priority": "high"},
    "scheduler": {"schedulerName": "another"},
    "queue": {"queue": "another"},
    "job-fail-policy": {"failPolicy": "All"},
    "job-complete-policy": {"completePolicy": "Any"},
    "exit-codes": {"restartingExitCode": "1"},
    "role-added": {"replicaSpecs": {"b": pods(1)}},
    "role-removed": {"replicaSpecs": {"a": None, "b": pods(1)}},
    "restart-policy": {"replicaSpecs": {"a": {"restartPolicy": "Always"}}},
    "restart-scope": {"replicaSpecs": {"a": {"restartScope": "Pod"}}},
    "fail-policy": {"replicaSpecs": {"a": {"failPolicy": "All"}}},
    "complete-policy": {"replicaSpecs": {"a": {"completePolicy": "Any"}}},
    "template": {"replicaSpecs": {"a": {"template": OTHER_IMAGE}}},
}


# fmt: off
SCENARIOS: tuple[Scenario, ...] = (
    scenario("fixed-once-begun", job({"a": pods(1)}),
          runs(), *[refused(change) for change in FIXED.values()], stays("Running")),
    scenario("what-may-change",
          job({"a": pods(2, edlPolicy="Manual", minReplicas=1, maxReplicas=3)}),
          runs(),
          changes({"cleanPodPolicy": "None"}),
          changes({"replicaSpecs": {"a": {"restartLimit": 5}}}),
          changes({"replicaSpecs": {"a": {"maxReplicas": 5, "minReplicas": 2}}}),
          changes({"replicaSpecs": {"a": {"edlPolicy": "Auto"}}}),
          shows("the operator has seen it all", lambda s: s.observed_generation == 5),
          stays("Running"),
          changes({"timeLimit": 1}), becomes("Timeout")),
)
# fmt: on
