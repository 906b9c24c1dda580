"""Jobs come together on few nodes, and grow when what they need is there and known."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob, Yield
from swell.api.injection import REPORT_TOKEN_NOTE, TRAINING_NOTE
from swell.api.times import format_time, parse_time
from swell.api.training import TrainingStatus
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.damping import DampingInput, damp
from swell.autoscaler.job_views import MOVE_S
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
from tests.autoscaler_cases import a_job, a_node, a_pod, a_role, look

NOW = 1_800_000_000.0
LONG_AGO, JUST_NOW = format_time(NOW - 3600), format_time(NOW - 70)
# Nearly as fast as linear within a node, and slower than one replica across nodes.
STEP_TIMES = {"1/1/64": "1/0", "2/1/64": "1.05/0.05", "2/2/64": "3/2"}
# On any nodes alike.
EVEN_TIMES = {"1/1/64": "1/0", "2/1/64": "1.05/0.05", "2/2/64": "1.05/0.05"}
# As fast on eight as they are many, on one node and on two.
WIDE_TIMES = {"1/1/16": "1/0", "4/1/16": "1.05/0.05", "8/2/16": "1.05/0.05"}
# A second replica is of no use.
FLAT_TIMES = {"1/1/64": "1/0", "2/1/64": "3/2"}


def a_reporting_job(
    name: str,
    size: int,
    *,
    most: int = 4,
    pause_s: str = "30",
    times: dict[str, str] = STEP_TIMES,
    left: int = 10**7,
    save_s: int | None = 0,
) -> AITrainingJob:
    job = a_job(name, targets={"t": size}, t=a_role(1, most, gpu=1))
    training = TrainingStatus(
        reported_at=format_time(NOW),
        rates={"1": "64", "2": "120"},
        step_times=times,
        batch_range="64/128/16/64",
        noise="1e9",
        global_batch=64,
        total_samples=left,
        last_pause_seconds=pause_s,
    )
    meta = replace(job.metadata, creation_timestamp=format_time(NOW - 7200))
    spec = replace(job.spec, save_seconds=save_s)
    return replace(job, metadata=meta, spec=spec, status=replace(job.status, training=training))


def cluster_of(
    jobs: Mapping[str, AITrainingJob], *others: object, n_nodes: int = 2, began: str = LONG_AGO
) -> AutoscalerSnapshot:
    """Nodes a, b, ... of four devices; each job has a pod on each of the nodes that it is under."""
    things: list[object] = [
        a_node("abcdef"[at], cpu=99, memory="99Gi", gpu=4) for at in range(n_nodes)
    ]
    for nodes, job in jobs.items():
        things.append(job)
        things += [
            a_pod(job.metadata.name, "t", at, node, gpu=1, created=began)
            for at, node in enumerate(nodes)
        ]
    return look(*things, *others)  # type: ignore[arg-type]


def decided(snapshot: AutoscalerSnapshot, now: float | None = NOW) -> RoleTargets:
    parameters = Parameters(now=now, stopped=snapshot.stopped)
    return goodput(snapshot.jobs, snapshot.cluster, parameters)


def rigid(name: str, size: int) -> AITrainingJob:
    return a_job(name, targets={"t": size}, t=a_role(size, size, gpu=1, edl="Never"))


def of(targets: RoleTargets, name: str) -> RoleTarget:
    return targets[RoleId(JobId("ns", name), "t")]


class Cases:
    """A job of two replicas on two nodes, of which one could hold both."""

    @staticmethod
    def spread(job: AITrainingJob | None = None, **more: str) -> AutoscalerSnapshot:
        return cluster_of({"ab": job or a_reporting_job("j", 2, most=2)}, **more)  # type: ignore[arg-type]


def test_job_on_too_many_nodes_is_placed_anew() -> None:
    target = of(decided(Cases.spread()), "j")

    assert (target.target, target.moves, target.reason) == (2, True, SizeReason.MOVES)
    assert target.message == "2 are faster on 1 instead of 2 nodes"


def test_job_stays_that_gains_nothing_or_must_not_be_stopped() -> None:
    """Each of these alone keeps it: no save, a start just now, even speeds, little left."""
    stays = {
        "saves nothing": Cases.spread(a_reporting_job("j", 2, most=2, save_s=None)),
        "turn": Cases.spread(began=JUST_NOW),
        "even": Cases.spread(a_reporting_job("j", 2, most=2, times=EVEN_TIMES)),
        "ends": Cases.spread(a_reporting_job("j", 2, most=2, left=500)),
        "is together": cluster_of({"aa": a_reporting_job("j", 2, most=2)}),
        "no room": cluster_of(
            {
                "ab": a_reporting_job("j", 2, most=2),
                "aaabbb": a_job("x", targets={"t": 6}, t=a_role(6, 6, gpu=1, edl="Never")),
            }
        ),
        "one waits": Cases.spread(),
    }
    waits = a_job("w", phase="Pending", t=a_role(1, 1, gpu=1, edl="Never"))
    stays["one waits"] = cluster_of(
        {"ab": a_reporting_job("j", 2, most=2)}, waits, a_pod("w", "t", 0, gpu=1)
    )
    for why, snapshot in stays.items():
        assert not of(decided(snapshot), "j").moves, why
    assert not of(decided(Cases.spread(), now=None), "j").moves


def test_job_that_restarts_at_a_resize_comes_together_by_it() -> None:
    """Where others hold the rest of its node it grows on another one, with all it has."""
    x = a_job("x", targets={"t": 3}, t=a_role(3, 3, gpu=1, edl="Never"))
    target = of(decided(cluster_of({"a": a_reporting_job("j", 1, most=2), "aaa": x})), "j")

    assert (target.current, target.target, target.moves) == (1, 2, True)
    assert "on 1 instead of 2 nodes" in target.message


def test_job_grows_across_no_nodes_where_one_could_hold_it() -> None:
    """It cannot be stopped, and its node is full: what is free elsewhere is left to others."""
    x = a_job("x", targets={"t": 3}, t=a_role(3, 3, gpu=1, edl="Never"))
    job = a_reporting_job("j", 1, most=2, save_s=None)

    assert of(decided(cluster_of({"a": job, "aaa": x})), "j").target == 1
    assert of(decided(cluster_of({"a": job})), "j").target == 2


def test_job_that_finds_less_than_it_wants_gets_a_size_that_is_looked_at() -> None:
    """Four are wanted and its node has room for three: two are, and the third is for others."""
    job = a_reporting_job("j", 1, times=EVEN_TIMES, save_s=None, left=10**9)
    snapshot = cluster_of({"a": job, "abbb": rigid("x", 4)})

    assert of(decided(snapshot), "j").target == 2


def test_large_job_grows_on_its_own_and_on_empty_nodes_alone() -> None:
    """Eight across three nodes synchronise as slowly as on many, and are measured as that."""
    big = a_reporting_job("big", 4, most=8, times=WIDE_TIMES, save_s=None, left=10**9)
    apart = {"aaaa": big, "bb": rigid("x", 2), "cc": rigid("y", 2)}
    target = of(decided(cluster_of(apart, n_nodes=3)), "big")

    assert target.target == 4
    empty = {"aaaa": big, "bbbb": rigid("x", 4)}
    assert of(decided(cluster_of(empty, n_nodes=3)), "big").target == 8


def test_small_job_goes_elsewhere_where_a_large_one_gets_a_whole_node_by_that() -> None:
    big = a_reporting_job("big", 4, most=8, times=WIDE_TIMES, left=10**9)
    small = a_reporting_job("small", 1, times=FLAT_TIMES, left=10**9)
    jobs = {"aaaa": big, "b": small, "ccc": rigid("x", 3)}
    targets = decided(cluster_of(jobs, n_nodes=3))

    assert (of(targets, "small").moves, of(targets, "small").reason) == (True, SizeReason.MOVES)
    assert of(targets, "small").message == "a whole node is free for others without it"
    assert of(targets, "big").target == 4  # the node is not empty yet
    for why, other in {
        "saves nothing": a_reporting_job("small", 1, times=FLAT_TIMES, left=10**9, save_s=None),
        "ends soon": a_reporting_job("small", 1, times=FLAT_TIMES, left=500),
        "costs too much": a_reporting_job("small", 1, times=FLAT_TIMES, left=10**9, pause_s="300"),
    }.items():
        jobs = {"aaaa": big, "b": other, "ccc": rigid("x", 3)}
        assert not of(decided(cluster_of(jobs, n_nodes=3)), "small").moves, why


def test_room_of_a_job_that_is_placed_anew_is_kept_for_it() -> None:
    """It has no pods for a moment; another would take what it was stopped for."""
    moved = a_reporting_job("moved", 2, times=EVEN_TIMES, left=10**9)
    record = Yield(format_time(NOW - 1), format_time(NOW - 1 + MOVE_S), "together")
    moved = replace(moved, status=replace(moved.status, phase="Pending", yielded=record))
    other = a_reporting_job("other", 2, times=EVEN_TIMES, left=10**9)
    snapshot = cluster_of({"aa": other}, moved, n_nodes=1)

    assert [job.view.is_moving for job in snapshot.stopped] == [True]
    targets = decided(snapshot)
    assert of(targets, "other").target == 2
    assert (of(targets, "moved").target, of(targets, "moved").reason) == (2, SizeReason.GOES_ON)


def test_job_that_others_shrink_for_waits_for_their_room() -> None:
    """A raise that needs what a shrink frees is decided together with it, and follows it."""
    big = a_reporting_job("big", 6, most=8, times=EVEN_TIMES, pause_s="1", left=10**9)
    small = a_reporting_job("small", 2, times=EVEN_TIMES, pause_s="1", left=10**5)
    targets = decided(cluster_of({"aaaabb": big, "bb": small}))

    assert (of(targets, "big").target, of(targets, "small").target) == (4, 2)
    assert of(targets, "small").reason is SizeReason.NOT_FREE_YET

    smaller = a_reporting_job("big", 4, most=8, times=EVEN_TIMES, pause_s="1", left=10**9)
    assert of(decided(cluster_of({"aaaa": smaller, "bb": small})), "small").target == 4


def test_first_report_is_awaited_before_a_job_grows() -> None:
    """Its speed need not be guessed when it is about to be known; after two minutes it is."""
    job = a_job("j", t=a_role(1, 4, gpu=1))
    asked = replace(job, metadata=replace(job.metadata, annotations={REPORT_TOKEN_NOTE: "x"}))
    asks = replace(job, metadata=replace(job.metadata, annotations={TRAINING_NOTE: "true"}))

    for one in (asked, asks):
        young = cluster_of({"a": one}, began=format_time(NOW - 119))
        assert of(decided(young), "j").target == 1
        assert of(decided(young, now=None), "j").target == 4
        assert of(decided(cluster_of({"a": one}, began=format_time(NOW - 120))), "j").target == 4
    assert of(decided(cluster_of({"a": job}, began=JUST_NOW)), "j").target == 4


def test_move_is_damped_as_a_resize_is() -> None:
    """Not while pods are missing, nor within the cooldown of a raise."""
    record = {"time": format_time(NOW - 30), "role": "t", "from": 1, "to": 2, "by": "autoscaler"}
    job = a_job("j", targets={"t": 2}, records=[record], t=a_role(1, 2, gpu=1))
    snapshot = cluster_of({"ab": job})
    id_ = RoleId(JobId("ns", "j"), "t")
    wanted = {id_: RoleTarget(2, 2, SizeReason.MOVES, "", moves=True)}

    def damped(now: float) -> RoleTarget:
        return damp(wanted, snapshot.jobs, DampingInput(now=now, cooldown_s=60.0))[id_]

    assert (damped(NOW).moves, damped(NOW).reason) == (False, SizeReason.COOLING_DOWN)
    assert damped(NOW + 60).moves


def test_move_is_a_short_yield_with_the_new_size() -> None:
    job = a_reporting_job("j", 1)
    target = RoleTarget(1, 2, SizeReason.FASTER, "better", moves=True)
    proposal = SizeProposal(job.metadata.resource_version, "t", target, NOW, 1800.0)
    patch, event = decide_write(SizeChange(job, proposal), NOW).each_action()

    assert isinstance(patch, PatchStatus)
    assert isinstance(event, EmitEvent)
    body = patch.status
    assert body["targetReplicas"] == {"t": 2}
    assert parse_time(body["yielded"]["until"]) == NOW + MOVE_S
    assert event.message == "t grows from 1 to 2: better"


def test_move_without_a_resize_says_so() -> None:
    job = a_reporting_job("j", 2)
    target = RoleTarget(2, 2, SizeReason.MOVES, "faster", moves=True)
    proposal = SizeProposal(job.metadata.resource_version, "t", target, NOW, 1800.0)
    patch, event = decide_write(SizeChange(job, proposal), NOW).each_action()

    assert isinstance(patch, PatchStatus)
    assert isinstance(event, EmitEvent)
    assert list(patch.status) == ["yielded"]
    assert event.message == "t is placed anew with 2: faster"
