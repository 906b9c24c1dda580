"""Jobs take turns: who may be stopped for others, for how long, and how that is written."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from swell.api.aitrainingjob import QUEUE_LABEL, AITrainingJob, Yield
from swell.api.scheduling import PodGroup
from swell.api.times import format_time
from swell.api.training import TrainingStatus
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.damping import DampingInput, damp_stopped
from swell.autoscaler.goodput.turns import TURN_S, TurnRequest, minimums
from swell.autoscaler.policies.fulfillment import fulfillment
from swell.autoscaler.policies.goodput import goodput
from swell.autoscaler.policies.interface import (
    Parameters,
    RoleId,
    RoleTarget,
    RoleTargets,
    SizeReason,
)
from swell.autoscaler.status import SizeChange, SizeProposal, decide_write
from swell.autoscaler.views import JobId
from swell.runtime.plan import EmitEvent, PatchStatus
from tests.autoscaler_cases import a_group, a_job, a_node, a_pod, a_role, in_queue, look

NOW = 1_800_000_000.0
# It would take days on the one device that both jobs need.
LONG, SHORT = 10**8, 2000
RATES = {"1": "100", "2": "190"}


def running(name: str, left: int = LONG, *, save_s: int | None = 0) -> AITrainingJob:
    """A job of one replica that has told how much work is left."""
    job = a_job(name, t=a_role(1, 2, gpu=1))
    told = TrainingStatus(reported_at=format_time(NOW), rates=RATES, total_samples=left, samples=0)
    meta = replace(job.metadata, creation_timestamp=format_time(NOW - 3600))
    spec = replace(job.spec, save_seconds=save_s)
    return replace(job, metadata=meta, spec=spec, status=replace(job.status, training=told))


def stopped(job: AITrainingJob, ago_s: float) -> AITrainingJob:
    record = Yield(format_time(NOW - ago_s), format_time(NOW + 1800 - ago_s), "elsewhere")
    return replace(job, status=replace(job.status, phase="Pending", yielded=record))


def crowd(
    long: AITrainingJob,
    *,
    began_s: float = NOW - 3600,
    n_short: int = 2,
    groups: Sequence[PodGroup] = (),
) -> AutoscalerSnapshot:
    """A node of two devices: a long job on one, a short one on the other, and more that wait."""
    things: list[object] = [a_node("n", cpu=9, memory="9Gi", gpu=2), long, *groups]
    if long.status.yielded is None:
        things.append(a_pod("long", "t", 0, "n", gpu=1, created=format_time(began_s)))
    for at in range(n_short):
        name = f"short-{at}"
        if at:
            waits = replace(
                running(name, SHORT),
                status=a_job(name, phase="Pending", t=a_role(1, 2, gpu=1)).status,
            )
            things.append(waits)
        else:
            things += [
                running(name, SHORT),
                a_pod(name, "t", 0, "n", gpu=1, created=format_time(began_s)),
            ]
    return look(*things)  # type: ignore[arg-type]


def decided(snapshot: AutoscalerSnapshot, now: float | None = NOW) -> RoleTargets:
    parameters = Parameters(now=now, stopped=snapshot.stopped)
    return goodput(snapshot.jobs, snapshot.cluster, parameters)


def of(targets: RoleTargets, name: str) -> RoleTarget:
    return targets[RoleId(JobId("ns", name), "t")]


def test_long_job_stops_for_a_short_one_that_waits() -> None:
    target = of(decided(crowd(running("long"))), "long")

    assert (target.current, target.target, target.stops) == (1, 0, True)
    assert target.reason is SizeReason.YIELDS


def test_long_job_stops_for_one_that_a_full_cluster_refuses() -> None:
    """Where every job is at its minimum the scheduler admits no other one."""
    refused = [a_group("short-1", reason="ClusterFull")]

    assert of(decided(crowd(running("long"), groups=refused)), "long").stops


def test_nobody_grows_into_the_place_of_one_that_a_full_cluster_refuses() -> None:
    """The device of a job that has ended is for the next one, admitted or not yet."""
    things = [
        a_node("n", cpu=9, memory="9Gi", gpu=2),
        running("long", save_s=None),
        a_pod("long", "t", 0, "n", gpu=1),
        a_job("next", phase="Pending", t=a_role(1, 1, gpu=1, edl="Never")),
        a_pod("next", "t", 0, gpu=1),
        a_group("next", reason="ClusterFull"),
    ]

    assert of(decided(look(*things)), "long").target == 1  # type: ignore[arg-type]


def test_nobody_stops_a_job_that_loses_by_it_or_must_run() -> None:
    """Each of these alone keeps the job: no save, the user's word, Kueue's quota, no word of what
    is left, another queue or priority, a turn that has only begun, and a time that is not known."""
    job = running("long")
    meta, spec, status = job.metadata, job.spec, job.status
    kept = {
        "saves nothing": crowd(running("long", save_s=None)),
        "user": crowd(replace(job, spec=replace(spec, suspend=False))),
        "Kueue": crowd(
            replace(
                job,
                metadata=replace(meta, labels={QUEUE_LABEL: "q"}),
                spec=replace(spec, suspend=False),
            )
        ),
        "unknown": crowd(
            replace(job, status=replace(status, training=TrainingStatus(rates=RATES)))
        ),
        "queue": crowd(in_queue(job, "other")),
        "priority": crowd(in_queue(job, "", "high")),
        "turn": crowd(job, began_s=NOW - TURN_S + 1),
    }
    for why, snapshot in kept.items():
        target = decided(snapshot).get(RoleId(JobId("ns", "long"), "t"))
        assert target is None or target.target >= 1, why
    assert of(decided(crowd(job), now=None), "long").target >= 1
    assert of(decided(crowd(job, began_s=NOW - TURN_S)), "long").stops


def test_all_of_a_pool_may_stop_for_others() -> None:
    """Rigid jobs that wait for both devices leave nothing to the jobs that are sized."""
    job = running("long")
    rigid = [a_job(name, phase="Pending", t=a_role(1, 1, gpu=1, edl="Never")) for name in "ab"]
    things: list[object] = [a_node("n", cpu=9, memory="9Gi", gpu=2), job, *rigid]
    began = format_time(NOW - 3600)
    things.append(a_pod("long", "t", 0, "n", gpu=1, created=began))
    snapshot = look(*things, *(a_pod(name, "t", 0, gpu=1) for name in "ab"))  # type: ignore[arg-type]

    assert of(decided(snapshot), "long").stops


def test_job_that_has_stopped_stays_so_while_others_need_its_device() -> None:
    snapshot = crowd(stopped(running("long"), ago_s=600), n_short=3)

    assert [str(job.view.id) for job in snapshot.stopped] == ["ns/long"]
    assert "ns/long" not in [str(job.view.id) for job in snapshot.jobs]
    target = of(decided(snapshot), "long")
    assert (target.current, target.target) == (0, 0)


def test_job_that_has_stopped_goes_on_when_there_is_room() -> None:
    target = of(decided(crowd(stopped(running("long"), ago_s=600), n_short=1)), "long")

    assert (target.current, target.target, target.goes_on) == (0, 1, True)


def test_job_that_has_stopped_for_long_enough_goes_first() -> None:
    """After half an hour it gets its minimum, whatever a device is worth elsewhere."""
    assert of(decided(crowd(stopped(running("long"), ago_s=1801), n_short=3)), "long").goes_on


def test_other_policies_let_stopped_jobs_go_on() -> None:
    snapshot = crowd(stopped(running("long"), ago_s=10), n_short=3)
    wanted = fulfillment(snapshot.jobs, snapshot.cluster, Parameters(now=NOW))

    assert of(damp_stopped(wanted, snapshot.stopped, DampingInput()), "long").goes_on


def test_job_that_has_just_stopped_stays_so_for_the_cooldown() -> None:
    """Its pods are not even gone when the next pass looks."""
    snapshot = crowd(stopped(running("long"), ago_s=59), n_short=1)
    wanted = decided(snapshot)

    def damped(now: float) -> RoleTarget:
        seen = DampingInput(now=now, cooldown_s=60.0)
        return of(damp_stopped(wanted, snapshot.stopped, seen), "long")

    assert of(wanted, "long").goes_on
    assert damped(NOW).reason is SizeReason.COOLING_DOWN
    assert damped(NOW + 1).goes_on


def test_minimums_go_to_those_that_keep_them_then_to_starving_ones() -> None:
    fixed = TurnRequest(2, runs=True, may_stop=False, is_stopped=False, is_starving=False)
    loose = fixed._replace(may_stop=True)
    new = fixed._replace(runs=False)
    halted = new._replace(is_stopped=True)
    starved = halted._replace(is_starving=True)

    assert minimums([fixed, loose, halted, starved, new], 8) == [2, 0, 0, 2, 2]
    assert minimums([fixed, loose, halted, starved, new], 6) == [2, 0, 0, 2, 0]
    assert minimums([fixed, loose, halted, starved, new], 3) == [2, 0, 0, 0, 0]


def written(job: AITrainingJob, target: RoleTarget) -> tuple[object, str]:
    proposal = SizeProposal("1", "t", target, NOW, stop_s=1800.0)
    patch, event = decide_write(SizeChange(job, proposal), NOW + 9).each_action()
    assert isinstance(patch, PatchStatus)
    assert isinstance(event, EmitEvent)
    return patch.status, event.message


def test_stop_is_a_record_with_an_end_and_no_size() -> None:
    """The target stays what it is, within its bounds."""
    target = RoleTarget(1, 0, SizeReason.YIELDS, "worth 2 elsewhere")

    assert written(running("long"), target) == (
        {
            "yielded": {
                "since": format_time(NOW),
                "until": format_time(NOW + 1800),
                "reason": "worth 2 elsewhere",
            }
        },
        "t gives its 1 to others: worth 2 elsewhere",
    )


def test_going_on_takes_the_record_away_and_may_take_a_size() -> None:
    job = stopped(running("long"), ago_s=9)
    job = replace(job, status=replace(job.status, target_replicas={"t": 2}))
    status, message = written(job, RoleTarget(0, 1, SizeReason.GOES_ON, "free"))

    assert isinstance(status, dict)
    assert (status["yielded"], status["targetReplicas"]) == (None, {"t": 1})
    assert [(one["from"], one["to"]) for one in status["scaleRecords"]] == [(2, 1)]
    assert message == "t goes on with 1: free"
    assert written(job, RoleTarget(0, 2, SizeReason.GOES_ON, "free"))[0] == {"yielded": None}
