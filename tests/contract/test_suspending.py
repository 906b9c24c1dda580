"""`swell suspend` and `swell resume`, on the embedded server and on a real one."""

from __future__ import annotations

from tests.contract.swell_command import Swell
from tests.contract.test_stopping import JOB, OLD_JOB


def suspend_of(swell: Swell, name: str) -> object:
    body = swell.here("get", "aitj", name, "-o", "json").json
    spec = body["spec"]
    assert isinstance(spec, dict)
    return spec.get("suspend")


def test_job_is_suspended_and_resumed(swell: Swell) -> None:
    """The commands say what they did, and write the field and nothing else."""
    swell.here("apply", "-f", swell.file(JOB))

    assert swell.here("suspend", "fit").out == "aitrainingjob/fit suspended\n"
    assert suspend_of(swell, "fit") is True
    assert swell.here("resume", "aitj/fit").out == "aitrainingjob/fit resumed\n"
    assert suspend_of(swell, "fit") is False


def test_none_is_suspended_if_one_cannot_be(swell: Swell) -> None:
    """A TrainingJob cannot; the others named with it are left alone, and it is said why."""
    swell.here("apply", "-f", swell.file(JOB))
    swell.here("apply", "-f", swell.file(OLD_JOB))
    refused = swell.here("suspend", "fit", "old")

    assert refused.code == 1
    assert "old is a TrainingJob, which cannot be suspended" in refused.err
    assert suspend_of(swell, "fit") is None
    assert "no job nobody" in swell.here("suspend", "nobody").err
