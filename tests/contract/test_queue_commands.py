"""`swell queue` and `swell explain`, on the embedded and on a real cluster.

No scheduler runs here: what is written is what the commands themselves write.
"""

from __future__ import annotations

import pytest

from swell import connect
from tests.contract.swell_command import Swell

GROUP = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: NAME}
spec: {minMember: 2, queue: QUEUE}
"""
POD = """\
---
apiVersion: v1
kind: Pod
metadata: {name: NAME-INDEX, annotations: {scheduling.k8s.io/group-name: NAME}}
spec:
  schedulerName: swell
  containers: [{name: c, image: local, resources: {requests: {cpu: "1000"}}}]
"""
# Other tests may have left nodes on the same cluster, none of which is large enough.
CONCLUSIONS = (
    "waits: 2 pods have no node; 2 must start together",
    "can never start on this cluster as it is: a pod of the gang asks for 1k cpu",
)
JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit}
spec: {replicaSpecs: {a: {template: {spec: {containers: [{name: aitj-a, image: local}]}}}}}
"""
OLD_JOB = """\
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {name: old}
spec:
  image: local
  trainer: {entrypoint: "true", min-instance: 1, max-instance: 1}
"""


def group(swell: Swell, name: str, queue: str, n_pods: int = 0) -> None:
    pods = "".join(POD.replace("INDEX", str(index)) for index in range(n_pods))
    assert swell.apply((GROUP + pods).replace("NAME", name).replace("QUEUE", queue)).code == 0


@pytest.fixture
def names(swell: Swell) -> list[str]:
    """Names of queues that no other test uses: they have no namespace."""
    return [f"{swell.namespace}-{letter}" for letter in "abc"]


def test_queue_is_created_listed_and_deleted(swell: Swell, names: list[str]) -> None:
    """Every answer is one line on stdout, or objects as they are."""
    first, second, _ = names
    flags = ("--weight", "3", "--capability", "cpu=8,nvidia.com/gpu=2", "--guarantee", "cpu=2")

    assert swell("queue", "create", first, *flags).out == f"queue/{first} created\n"
    assert swell("queue", "create", second, "--parent", first).code == 0
    listed = swell("queue", "list")
    found = swell("queue", "describe", first, "-o", "json").json
    assert f"\n{first} " in f"\n{listed.out}".replace("\n  ", "\n")
    assert "cpu=8,nvidia.com/gpu=2" in listed.out
    assert found["spec"] == {
        "weight": 3,
        "reclaimable": True,
        "capability": {"cpu": "8", "nvidia.com/gpu": "2"},
        "guarantee": {"resource": {"cpu": "2"}},
    }
    assert swell("queue", "list", "-o", "json").json["kind"] == "List"
    assert f"queue/{second}\n" in swell("queue", "list", "-o", "name").out

    refused = swell("queue", "delete", first)
    assert (refused.code, refused.out) == (1, "")
    assert f"has queues below it: {second}" in refused.err
    assert swell("queue", "delete", second, first).out == (
        f"queue/{second} deleted\nqueue/{first} deleted\n"
    )
    assert swell("queue", "describe", first).code == 1


def test_queue_create_reports_all_problems_at_once(swell: Swell, names: list[str]) -> None:
    """With the flag that is meant and what to do about it; nothing is created."""
    flags = ("--weight", "0", "--guarantee", "cpu=9", "--deserved", "cpu=4", "--capability=cpu=2")
    more = ("--guarantee", "memory=much", "--parent", "nowhere")
    refused = swell("queue", "create", names[0], *flags, *more)

    assert (refused.code, refused.out) == (1, "")
    assert refused.err.count("error: ") == 5
    assert "--guarantee memory" in refused.err
    assert "--parent: there is no queue nowhere" in refused.err
    assert "--weight" in refused.err
    assert "--guarantee cpu: must not be greater than deserved" in refused.err
    assert "--deserved cpu: must not be greater than capability" in refused.err
    assert swell("queue", "describe", names[0]).code == 1


def test_queue_create_knows_the_queues_around(swell: Swell, names: list[str]) -> None:
    """The parent exists, has no groups of its own, and has as much to give."""
    first, second, third = names
    swell("queue", "create", first, "--capability", "cpu=4", "--deserved", "cpu=4")
    swell("queue", "create", second, "--parent", first, "--deserved", "cpu=3")
    group(swell, "g", second)
    nowhere = swell("queue", "create", third, "--parent", "nowhere")
    busy = swell("queue", "create", third, "--parent", second)
    much = swell("queue", "create", third, "--parent", first, "--capability", "cpu=5")
    sum_ = swell("queue", "create", third, "--parent", first, "--deserved", "cpu=2")

    assert "--parent: there is no queue nowhere" in nowhere.err
    assert f"queue {second} has 1 groups of its own" in busy.err
    assert "--capability cpu: 5 is more than" in much.err
    assert "--deserved cpu: 2 is more than the 1 that" in sum_.err
    assert [answer.code for answer in (nowhere, busy, much, sum_)] == [1] * 4


@pytest.mark.parametrize("flag", ["--capability=cpu", "--deserved==4", "--weight=heavy"])
def test_queue_create_refuses_what_it_cannot_read(swell: Swell, flag: str) -> None:
    """That is a matter of usage."""
    answer = swell("queue", "create", "q", flag)

    assert (answer.code, answer.out) == (2, "")


def test_queue_closes_and_opens(swell: Swell, names: list[str]) -> None:
    """A queue with groups is closing, one without is closed; what is closed by its parent cannot
    be opened alone."""
    first, second, third = names
    swell("queue", "create", first)
    swell("queue", "create", second, "--parent", first)
    swell("queue", "create", third)
    group(swell, "g", third)

    assert swell("queue", "close", first, third).out == (
        f"queue/{first} closed\nqueue/{third} closing\n"
    )
    assert swell("queue", "close", first).out == f"queue/{first} closed\n"
    refused = swell("queue", "open", second)
    assert (refused.code, refused.out) == (1, "")
    assert f"swell queue open {first}" in refused.err
    assert swell("queue", "open", first, second).out == f"queue/{first} open\nqueue/{second} open\n"
    assert "State:        Closing" in swell("queue", "describe", third).out
    busy = swell("queue", "delete", third)
    assert busy.code == 1
    assert "has 1 group" in busy.err
    assert swell("queue", "delete", third, "--force").code == 0


def test_queue_that_is_not_there_is_an_error(swell: Swell) -> None:
    """For every command, with nothing on stdout."""
    for verb in ("describe", "close", "open", "delete"):
        answer = swell("queue", verb, "nowhere")

        assert (answer.code, answer.out) == (1, "")
        assert "no queue nowhere" in answer.err


def test_built_in_queues_are_not_deleted(swell: Swell) -> None:
    """By neither command that could."""
    for name in ("root", "default"):
        if swell("queue", "describe", name).code:
            swell("queue", "create", name)

        assert swell("queue", "delete", name).code == 1
        assert swell("delete", "queue", name).code == 1
        assert swell("queue", "describe", name).code == 0


def test_explain_reports_numbers(swell: Swell, names: list[str]) -> None:
    """Of a group that no node is large enough for: by any of its names, in text and JSON."""
    swell("queue", "create", names[0])
    group(swell, "big", names[0], n_pods=2)
    result = swell.here("explain", "big")
    json = swell("explain", f"{swell.namespace}/big", "-o", "json").json
    by_kind = swell.here("explain", "pg/big", "-o", "json").json
    by_pod = swell.here("explain", "pod", "big-0", "-o", "json").json

    assert result.code == 0
    assert result.out.startswith(tuple(f"{swell.namespace}/big {one}" for one in CONCLUSIONS))
    assert "cpu 1k" in result.out
    assert "No scheduler has said anything about it yet" in result.out
    assert json["standing"] == "Waiting"
    assert json["asks"] == {"cpu": "2k"}
    assert (by_kind["group"], by_pod["group"]) == (json["group"], json["group"])


def test_positions_are_shown_where_jobs_are_listed(swell: Swell, names: list[str]) -> None:
    """In `get -o wide`, `top` and the SDK, for jobs of both kinds; none for a job without pods."""
    swell("queue", "create", names[0])
    assert swell.apply(f"{JOB}---\n{JOB.replace('fit', 'idle')}---\n{OLD_JOB}").code == 0
    for name in ("fit", "old"):
        group(swell, name, names[0], n_pods=2)
    shown = swell.here("get", "-o", "wide")
    named = swell.here("get", "aitj", "fit", "-o", "wide", "--no-headers")
    listed = swell.here("top", "-o", "json").json["starts"]
    cluster = connect(namespace=swell.namespace)

    assert shown.code == 0
    cells = {row.split()[0]: row.split()[-1] for row in shown.out.splitlines() if row}
    assert cells == {"NAME": "POSITION", "fit": "1/2", "idle": "<none>", "old": "2/2"}
    assert named.out.split()[-1] == "1/2"
    assert isinstance(listed, list)
    assert [(one["job"], one["position"]) for one in listed] == [
        ("fit", "1/2"),
        ("TrainingJob/old", "2/2"),
    ]
    assert cluster.job("tj/old").position() == (names[0], 2, 2)
    assert cluster.job("idle").position() is None


def test_explain_reports_closed_and_missing_queues(swell: Swell, names: list[str]) -> None:
    """With the command that helps."""
    swell("queue", "create", names[0])
    swell("queue", "close", names[0])
    group(swell, "shut", names[0], n_pods=2)
    group(swell, "lost", names[1], n_pods=2)

    assert f"swell queue open {names[0]}" in swell.here("explain", "shut").out
    assert f"swell queue create {names[1]}" in swell.here("explain", "lost").out


def test_explain_of_a_job_without_a_group_reports_it(swell: Swell) -> None:
    """No operator runs: nothing has come of the job yet."""
    swell.apply(JOB)
    answer = swell.here("explain", "fit")

    assert answer.code == 0
    assert "has not been looked at yet" in answer.out
    assert "no PodGroup" in answer.out


def test_explain_of_nothing_is_an_error(swell: Swell) -> None:
    """Exit 1 for what is not there, 2 for words that make no sense."""
    assert swell.here("explain", "nobody").code == 1
    assert swell.here("explain", "aitj/nobody").code == 1
    assert swell.here("explain", "a", "b").code == 2
    assert swell.here("explain", "a/b/c").code == 2
