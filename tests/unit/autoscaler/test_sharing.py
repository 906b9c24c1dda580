"""Step times in reports, and profiles that runs of one program share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert, to_body
from swell.api.report import TrainingReport
from swell.api.schemas.training import BATCHES_SIZE_MAX, NUMBER_SIZE_MAX
from swell.api.training import TrainingStatus
from swell.autoscaler.goodput.batches import BatchRange
from swell.autoscaler.goodput.evidence import SpeedEvidence, read_evidence
from swell.autoscaler.goodput.sharing import SharedProfile, SharedProfiles
from swell.autoscaler.goodput.stepmodel import SpeedSample
from swell.autoscaler.goodput.tables import size_limit, speed_table
from swell.autoscaler.job_views import PROFILE, program_of, shared_report
from swell.operator.framework.reports import ReceivedReport, training_status

BATCHES = BatchRange(128, 4096, 32, 256)
TIMES = {"1/1/128": (0.2, 0.0), "2/1/128": (0.22, 0.02), "4/1/64": (0.15, 0.03)}


def reported(**fields: object) -> TrainingStatus:
    given = {"rates": {"4": 900.0}, "step_times": TIMES, "batch_range": tuple(BATCHES), **fields}
    report = TrainingReport(generation=1, epoch=1, size=4, step=9, **given)  # type: ignore[arg-type]
    return training_status(ReceivedReport(report, 1_800_000_000.0, "trainer", 0))


def test_step_times_reach_the_policy() -> None:
    evidence = read_evidence(reported())

    assert evidence is not None
    assert SpeedSample(2, 1, 128.0, 0.22, 0.02) in evidence.samples
    assert evidence.batches == BATCHES
    assert evidence.largest == 4


def test_shapes_that_are_none_are_left_out_of_a_status() -> None:
    status = reported(
        step_times={"0/1/1": (1.0, 0.0), "x": (1.0, 0.0), "2/1/8": (-1.0, 0.0), **TIMES},
        batch_range=(0, 1, 1, 1),
    )

    assert set(status.step_times) == set(TIMES)
    assert status.batch_range == ""


@pytest.mark.parametrize(
    "times",
    [
        {"2/1/8": "0.1/0.2"},
        {"2/3/8": "0.2/0.1"},
        {"2/1": "0.2/0.1"},
        {"2/1/8": "0.2"},
        {"2/1/8": "nan/0.1"},
        {"2/1/8": "-1/0"},
        {"2/1/0": "0.2/0.1"},
        {"٢/1/8": "0.2/0.1"},
        {"2/1/8": "1e9/0.1"},
    ],
)
def test_absurd_step_times_make_a_report_none(times: dict[str, str]) -> None:
    """A part that is longer than the whole, more nodes than replicas, or no number at all."""
    status = TrainingStatus(rates={"2": "10"}, step_times=times)

    assert read_evidence(status) is None


@pytest.mark.parametrize("text", ["", "1/2/3", "9/8/1/1", "8/9/4/2", "a/b/c/d", "1/2/3/4/5"])
def test_contradicting_batches_are_none(text: str) -> None:
    status = TrainingStatus(rates={"2": "10"}, step_times={"2/1/8": "0.2/0.1"}, batch_range=text)
    evidence = read_evidence(status)

    assert evidence is not None
    assert evidence.batches is None


def evidence_of(*samples: SpeedSample, done: float = 0.0, noise: float = 9.0) -> SpeedEvidence:
    return SpeedEvidence(
        done=done, total=1e6, noise=noise, samples=samples, batches=BATCHES, pause_s=30.0
    )


SEEN = (
    SpeedSample(1, 1, 128.0, 0.2, 0.0),
    SpeedSample(1, 1, 64.0, 0.11, 0.0),
    SpeedSample(4, 1, 128.0, 0.22, 0.05),
    SpeedSample(16, 4, 128.0, 0.3, 0.12),
)


def test_a_new_run_is_sized_by_what_others_have_measured() -> None:
    profile = SharedProfiles().of("resnet")
    profile.learn(evidence_of(*SEEN, noise=50.0))
    found = profile.evidence(None, SpeedEvidence(batches=BATCHES))

    assert found is not None
    assert found.is_shared
    assert found.total == 1e6
    assert found.noise == 50.0
    assert size_limit(found, 64) == 64
    table = speed_table(found, (1, 4, 16), 4, 0.0)
    assert table.tier == "shared"
    assert 1.0 < table.speed[1] < table.speed[2]


def test_own_reports_come_first_and_an_empty_profile_changes_nothing() -> None:
    own = evidence_of(SEEN[0], done=10.0, noise=3.0)

    assert SharedProfile().evidence(own, own) is own
    profile = SharedProfile()
    profile.learn(evidence_of(*SEEN, noise=50.0))
    found = profile.evidence(own, own)
    assert found is not None
    assert (found.noise, found.done) == (3.0, 10.0)


def test_noise_is_that_of_the_same_part_of_a_run() -> None:
    profile = SharedProfile()
    for done, noise in ((0.0, 1.0), (5e5, 20.0), (9.9e5, 300.0)):
        profile.learn(evidence_of(*SEEN, done=done, noise=noise))
    at = [profile.evidence(None, SpeedEvidence(done=d, total=1e6)) for d in (1e4, 6e5, 9.5e5)]

    assert [one.noise if one else None for one in at] == [1.0, 20.0, 300.0]


def test_profiles_are_bounded() -> None:
    profile = SharedProfile()
    for size in range(1, 500):
        profile.learn(evidence_of(SpeedSample(size, 1, 8.0, 0.1, 0.0)))

    assert len(profile.samples) <= 64
    assert (1, 499, 8) in profile.samples


def a_reporting_job(name: str, namespace: str = "team", profile: str = "resnet") -> AITrainingJob:
    annotations = {PROFILE: profile} if profile else {}
    body = {
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "status": {"training": to_body(reported())},
    }
    return convert(body, AITrainingJob)


def test_jobs_share_a_profile_only_by_name_and_within_their_namespace() -> None:
    """What one job reports changes nothing for jobs that have not asked for it."""
    named, other = (shared_report(a_reporting_job("a", namespace)) for namespace in ("x", "y"))

    assert shared_report(a_reporting_job("a", profile="")) is None
    assert named is not None
    assert other is not None
    assert named[0] != other[0]
    assert named[1].largest == 4


def test_profile_of_unnamed_jobs_is_that_of_their_images_and_commands() -> None:
    def program(**container: object) -> str:
        roles = {"trainer": {"template": {"spec": {"containers": [container]}}}}
        body = {"metadata": {"name": "a", "namespace": "n"}, "spec": {"replicaSpecs": roles}}
        return program_of(convert(body, AITrainingJob))

    assert program(image="a", command=["x"]) == program(image="a", command=["x"], name="other")
    assert program(image="a", command=["x"]) != program(image="a", command=["y"])
    assert program() == program(image=None)


def test_the_longest_texts_fit_the_definition_of_a_job() -> None:
    """A status that the API server refuses would not be written for anything else either."""
    status = reported(
        step_times={"999999/999999/999999999": (86400.0, 86399.9), "1/1/1": (1e15, 1e15)},
        batch_range=(999_999_999,) * 4,
    )

    assert list(status.step_times) == ["999999/999999/999999999"]
    assert max(map(len, status.step_times.values())) <= NUMBER_SIZE_MAX
    assert 0 < len(status.batch_range) <= BATCHES_SIZE_MAX
    assert reported(batch_range=(2**53,) * 4).batch_range == ""


def test_one_measured_shape_tells_the_work_left() -> None:
    """With a single step time and no rate, it is in seconds of one replica all the same."""
    one = SpeedEvidence(done=0.0, total=64_000.0, samples=(SpeedSample(1, 1, 64.0, 0.5, 0.0),))
    adapting = replace(one, noise=100.0, batches=BATCHES)

    assert speed_table(one, (1, 2), 4, 0.0).left_s == pytest.approx(500.0)
    assert 50.0 < speed_table(adapting, (1, 2), 4, 0.0).left_s < 1000.0
