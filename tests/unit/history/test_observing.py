"""A record is continued from a job's status, and says the same when it is begun anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.times import format_time
from swell.api.trainingjob import TrainingJob
from swell.history.ledger import ledger_of
from swell.history.life import PODS_MAX, JobLife, PhaseChange, PodRun
from swell.history.observing import observed, vanished
from swell.history.phases import continued
from swell.history.pods import cost_of, is_folded, key_of, run_of, with_pods

T0 = 1_700_000_000
_TEMPLATE = {
    "spec": {
        "containers": [
            {
                "name": "aitj-trainer",
                "image": "local",
                "resources": {
                    "requests": {"cpu": "1500m", "memory": "2Gi"},
                    "limits": {"nvidia.com/gpu": "2"},
                },
            }
        ]
    }
}


def a_job(status: Body, **metadata: object) -> AITrainingJob:
    return convert(
        {
            "apiVersion": "elasticdeeplearning.ai/v1",
            "kind": "AITrainingJob",
            "metadata": {
                "name": "fit",
                "namespace": "lab",
                "uid": "u-1",
                "creationTimestamp": format_time(T0),
                **metadata,
            },
            "spec": {
                "queue": "night",
                "replicaSpecs": {
                    "Trainer": {"minReplicas": 1, "maxReplicas": 4, "template": _TEMPLATE}
                },
            },
            "status": status,
        },
        AITrainingJob,
    )


def phase(at: int, name: str, reason: str = "") -> Body:
    return {"phase": name, "time": format_time(T0 + at), "reason": reason, "message": ""}


def life_of(job: AITrainingJob | TrainingJob, known: JobLife | None = None) -> JobLife:
    return observed(known, job, float(T0 + 1000))


def test_a_record_has_the_facts_of_the_job() -> None:
    job = a_job(
        {
            "phase": "Succeed",
            "reason": "RolesCompleted",
            "restarts": 2,
            "endTime": format_time(T0 + 90),
            "phaseHistory": [phase(0, "Pending"), phase(9, "Running"), phase(90, "Succeed")],
            "targetReplicas": {"trainer": 4},
            "scaleRecords": [
                {
                    "time": format_time(T0 + 30),
                    "role": "trainer",
                    "from": 2,
                    "to": 4,
                    "by": "autoscaler",
                    "reason": "idle nodes",
                }
            ],
        },
        labels={"team": "a"},
    )
    life = life_of(job)

    assert (life.namespace, life.name, life.queue, life.phase) == (
        "lab",
        "fit",
        "night",
        "Succeed",
    )
    assert (life.ended, life.restarts, life.labels) == (T0 + 90, 2, {"team": "a"})
    assert life.roles["trainer"].first == 2
    assert [(one.size, one.by) for one in life.sizes] == [(4, "autoscaler")]
    assert (life.roles["trainer"].cpu_milli, life.roles["trainer"].gpus) == (1500, 2)


def test_what_a_status_has_forgotten_stays_in_the_record() -> None:
    phases = [phase(at, "Running" if at % 2 else "Restarting") for at in range(60)]
    life: JobLife | None = None
    for seen in (5, 20, 33, 45, 60):
        job = a_job({"phase": "Running", "phaseHistory": phases[max(0, seen - 20) : seen]})
        life = life_of(job, life)

    assert life is not None
    assert [one.at for one in life.phases] == [float(T0 + at) for at in range(60)]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=20), st.integers(0, 2**30))
def test_lists_that_are_cut_off_are_put_together_exactly(steps: list[int], kinds: int) -> None:
    """However often a list of twenty is looked at, nothing is lost or doubled."""
    n_all = sum(steps)
    whole = [
        PhaseChange(float(at // 3), "Running" if kinds >> (at % 30) & 1 else "Pending", str(at))
        for at in range(n_all)
    ]
    known: tuple[PhaseChange, ...] = ()
    seen = 0
    for step in steps:
        seen += step
        listed = whole[max(0, seen - 20) : seen]
        known = continued(known, listed)
        assert continued(known, listed) == known

    assert list(known) == whole


def test_a_list_of_before_changes_nothing() -> None:
    whole = [PhaseChange(float(at), "Running", str(at)) for at in range(9)]

    assert continued(whole, whole[2:5]) == tuple(whole)
    assert continued(whole, []) == tuple(whole)


def test_a_list_that_was_lost_goes_on_with_what_is_later() -> None:
    known = [PhaseChange(1.0, "Running"), PhaseChange(5.0, "Pending")]
    listed = [PhaseChange(3.0, "Pending", "StatusLost"), PhaseChange(8.0, "Running")]

    assert continued(known, listed) == (*known, listed[1])


def test_a_job_deleted_as_it_runs_has_ended_when_it_was_deleted() -> None:
    job = a_job(
        {"phase": "Running", "phaseHistory": [phase(0, "Pending"), phase(5, "Running")]},
        deletionTimestamp=format_time(T0 + 50),
    )
    life = life_of(job)

    assert (life.phase, life.ended) == ("Deleted", T0 + 50)
    assert ledger_of(life, 0.0).wall_s == 50
    assert vanished(life, 0.0) == life


def test_an_ended_record_is_not_changed_by_what_comes_after() -> None:
    ended = a_job({"phase": "Failed", "endTime": format_time(T0 + 9)})
    life = life_of(ended)

    assert life_of(a_job({"phase": "Failed", "reason": "edited"}), life) == life


def test_a_training_job_is_dated_by_its_conditions() -> None:
    def job(name: str, *conditions: Body) -> TrainingJob:
        body = {
            "metadata": {
                "name": "old",
                "namespace": "lab",
                "uid": "u-2",
                "creationTimestamp": format_time(T0),
            },
            "spec": {"trainer": {"min-instance": 2, "max-instance": 4}},
            "status": {"phase": name, "conditions": list(conditions)},
        }
        return convert(body, TrainingJob)

    def ready(at: int, status: str, kind: str = "Ready") -> Body:
        return {"type": kind, "status": status, "lastTransitionTime": format_time(T0 + at)}

    life = observed(None, job("Creating", ready(0, "False")), float(T0 + 1))
    life = observed(life, job("Running", ready(20, "True")), float(T0 + 25))
    life = observed(life, job("Scaling", ready(20, "True")), float(T0 + 40))
    life = observed(life, job("Running", ready(20, "True")), float(T0 + 50))
    over = job("Succeed", ready(80, "False"), ready(80, "True", "Completed"))
    life = observed(life, over, float(T0 + 90))

    assert life.ended == T0 + 80
    assert {c.value: s for c, s in ledger_of(life, 0.0).seconds.items()} == {
        "starting": 20,
        "running": 50,
        "resize": 10,
    }


def a_pod(at: int, phase: str = "Running", code: int | None = None) -> Pod:
    state = {"terminated": {"exitCode": code, "finishedAt": format_time(T0 + at + 60)}}
    return convert(
        {
            "metadata": {"name": "fit-trainer-0", "namespace": "lab", "uid": f"p-{at}"},
            "spec": {"nodeName": "n1"},
            "status": {
                "phase": phase,
                "startTime": format_time(T0 + at),
                "containerStatuses": [{"name": "c", "state": state}] if code is not None else [],
            },
        },
        Pod,
    )


def test_pods_cost_what_they_request_from_their_start_to_their_end() -> None:
    ended = run_of(a_pod(0, "Failed", 3), "trainer", 0)
    going = run_of(a_pod(3600), "trainer", 0)
    assert ended is not None
    assert going is not None
    assert (ended.ended, ended.outcome) == (T0 + 60, "exit 3")
    life = with_pods(life_of(a_job({"phase": "Running"})), [ended, going])
    cost = cost_of(life, T0 + 7140.0)

    assert (cost.pod_hours, cost.cpu_hours, cost.gpu_hours) == (1.0, 1.5, 2.0)
    assert cost.memory_gib_hours == 2.0


def test_of_many_pods_the_first_to_end_are_summed_up_once() -> None:
    runs = [PodRun("trainer", at, "n", T0 + at, T0 + at + 10.0) for at in range(PODS_MAX + 50)]
    life = life_of(a_job({"phase": "Running"}))
    folded = with_pods(life, runs)
    # The same pods are found again after a crash: those that were summed up are known to be.
    again = {key_of(run): run for run in folded.pods}
    again |= {key_of(run): run for run in runs if not is_folded(folded, run)}
    twice = with_pods(folded, again.values())

    assert len(folded.pods) == PODS_MAX
    assert cost_of(folded, 0.0).pod_hours * 3600 == 10.0 * len(runs)
    assert cost_of(twice, 0.0) == cost_of(folded, 0.0)
