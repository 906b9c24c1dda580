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


def test_trainingjob_is_suspended_as_well(swell: Swell) -> None:
    """By the same commands, together with others."""
    swell.here("apply", "-f", swell.file(JOB))
    swell.here("apply", "-f", swell.file(OLD_JOB))

    said = swell.here("suspend", "fit", "old").out
    assert said == "aitrainingjob/fit suspended\ntrainingjob/old suspended\n"
    spec = swell.here("get", "tj", "old", "-o", "json").json["spec"]
    assert isinstance(spec, dict)
    assert spec["suspend"] is True


def test_none_is_suspended_if_one_cannot_be(swell: Swell) -> None:
    """The others named with it are left alone, and it is said why."""
    swell.here("apply", "-f", swell.file(JOB))
    refused = swell.here("suspend", "fit", "nobody")

    assert refused.code == 1
    assert suspend_of(swell, "fit") is None
    assert "no job nobody" in swell.here("suspend", "nobody").err
