"""Queues of a running cluster, as users see them: what is closed waits, and says so."""

from __future__ import annotations

import json

from swell.api.meta import Body
from tests.e2e.up.machine import Machine, until

JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: NAME}
spec:
  queue: QUEUE
  replicaSpecs:
    trainer:
      replicas: 2
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: aitj-trainer
              image: local
              command: [sleep, "1000"]
              resources: {requests: {cpu: CPU}}
"""


def submit(machine: Machine, name: str, queue: str, cpu: str = "100m") -> None:
    path = machine.folder / f"{name}.yaml"
    path.write_text(JOB.replace("NAME", name).replace("QUEUE", queue).replace("CPU", cpu))
    machine.swell("apply", "-f", str(path))


def explained(machine: Machine, name: str) -> Body:
    found: Body = json.loads(machine.swell("explain", name, "-o", "json").stdout)
    return found


def state(machine: Machine, queue: str) -> str:
    reported = machine.swell("queue", "describe", queue, "-o", "json").stdout
    return str(json.loads(reported).get("status", {}).get("state", ""))


def test_closed_queue_holds_jobs_back_until_it_opens(running: Machine) -> None:
    """Closing a queue closes the one below; a job there waits, is explained, and runs when the
    queue that was closed opens."""
    running.swell("queue", "create", "team")
    running.swell("queue", "create", "team-a", "--parent", "team")
    submit(running, "before", "team-a")
    running.until_phase("before", "Running")
    running.swell("queue", "close", "team")
    until(lambda: state(running, "team-a") == "Closing")
    submit(running, "after", "team-a")
    until(lambda: explained(running, "after").get("schedulerSaid") is not None)
    reported = explained(running, "after")

    assert running.phase("before") == "Running"
    assert (reported["standing"], reported["reason"]) == ("Waiting", "QueueClosed")
    assert reported["schedulerSaid"]["reason"] == "QueueClosed"
    assert [one["command"] for one in reported["advice"]] == ["swell queue open team"]
    assert "runs: 2 pods" in running.swell("explain", "before").stdout

    running.swell("queue", "open", "team")
    running.until_phase("after", "Running")
    running.swell("delete", "before", "after")
    running.swell("queue", "close", "team", "--wait")
    until(lambda: state(running, "team-a") == "Closed")
    running.swell("queue", "delete", "team-a", "team")


def test_job_without_room_names_who_has_it(running: Machine) -> None:
    """The scheduler and `explain` agree, and the job starts when the other is gone."""
    submit(running, "large", "default", cpu="6")
    running.until_phase("large", "Running")
    submit(running, "next", "default", cpu="6")
    until(lambda: explained(running, "next").get("schedulerSaid") is not None)
    reported = explained(running, "next")
    [holder] = reported["holders"]

    assert reported["schedulerSaid"]["reason"] == reported["reason"]
    assert (holder["name"], holder["holds"]) == ("default/large", {"cpu": "12"})
    assert "it starts when this is gone: default/large" in [
        one["text"] for one in reported["advice"]
    ]

    running.swell("delete", "large")
    running.until_phase("next", "Running")
    running.swell("delete", "next")
