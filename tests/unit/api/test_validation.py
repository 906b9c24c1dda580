"""Validation: which problems are reported, with which texts, for which kinds."""

from __future__ import annotations

import pytest

from swell.api.meta import Body
from swell.api.validation import FieldProblem, ValidationError, check, path_text, validate
from swell.api.validation.hints import choices_hint, fields_hint, nearest
from swell.api.validation.problems import show
from tests.property.broken_manifests import manifest, with_field


def problems_at(body: Body) -> list[str]:
    return [problem.path for problem in validate(body)]


def test_all_problems_are_reported_at_once() -> None:
    """One pass finds everything, in every part of a manifest."""
    body = manifest("aitrainingjob-full")
    body["metadata"]["name"] = "Full"
    body["spec"]["cleanPodPolicy"] = "Sometimes"
    body["spec"]["replicaSpecs"]["Worker"]["replicas"] = 9
    body["spec"]["replicaSpecs"]["ps"]["template"]["spec"]["containers"][0]["image"] = ""
    body["spec"]["qeue"] = "x"

    assert sorted(problems_at(body)) == [
        "metadata.name",
        "spec.cleanPodPolicy",
        "spec.qeue",
        "spec.replicaSpecs.Worker.replicas",
        "spec.replicaSpecs.ps.template.spec.containers[0].image",
    ]


def test_check_raises_with_every_problem() -> None:
    """The one error carries the problems, and reads as a sentence a problem."""
    body = with_field(manifest("queue"), "spec.weight", 0)
    with pytest.raises(ValidationError) as caught:
        check(body)

    assert caught.value.problems == (
        FieldProblem(("spec", "weight"), "must be at least 1, is 0", "write 1 or more"),
    )
    assert str(caught.value) == "spec.weight: must be at least 1, is 0 (write 1 or more)"
    check(manifest("queue"))


def test_null_is_a_field_that_is_not_there() -> None:
    """Nulls are dropped by servers, so an optional null is fine and a required one is missing."""
    body = manifest("aitrainingjob-full")
    body["spec"]["timeLimit"] = None
    body["spec"]["replicaSpecs"]["Worker"]["restartLimit"] = None
    assert problems_at(body) == []

    body["spec"]["replicaSpecs"]["Worker"]["template"] = None
    assert problems_at(body) == ["spec.replicaSpecs.Worker.template"]


def test_status_in_a_manifest_does_not_matter() -> None:
    """People feed back what they got from a server; its status is ignored there too."""
    body = {**manifest("aitrainingjob-full"), "status": {"phase": "Whatever", "new": 1}}

    assert problems_at(body) == []


def test_unknown_fields_of_a_training_job_are_kept() -> None:
    """Existing manifests carry stray fields, in the spec and in its roles."""
    body = manifest("trainingjob-example")
    body["spec"]["outter"] = True
    body["spec"]["trainer"]["replicaSpec"] = {"status": {}}

    assert problems_at(body) == []


def test_local_jobs_may_ask_for_more_trainers() -> None:
    """A local job has one trainer whatever it asks for, so it need not be fault tolerant."""
    body = manifest("trainingjob-full")
    body["spec"]["fault_tolerant"] = False
    assert problems_at(body) == ["spec.fault_tolerant"]

    assert problems_at(with_field(body, "spec.local_job", True)) == []
    assert problems_at(with_field(body, "spec.frame_work.type", "local")) == []


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("spec.restartPolicy", "it belongs to spec.replicaSpecs.<name>"),
        ("spec.replicas", "it belongs to spec.replicaSpecs.<name>"),
        ("spec.replicaSpecs.ps.queue", "it belongs to spec"),
        (
            "spec.replicaSpecs.ps.image",
            "it belongs to spec.replicaSpecs.<name>.template.spec.containers[]",
        ),
        ("metadata.queue", "it belongs to spec"),
        ("spec.repliccas", "did you mean replicaSpecs?"),
    ],
)
def test_fields_in_the_wrong_place_get_a_hint_where_they_belong(path: str, hint: str) -> None:
    """A name known elsewhere is not a misspelt one."""
    (problem,) = validate(with_field(manifest("aitrainingjob-full"), path, "x"))

    assert (problem.path, problem.hint) == (path, hint)


def test_containers_have_distinct_names() -> None:
    """The second of two equal names is reported."""
    body = manifest("aitrainingjob-full")
    containers = body["spec"]["replicaSpecs"]["ps"]["template"]["spec"]["containers"]
    containers.append({"name": "aitj-ps", "image": "b"})
    (problem,) = validate(body)

    assert problem.path == "spec.replicaSpecs.ps.template.spec.containers[1].name"
    assert problem.message == 'is the same as in item 0: "aitj-ps"'


def test_overlong_lists_are_reported_once() -> None:
    """A list beyond its bound is one problem, not one for each item."""
    body = manifest("aitrainingjob-full")
    spec = body["spec"]["replicaSpecs"]["ps"]["template"]["spec"]
    spec["containers"] = [{"resources": {"limits": {"cpu": "x"}}}] * 5000
    problems = validate(body)

    assert problems[0].message == "must have at most 64 items, has 5000"
    assert len(problems) <= 65


@pytest.mark.parametrize("codes", ["137,128", "137", 137, "1, 255", "", " 9 "])
def test_exit_codes_in_all_forms_are_valid(codes: str | int) -> None:
    """Text or number, one or several, with or without blanks."""
    body = with_field(manifest("aitrainingjob-full"), "spec.restartingExitCode", codes)

    assert problems_at(body) == []


@pytest.mark.parametrize("kind", ["aitrainingjob-full", "trainingjob-full"])
def test_times_are_checked_before_a_server_does(kind: str) -> None:
    """A deadline is a date with time and zone."""
    for right in ("2027-01-01T06:00:00Z", "2027-01-01t06:00:00.5+02:00"):
        assert problems_at(with_field(manifest(kind), "spec.deadline", right)) == []
    for wrong in ("tomorrow", "2027-01-01", "2027-13-01T06:00:00Z", "2027-01-01T06:00:00"):
        assert problems_at(with_field(manifest(kind), "spec.deadline", wrong)) == ["spec.deadline"]


def test_guarantee_is_compared_with_capability_when_nothing_is_deserved() -> None:
    """The three amounts of a queue are in order, whichever of them are given."""
    body = manifest("queue")
    del body["spec"]["deserved"]
    body["spec"]["guarantee"]["resource"]["cpu"] = 65

    assert problems_at(body) == ["spec.guarantee.resource.cpu"]


def test_metadata_is_needed_in_every_kind() -> None:
    """Without a name nothing can be applied; a generated one will do."""
    config = {"apiVersion": "v1", "kind": "ConfigMap"}

    assert problems_at(config) == ["metadata.name"]
    assert problems_at({**config, "metadata": {"generateName": "a-"}}) == []
    assert problems_at({**config, "metadata": 5}) == ["metadata"]
    assert problems_at({**config, "metadata": {"name": "a"}, "data": 5}) == []


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        ("elasticdeeplearning.ai/v1", "AItrainingjob", "kind"),
        ("elasticdeeplearning.ai/v1", "Pod", "kind"),
        ("elasticdeeplearning.ai/v2", "AITrainingJob", "apiVersion"),
        ("elasticdeeplearing.ai/v1", "AITrainingJob", "apiVersion"),
        ("batch/v1", "AITrainingJob", "apiVersion"),
        ("kubeflow.org/v1", "AITrainingJob", "apiVersion"),
        ("paddlepaddle.org/v2", "TrainingJob", "apiVersion"),
        ("v1", "TrainingJob", "apiVersion"),
        ("scheduling.volcano.sh/v1", "Queue", "apiVersion"),
        ("scheduling.volcano.sh/v1beta1", "Queues", "kind"),
        ("", "AITrainingJob", "apiVersion"),
        (5, "AITrainingJob", "apiVersion"),
        ("v1", None, "kind"),
    ],
)
def test_misspelt_kinds_are_reported(version: object, kind: object, path: str) -> None:
    """Where one of our kinds is clearly meant, the wrong word is reported, and only once."""
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}
    frame = [path for path in problems_at(body) if path in {"apiVersion", "kind"}]

    assert frame == [path]


def test_the_rest_of_a_manifest_is_judged_under_a_misspelt_kind() -> None:
    """All wrong words are reported at once."""
    body = manifest("aitrainingjob-full")
    body["spec"]["queue"] = 5

    assert problems_at({**body, "kind": "AITrainigJob"}) == ["kind", "spec.queue"]
    assert problems_at({**body, "apiVersion": "v1"}) == ["apiVersion", "spec.queue"]
    assert problems_at({**body, "apiVersion": None}) == ["apiVersion", "spec.queue"]


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("scheduling.volcano.sh/v1beta1", "Reservation"),
        ("apps/v1", "Deployment"),
        ("kubeflow.org/v1", "TrainingJob"),
        ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup"),
    ],
)
def test_kinds_of_others_are_not_judged(version: str, kind: str) -> None:
    """What is not ours passes, for the server to judge."""
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": 5}

    assert problems_at(body) == []


@pytest.mark.parametrize(
    ("word", "known", "best"),
    [
        ("replcias", ["replicas", "minReplicas"], "replicas"),
        ("min_replicas", ["replicas", "minReplicas"], "minReplicas"),
        ("never", ["Auto", "Never"], "Never"),
        ("xyz", ["Auto", "Never"], None),
        ("a" * 1000, ["a" * 1000], None),
    ],
)
def test_nearest_word(word: str, known: list[str], best: str | None) -> None:
    """Case and separators do not count; what is like nothing has no nearest."""
    assert nearest(word, known) == best


def test_hints_name_what_there_is() -> None:
    """Without a likely word the hint lists the known ones."""
    assert fields_hint("zzz", ["b", "a"]) == "one of a, b"
    assert choices_hint(5, ["On", ""]) == 'one of On, ""'
    assert choices_hint("x", [str(n) for n in range(99)]).endswith("23, …")


def test_paths_are_readable() -> None:
    """Plain names are joined by dots, positions and odd names are in brackets."""
    assert path_text(("spec", "a-b", 0, "nvidia.com/gpu")) == 'spec.a-b[0]["nvidia.com/gpu"]'
    assert path_text(()) == ""


@pytest.mark.parametrize(
    ("value", "terms"),
    [
        ("a\nb", '"a\\nb"'), (None, "null"), (True, "true"), (3, "3"), (2**200, "a huge number"),
        (1.5, "1.5"), (float("nan"), "not a finite number"), ({}, "an object"), ([], "a list"),
        (object(), "no JSON value"), ("é", '"é"'),
    ],
)  # fmt: skip
def test_values_are_shown_in_a_few_words(value: object, terms: str) -> None:
    """Whatever a manifest holds, it is shown on one short line."""
    assert show(value) == terms
    assert len(show("x" * 1000)) < 100
