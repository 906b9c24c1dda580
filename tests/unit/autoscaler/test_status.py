"""A decided size becomes a patch of the job's status, an event and a metric."""

from __future__ import annotations

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from swell.api.aitrainingjob import RECORDS_MAX, ReplicaStatus
from swell.api.core import EventSeverity
from swell.autoscaler.metrics import AutoscalerMetrics
from swell.autoscaler.policies.interface import RoleId, RoleTarget, SizeReason
from swell.autoscaler.status import SizeChange, SizeProposal, decide_write, may_resize
from swell.autoscaler.views import JobId, JobKind
from swell.runtime.plan import EmitEvent, PatchStatus, Plan
from tests.autoscaler_cases import a_job, a_role, a_training_job

NOW = 1_767_225_600.0
LATER = NOW + 40.0  # when it is written; its record has the time of the decision
SHRINK = RoleTarget(4, 2, SizeReason.PENDING_JOB, "ns/w waits for room", for_group="ns/w")


def parts(plan: Plan) -> tuple[PatchStatus, EmitEvent]:
    patch, event = plan.each_action()
    assert isinstance(patch, PatchStatus)
    assert isinstance(event, EmitEvent)
    return patch, event


def test_one_patch_with_target_record_and_version() -> None:
    """That role's target, the records with the new one, and the version decided on; an event."""
    earlier = {
        "time": "2025-01-01T00:00:00Z",
        "role": "t",
        "from": 1,
        "to": 4,
        "by": "operator",
        "reason": "as before",
        "for": "",
    }
    records = [earlier]
    job = a_job("a", targets={"t": 4}, records=records, t=a_role(1, 9))
    patch, event = parts(decide_write(SizeChange(job, SizeProposal("1", "t", SHRINK, NOW)), LATER))

    assert (patch.key, patch.version) == (job.metadata.key, "1")
    assert patch.status == {
        "targetReplicas": {"t": 2},
        "scaleRecords": [
            earlier,
            {
                "time": "2026-01-01T00:00:00Z",
                "role": "t",
                "from": 4,
                "to": 2,
                "by": "autoscaler",
                "reason": "ns/w waits for room",
                "for": "ns/w",
            },
        ],
    }
    assert (event.severity, event.reason) == (EventSeverity.NORMAL, "PendingJob")
    assert event.message == "t shrinks from 4 to 2: ns/w waits for room"


def test_records_are_bounded() -> None:
    """The last twenty are kept."""
    records = [{"role": "t", "from": n, "to": n + 1, "by": "user"} for n in range(RECORDS_MAX)]
    job = a_job("a", targets={"t": 4}, records=records, t=a_role(1, 9))
    patch, _ = parts(decide_write(SizeChange(job, SizeProposal("1", "t", SHRINK, NOW)), LATER))

    assert len(patch.status["scaleRecords"]) == RECORDS_MAX
    assert patch.status["scaleRecords"][-1]["to"] == 2
    assert patch.status["scaleRecords"][0]["from"] == 1


def test_job_that_has_changed_is_not_written() -> None:
    """A decision about another version of the job is none about this one."""
    job = a_job("a", t=a_role(1, 9))

    assert decide_write(SizeChange(job, SizeProposal("0", "t", SHRINK, NOW)), LATER) == Plan()
    assert decide_write(SizeChange(job, None), LATER) == Plan()


def test_training_job_has_its_own_fields() -> None:
    """The older interface keeps its names."""
    job = a_training_job("o", target=4)
    patch, _ = parts(
        decide_write(SizeChange(job, SizeProposal("1", "trainer", SHRINK, NOW)), LATER)
    )

    assert patch.status["trainer_target"] == 2
    assert [(r["from"], r["to"], r["by"]) for r in patch.status["scale_records"]] == [
        (4, 2, "autoscaler")
    ]


def test_first_target_is_left_to_the_operator() -> None:
    """A job that the operator has not accepted yet has no target to change."""
    assert may_resize(a_job("a", t=a_role()), "t")
    assert not may_resize(a_job("a", t=a_role()), "other")
    assert not may_resize(a_training_job("o"), "trainer")
    assert may_resize(a_training_job("o", target=1), "trainer")


def test_role_whose_status_tells_of_success_is_left_alone() -> None:
    """The operator may have seen a pod succeed before the autoscaler does."""
    job = a_job("a", t=a_role())
    done = {"t": ReplicaStatus(succeeded=1)}

    assert not may_resize(replace(job, status=replace(job.status, replica_statuses=done)), "t")


def test_metrics_tell_sizes_load_and_decisions() -> None:
    """Desired and actual replicas, load by resource, decisions by reason; who is gone is gone."""
    registry = CollectorRegistry()
    metrics = AutoscalerMetrics(registry)
    stays, goes = RoleId(JobId("ns", "a"), "t"), RoleId(JobId("ns", "o", JobKind.TRAINING_JOB), "t")
    metrics.sized({stays: (4, 3), goes: (1, 1)})
    metrics.sized({stays: (5, 3)})
    metrics.loaded({"cpu": 0.5})
    metrics.decided("RoomForMore")
    text = generate_latest(registry).decode()

    labels = '{job="a",kind="AITrainingJob",namespace="ns",role="t"}'
    assert f"swell_autoscaler_desired_replicas{labels} 5.0" in text
    assert f"swell_autoscaler_actual_replicas{labels} 3.0" in text
    assert 'job="o"' not in text
    assert 'swell_autoscaler_cluster_load{resource="cpu"} 0.5' in text
    assert 'swell_autoscaler_decisions_total{reason="RoomForMore"} 1.0' in text
