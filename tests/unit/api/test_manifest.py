"""Reading manifests: documents, lists, lines, and findings for texts that cannot be read."""

from __future__ import annotations

import json
import math
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.api.manifest import Finding, findings_of, read
from swell.api.manifest.scalars import Scalar, plain_scalar
from tests.property.broken_manifests import MANIFESTS, manifest

JOB = textwrap.dedent(
    """\
    apiVersion: elasticdeeplearning.ai/v1
    kind: AITrainingJob
    metadata:
      name: fit
    spec:
      cleanPodPolicy: Al
      replicaSpecs:
        trainer:
          replica: 2
          template:
            spec:
              containers:
                - name: a
                  image: b
                - name: c
    """
)


def findings_in(text: str | bytes) -> list[str]:
    return [str(finding) for finding in findings_of([read(text, "job.yaml")])]


def test_findings_have_file_line_path_message_and_hint() -> None:
    """Every problem is printed as one line that leads to its place."""
    assert findings_in(JOB) == [
        'job.yaml:6: spec.cleanPodPolicy: unsupported value "Al"'
        " (one of All, Running, None; did you mean All?)",
        "job.yaml:9: spec.replicaSpecs.trainer.replica: unknown field (did you mean replicas?)",
        "job.yaml:15: spec.replicaSpecs.trainer.template.spec.containers[1].image: is required"
        " (add it, for example image: python:3.12)",
    ]


def test_json_is_read_with_lines_too() -> None:
    """JSON, also with tabs, has lines like YAML."""
    body = manifest("aitrainingjob-full")
    body["spec"]["queue"] = 5
    text = json.dumps(body, indent="\t")
    (finding,) = findings_of([read(text, "job.json")])

    assert finding.path == "spec.queue"
    assert '"queue": 5' in text.splitlines()[finding.line - 1]


def test_documents_are_split_and_empty_ones_dropped() -> None:
    """A file holds any number of documents, and lines count on through them."""
    reading = read(f"---\n---\n{JOB}---\n# nothing\n---\nkind: ConfigMap\napiVersion: v1\n")

    assert [document.body["kind"] for document in reading.documents] == [
        "AITrainingJob",
        "ConfigMap",
    ]
    assert reading.documents[0].line_of(("spec", "cleanPodPolicy")) == 8
    assert reading.findings == ()


def test_lists_are_opened() -> None:
    """The items of a List are documents, with the lines of the file."""
    text = "\n".join(
        ["apiVersion: v1", "kind: List", "items:"]
        + [
            "- " + line if index == 0 else "  " + line
            for index, line in enumerate(JOB.splitlines())
        ]
    )
    (document,) = read(text).documents

    assert document.body["metadata"]["name"] == "fit"
    assert document.line_of(("spec", "cleanPodPolicy")) == 9
    assert findings_in("kind: List\napiVersion: v1\nitems: 5\n") == [
        "job.yaml:3: items: must be a list, is 5 (write items: [])"
    ]


def test_line_of_a_missing_field_is_that_of_its_parent() -> None:
    """A missing field is reported where it should be."""
    (document,) = read(JOB).documents

    assert document.line_of(("spec", "replicaSpecs", "trainer", "template", "metadata")) == 10
    assert document.line_of(("nowhere",)) == 1


def test_repeated_keys_are_reported() -> None:
    """The second of two equal keys is reported with its line, in YAML and in JSON."""
    for text in ("a: 1\nb:\n  c: 1\n  c: 2\n", '{"a": 1,\n"b": {\n"c": 1,\n"c": 2}}'):
        (finding,) = read(text, "f").findings
        assert finding == Finding("f", 4, "b.c", "stands here twice", "remove one of them")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: [1,\nb: 2\n", 3, "while parsing a flow"),
        ("a: b: c\n", 1, "mapping values are not allowed"),
        ("a:\n\t- b\n", 2, "a tab in the indentation"),
        ("ok: 1\n---\n'open\n", 4, "unexpected end of stream"),
        ("a: \x00\n", 1, "unreadable character"),
        ("x: 1\ny: &a [*a]\n", 2, "alias *a refers to nothing"),
        ("a: *none\n", 1, "alias *none refers to nothing"),
        ("a: !!python/name:os.system x\n", 1, "cannot be a"),
        ("a: !!int x\n", 1, "cannot be a"),
        ("? [a, b]\n: c\n", 1, "a key must be a text"),
        ("~: c\n", 1, "a key is missing"),
        ("[" * 200 + "]" * 200, 1, "more than 100 deep"),
        ("[" * 100_000, 1, "more than 100 deep"),
        ('{"a":' * 200 + "1" + "}" * 200, 1, "more than 100 deep"),
        ('{"a": "\\ud800"}', 1, "invalid Unicode"),
        ("\ud800", 1, "is not UTF-8"),
        (b"a: 1\nb: \xff\n", 2, "is not UTF-8"),
    ],
    ids=range(17),
)
def test_unreadable_text_is_reported_with_its_line(
    text: str | bytes, line: int, message: str
) -> None:
    """What cannot be read is a finding like any other, and nothing is raised."""
    reading = read(text, "f")

    assert message in reading.findings[-1].message
    assert reading.findings[-1].line == line
    assert reading.findings[-1].hint


def test_documents_before_an_error_are_kept() -> None:
    """One broken document does not hide those before it."""
    reading = read("kind: A\n---\nkind: [\n")

    assert [document.body for document in reading.documents] == [{"kind": "A"}]
    assert len(reading.findings) == 1


def test_alias_bombs_are_refused() -> None:
    """Aliases of aliases may not blow a small file up."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (finding,) = read("\n".join(lines)).findings

    assert finding.message == "aliases make the document too large"


def test_aliases_and_merges_are_written_out() -> None:
    """An alias is a copy, a merge fills in what is not there; nothing is shared."""
    text = "base: &base {cpu: 1, sizes: [1]}\nbig: {<<: *base, cpu: 2}\nsame: *base\n"
    (document,) = read(text).documents
    body = document.body

    assert body["big"] == {"cpu": 2, "sizes": [1]}
    assert body["same"] == body["base"]
    assert body["same"]["sizes"] is not body["base"]["sizes"]


def test_merges_of_no_object_add_nothing() -> None:
    """`<<` takes objects, and lists of them; earlier ones win."""
    text = "a: &a {x: 1}\nb: &b {x: 2, w: 2}\nc: {<<: [*a, *b]}\nd: {<<: 5, z: 1}\n"
    (document,) = read(text).documents

    assert document.body["c"] == {"x": 1, "w": 2}
    assert document.body["d"] == {"z": 1}


def test_json_that_yaml_cannot_read_has_no_lines() -> None:
    """A key too long for YAML is fine in JSON; all is then on line 1."""
    (document,) = read('{"%s": 1,\n"b": 2}' % ("k" * 2000)).documents

    assert document.body["b"] == 2
    assert document.line_of(("b",)) == 1


@pytest.mark.parametrize("text", ["5", "- a\n- b\n", "just terms", '"text"', "[1]"])
def test_documents_that_are_no_objects_are_reported(text: str) -> None:
    """A manifest is an object."""
    (finding,) = read(text).findings

    assert finding.message.startswith("must be an object")


def test_empty_text_holds_nothing() -> None:
    """No document is no problem here."""
    assert read("").documents == read(b"\xef\xbb\xbf# only words\n").documents == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("Off", False), ("n", False), ("tRue", "tRue"), ("~", None), ("", None),
        ("0777", 511), ("0o17", 15), ("0x1F", 31), ("-0b11", -3), ("08", 8), ("1_000", 1000),
        ("1.5", 1.5), ("1.0", 1), ("1e3", 1000), (".5", 0.5), ("._5", "._5"), ("1.", 1),
        ("1:30", "1:30"), ("2001-01-01", "2001-01-01"), ("137,128", "137,128"), ("500m", "500m"),
        ("1e999", "1e999"), ("-.inf", -math.inf), ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64), ("-", "-"), ("0x", "0x"), ("+5", 5),
    ],
)  # fmt: skip
def test_words_mean_what_kubectl_takes_them_for(text: str, value: Scalar) -> None:
    """YAML 1.1 booleans and octals, no base 60, dates as texts, whole numbers as integers."""
    found = plain_scalar(text)

    assert found == value
    assert type(found) is type(value)


def test_quoted_words_are_texts() -> None:
    """Quotes and the tag !!str make a text of anything."""
    (document,) = read("a: 'yes'\nb: \"5\"\nc: !!str 5\nd: !!float 5\ne: |\n  5\n").documents

    assert document.body == {"a": "yes", "b": "5", "c": "5", "d": 5, "e": "5\n"}


def test_keys_are_always_texts() -> None:
    """Numbers and booleans as keys become the texts JSON would have."""
    (document,) = read("1: a\nyes: b\n0x10: c\n1.5: d\n").documents

    assert document.body == {"1": "a", "true": "b", "16": "c", "1.5": "d"}


@given(st.text(alphabet=st.characters(), max_size=40) | st.binary(max_size=40))
def test_any_text_is_read_without_raising(text: str | bytes) -> None:
    """Whatever is in a file, reading and judging it raises nothing."""
    findings_of([read(text)])


@given(st.text(alphabet="ab:-[]{},&*!?|>'\"#%\n\t 01~<", max_size=60))
def test_any_yaml_like_text_is_read_without_raising(text: str) -> None:
    """The same for texts made of YAML's own signs."""
    for finding in findings_of([read(text)]):
        assert finding.line >= 1
        assert finding.hint


def test_yaml_and_json_of_a_manifest_are_equal() -> None:
    """The form a manifest is written in does not matter."""
    for path in sorted(MANIFESTS.glob("*.yaml")):
        (document,) = read(path.read_bytes()).documents
        (again,) = read(json.dumps(document.body)).documents
        assert again.body == document.body
