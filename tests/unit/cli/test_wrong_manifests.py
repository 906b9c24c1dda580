"""Mistakes in manifests: all are found at once, with their lines and a hint."""

from __future__ import annotations

import re

import pytest

from swell.api.manifest import Finding, read
from swell.cli.manifest_checks import EMPTY, all_findings
from tests.unit.cli.wrong_manifests import ENV, GOOD, MOUNTS, POD, RESOURCES, VOLUMES, WRONG, Wrong


def found_in(text: str, *, refuses_unknown_kinds: bool = True) -> list[Finding]:
    return all_findings([read(text, "job.yaml")], refuses_unknown_kinds=refuses_unknown_kinds)


def test_good_manifest_has_no_findings() -> None:
    """The manifest that all mistakes are made in is valid."""
    assert found_in(GOOD) == []


def test_there_are_sixty_mistakes() -> None:
    """As many as a demanding reader asks for, most of them in the pod template."""
    assert len(WRONG) >= 60
    assert sum(POD in path for one in WRONG.values() for _, path, _ in one.said) >= 40


@pytest.mark.parametrize("name", WRONG)
def test_mistake_is_reported_with_its_line_and_a_hint(name: str) -> None:
    """Exactly the expected fields are named, each in its line and with words that help."""
    case = WRONG[name]
    found = found_in(case.text)
    reported = {(finding.line, finding.path) for finding in found}

    assert reported == {(line, path) for line, path, _ in case.said}, list(map(str, found))
    for line, path, part in case.said:
        texts = [str(one) for one in found if (one.line, one.path) == (line, path)]
        assert any(part in text for text in texts), texts


def test_mistakes_are_reported_all_at_once() -> None:
    """Every part of a manifest is looked at, however many parts are wrong."""
    text = GOOD.replace(VOLUMES, "volums: []\n          " + VOLUMES)
    text = text.replace(ENV, "env: [{name: LR, value: 0.1}]")
    text = text.replace(RESOURCES, "resources: {limits: {cpus: 1}}")
    text = text.replace(MOUNTS, "volumeMounts: [{name: dta, mountPath: /data}]")
    text = text.replace("replicas: 2", "replica: 2")

    assert [finding.line for finding in found_in(text)] == [8, 12, 17, 18, 19]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n---\n"])
def test_file_without_an_object_is_a_mistake(text: str) -> None:
    """An empty file is most often one that was not saved."""
    (finding,) = found_in(text)

    assert str(finding) == f"job.yaml:1: {EMPTY} (is it saved?)"


def test_unknown_kind_is_a_mistake_unless_passed_over() -> None:
    """A kind that neither we nor the API server know is reported, with the way around it."""
    text = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
    (finding,) = found_in(text)

    assert (finding.line, finding.path) == (2, "kind")
    assert "--ignore-unknown" in finding.hint
    assert found_in(text, refuses_unknown_kinds=False) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndta: {a: b}\n",
            "job.yaml:4: dta: unknown field (did you mean data?)",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 1}\n",
            "job.yaml:4: data.a: must be a text, is 1 (put it in quotes)",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
            "spec: {containers: [{name: a, image: b, comand: [ls]}]}\n",
            "job.yaml:4: spec.containers[0].comand: unknown field (did you mean command?)",
        ),
    ],
)
def test_mistake_in_a_built_in_kind_is_reported(text: str, expected: str) -> None:
    """Other objects of a manifest are checked by what servers publish about their kinds."""
    assert [str(finding) for finding in found_in(text)] == [expected]


def test_mistake_in_a_training_job_is_reported_where_it_becomes_a_pod() -> None:
    """Volumes, tolerations and probes of a TrainingJob are those of its pods."""
    text = (
        "apiVersion: paddlepaddle.org/v1\nkind: TrainingJob\nmetadata: {name: a}\nspec:\n"
        "  image: x\n  volumes: [{name: d, emptydir: {}}]\n"
        "  trainer: {entrypoint: x, tolerations: [{ky: a}], liveness_probe: {tcp: {}}}\n"
    )

    assert [(one.line, one.path) for one in found_in(text)] == [
        (6, "spec.volumes[0].emptydir"),
        (7, "spec.trainer.tolerations[0].ky"),
        (7, "spec.trainer.liveness_probe.tcp"),
    ]


def test_status_of_an_object_that_was_read_is_no_mistake() -> None:
    """Whoever applies what `get -o yaml` printed is not bothered with fields of a newer server."""
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
        "spec: {containers: [{name: a, image: b}]}\nstatus: {newer: 1}\n"
    )

    assert found_in(text) == []


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_finding_is_one_printable_line(case: Wrong) -> None:
    """Whatever a manifest holds, one finding is one line."""
    for finding in found_in(case.text):
        assert re.fullmatch(r"job\.yaml:\d+: [^\n\r]+", str(finding))
