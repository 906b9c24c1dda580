"""`swell explain` over objects in files: what it says, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup
from swell.cli.explain.target import TargetName, target_in
from swell.cli.explain.text import render
from swell.cli.main import run
from swell.outlook.explaining import ExplainReport, report_on
from swell.outlook.reading import ExplainInput
from swell.outlook.target import ExplainTarget, of_job
from swell.scheduler.config import DEFAULT
from swell.scheduler.plan import SchedulerObjects

ROOT = Path(__file__).parents[3]
BUSY = str(ROOT / "examples" / "busy-cluster.yaml")
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def explain(*arguments: str) -> int:
    return run(["explain", *arguments, "-f", BUSY])


def test_page_on_scheduling_shows_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Word for word, but for what is left out."""
    page = (ROOT / "docs" / "scheduling.md").read_text()
    found = re.search(r"\$ swell explain team/later -f \S+\n(.*?)```", page, re.DOTALL)
    assert found is not None

    assert explain("team/later") == 0
    said = capsys.readouterr().out.splitlines()
    for shown, line in zip(found[1].splitlines(), said, strict=True):
        head, _, _ = shown.partition("…")
        assert line.startswith(head), line


def test_json_has_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """One object, whose keys do not depend on the answer."""
    assert explain("later", "-n", "team", "-o", "json") == 0
    waiting = json.loads(capsys.readouterr().out)
    assert explain("overnight", "-n", "team", "-o", "json") == 0
    running = json.loads(capsys.readouterr().out)

    assert waiting.keys() == running.keys()
    assert (waiting["standing"], running["standing"]) == ("Waiting", "Running")
    assert waiting["summary"].startswith("team/later waits")
    assert waiting["classes"][0]["refusals"] == [
        {"reason": "InsufficientResource", "nNodes": 2, "resource": "cpu", "text": "short of cpu"}
    ]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("team/nobody",), 1),
        (("pod/later-trainer-0", "-n", "team"), 0),
        (("aitj/later", "-n", "team"), 1),
        (("team/later", "-n", "other"), 2),
        (("a", "b"), 2),
        (("/later",), 2),
    ],
)
def test_words_are_understood_or_refused(
    arguments: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not there is an error, what makes no sense a matter of usage."""
    assert explain(*arguments) == code
    assert bool(capsys.readouterr().out) == (code == 0)


KEY = Key("ns", "g")
GROUP: dict[str, object] = {
    "metadata": {"name": "g", "namespace": "ns"},
    "spec": {"minMember": 1, "queue": "q"},
}


def report(pod: dict[str, object], **more: object) -> ExplainReport:
    meta = {
        "name": "p",
        "namespace": "ns",
        "annotations": {"scheduling.k8s.io/group-name": "g"},
    }
    body = {"metadata": meta, "spec": {"schedulerName": "swell"}, **pod}
    objects = SchedulerObjects(
        groups=[convert({**GROUP, **more}, PodGroup)], pods=[convert(body, Pod)]
    )
    return report_on(ExplainTarget("PodGroup", KEY, KEY), ExplainInput(objects), DEFAULT, ())


def test_words_of_the_scheduler_stand_beside_ours() -> None:
    """The same, other words, or none at all."""
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "QueueNotFound",
        "message": "m",
        "lastTransitionTime": "2025-12-31T23:57:00Z",
    }
    same = report({}, status={"conditions": [condition]})
    other = report({}, status={"conditions": [{**condition, "reason": "AdmissionBackOff"}]})

    assert "The scheduler says the same, since 3m ago." in render(same, NOW)
    assert "The scheduler said 3m ago: Unschedulable, AdmissionBackOff: m" in render(other, NOW)
    assert "does one run?" in render(report({}), NOW)


def test_pods_of_another_scheduler_are_reported() -> None:
    """They are not ours to explain."""
    said = render(report({"spec": {"schedulerName": "default-scheduler"}}), NOW)

    assert "Note: its pods ask for scheduler default-scheduler" in said


def test_placed_pod_that_does_not_run_is_reported_with_its_problem() -> None:
    """As its node reports it."""
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    said = report(
        {
            "spec": {"schedulerName": "swell", "nodeName": "n"},
            "status": {"phase": "Pending", "containerStatuses": [{"name": "c", "state": waiting}]},
        }
    )

    assert said.summary == "ns/g starts: its pods have nodes, 1 of them do not run yet"
    assert "p on n: ImagePullBackOff: no such image" in render(said, NOW)


def test_ended_job_is_reported_in_one_line() -> None:
    """Nothing else is looked at."""
    ended = ExplainTarget(
        "AITrainingJob", KEY, KEY, "Failed", "trainer-0: exit code 3", is_final=True
    )

    assert render(report_on(ended, ExplainInput(SchedulerObjects()), DEFAULT, ()), NOW) == (
        "ns/g has ended: Failed: trainer-0: exit code 3\n"
    )


def test_user_who_may_not_list_sees_what_the_scheduler_wrote() -> None:
    """No session is run over half a cluster."""
    condition = {"type": "Unschedulable", "status": "True", "reason": "R", "message": "m"}
    group = convert({**GROUP, "status": {"conditions": [condition]}}, PodGroup)
    found = ExplainInput(
        SchedulerObjects(groups=[group]), ("you may not list nodes",), is_whole=False
    )
    said = render(
        report_on(ExplainTarget("PodGroup", KEY, KEY, "Pending"), found, DEFAULT, ()), NOW
    )

    assert said.startswith("ns/g is Pending\n")
    assert "you may not list nodes" in said
    assert "The scheduler said once: Unschedulable, R: m" in said


def test_elastic_job_is_reported_with_its_sizes() -> None:
    """What it may be, is meant to be, and who saw to it last."""
    record = {"role": "t", "from": 4, "to": 2, "by": "scheduler", "for": "ns/urgent"}
    role = {"replicas": 4, "minReplicas": 1, "maxReplicas": 4, "edlPolicy": "Auto"}
    body = {
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"replicaSpecs": {"t": role, "fixed": {"replicas": 1}}},
        "status": {"phase": "Running", "targetReplicas": {"t": 2}, "scaleRecords": [record]},
    }
    objects = SchedulerObjects(
        groups=[convert(GROUP, PodGroup)], training_jobs=[convert(body, AITrainingJob)]
    )
    target = target_in(TargetName("g"), "ns", objects)
    said = report_on(target, ExplainInput(objects), DEFAULT, ())
    line = "Size      t: 2 of 1 to 4, Auto; last resized from 4 to 2 by the scheduler for ns/urgent"

    assert line in render(said, NOW).splitlines()
    assert [one["role"] for one in said.body()["sizes"]] == ["t"]


@pytest.mark.parametrize(
    ("spec", "status", "said"),
    [
        ({"suspend": True}, {}, "ns/fit is suspended; let it queue anew: swell resume fit"),
        ({}, {"suspension": {"startedAt": "2026-01-01T00:00:00Z"}}, "when its pods of before"),
        ({}, {"reason": "WaitingForJobs", "message": "waits for prepare"}, "fit waits for prepare"),
    ],
)
def test_job_that_asks_for_no_room_says_why(
    spec: dict[str, object], status: dict[str, object], said: str
) -> None:
    """It has no PodGroup, and nothing is wrong with its controller."""
    meta = {"name": "fit", "namespace": "ns"}
    body = {"metadata": meta, "spec": spec, "status": {"phase": "Pending", **status}}
    target = of_job(convert(body, AITrainingJob))
    shown = render(report_on(target, ExplainInput(SchedulerObjects()), DEFAULT, ()), NOW)

    assert said in shown
    assert "PodGroup" not in shown
