"""The rows of a sweep, and the jobs that are made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body
from swell.cli.command_line import CommandError
from swell.cli.job_kinds import FoundJob
from swell.cli.jobs.command_job import CommandOptions, command_job
from swell.cli.sweeps.command import RowOptions, bodies_of, rows_asked_for
from swell.cli.sweeps.retry import anew
from swell.cli.sweeps.row_jobs import filled, index_of, row_of, unused_parameters
from swell.cli.sweeps.rows import array_rows, file_lines, grid_rows
from swell.cli.sweeps.state import SweepState, table_of


def values(parameters: list[str], lines: list[dict[str, str]] | None = None) -> list[str]:
    """Return the rows, each as its values with blanks between."""
    return [" ".join(row.values.values()) for row in grid_rows(parameters, lines or [])]


def container_of(job: Body) -> Body:
    found: Body = job["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize(
    ("parameters", "rows"),
    [
        (
            ["lr=1e-3,1e-4", "seed=0..2"],
            ["1e-3 0", "1e-3 1", "1e-3 2", "1e-4 0", "1e-4 1", "1e-4 2"],
        ),
        (["n=0..10:5"], ["0", "5", "10"]),
        (["n=-1..1"], ["-1", "0", "1"]),
        (['text="a,b",c'], ["a,b", "c"]),
        (["url=http://x=1"], ["http://x=1"]),
        (["mixed=1,3..5,x"], ["1", "3", "4", "5", "x"]),
        (["version=1..x"], ["1..x"]),
    ],
)
def test_grid_has_every_combination(parameters: list[str], rows: list[str]) -> None:
    """Lists, ranges and quoted values; the last parameter changes fastest."""
    assert values(parameters) == rows


def test_lines_of_a_file_are_combined_with_the_grid() -> None:
    """Each line with each combination."""
    lines = file_lines('lr,name\n0.1,a\n0.2,"b,c"\n', "rows.csv")

    assert values(["seed=0,1"], lines) == ["0.1 a 0", "0.1 a 1", "0.2 b,c 0", "0.2 b,c 1"]


def test_json_lines_are_rows() -> None:
    """Texts as they are, other values as JSON."""
    text = '{"lr": 0.1, "name": "a b", "deep": [1, 2]}\n\n{"lr": 1e-4, "name": "c", "deep": null}\n'

    assert file_lines(text, "-") == [
        {"lr": "0.1", "name": "a b", "deep": "[1, 2]"},
        {"lr": "0.0001", "name": "c", "deep": "null"},
    ]


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("0-3", [0, 1, 2, 3]), ("0-9:4", [0, 4, 8]), ("7", [7]), ("1,3,5-6", [1, 3, 5, 6])],
)
def test_array_is_written_as_for_slurm(text: str, indexes: list[int]) -> None:
    """The numbers are the indexes, by which jobs are named."""
    assert [row.index for row in array_rows(text)] == indexes


@pytest.mark.parametrize(
    ("parameters", "made_of", "says"),
    [
        ([], RowOptions(), "say which rows"),
        (["lr"], RowOptions(), "not a parameter: 'lr'"),
        (["lr="], RowOptions(), "has no values"),
        (["1r=2"], RowOptions(), "not a parameter"),
        (["a=1", "a=2"], RowOptions(), "given twice"),
        (["a=9..1"], RowOptions(), "holds no number"),
        (["a=0..9999999"], RowOptions(), "a sweep has 10,000 at most"),
        (["a=0..999", "b=0..999"], RowOptions(), "1,000,000 jobs"),
        (["a=1"], RowOptions(array="0-1"), "cannot be combined"),
        ([], RowOptions(array="x"), "is no range of numbers"),
        ([], RowOptions(array="1,1"), "given twice"),
        ([], RowOptions(array="5-1"), "holds no number"),
        (["n=0..9:x"], RowOptions(), "n=0..9:x is no range of whole numbers"),
        (["lr=0.1..0.5"], RowOptions(), "lr=0.1..0.5 is no range of whole numbers"),
    ],
)
def test_rows_that_cannot_be_are_a_mistake_of_usage(
    parameters: list[str], made_of: RowOptions, says: str
) -> None:
    """With the right word, before anything is asked of a cluster."""
    with pytest.raises(CommandError) as refused:
        rows_asked_for(parameters, made_of)

    assert says in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1\n", "rows:2: 1 values for 2 columns"),
        ("a,1b\n1,2\n", "rows:1: '1b' cannot be the name"),
        ('{"a": 1}\n{"a": \n', "rows:2: not JSON"),
        ('{"a": 1}\n[1]\n', "rows:2: not an object"),
        ('{"a": 1}\n{"b": 1}\n', "rows:2: its names are not those of the first row"),
        ('{"a": 1, "b": 1}\n{"a": 1}\n', "rows:2: its names are not those of the first row"),
        ("a,b,a\n1,2,3\n", "rows:1: two columns are named a"),
        ("a;b\n1;2\n", "rows:1: 'a;b' cannot be the name"),
        ("a,b\n", "rows has no rows"),
        ("", "rows has no rows"),
    ],
)
def test_file_that_cannot_be_read_names_its_line(text: str, says: str) -> None:
    """File and line, and the fault."""
    with pytest.raises(CommandError, match=says):
        file_lines(text, "rows")


def test_rows_are_text_in_utf_8(tmp_path: Path) -> None:
    """A byte order mark, which some editors write, is no part of the first name."""
    file = tmp_path / "rows.csv"
    file.write_bytes("\ufefflr\n1\n".encode())
    assert rows_asked_for([], RowOptions(file=str(file)))[0].values == {"lr": "1"}

    file.write_bytes(b"lr\n1\n\xff\xfe\n")
    with pytest.raises(CommandError, match=r"rows\.csv:3: is not UTF-8"):
        rows_asked_for([], RowOptions(file=str(file)))


def test_limit_of_a_slurm_array_is_a_flag() -> None:
    with pytest.raises(CommandError) as refused:
        array_rows("0-9%2")

    assert refused.value.hint == "write it as --array 0-9 --parallel 2"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("--lr={lr}", "--lr=0.1"),
        ("{lr}{lr}", "0.10.1"),
        ("{{lr}}", "{lr}"),
        ("${lr}", "${lr}"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": {lr}}', '{"a": 0.1}'),
        ("awk {} {1}", "awk {} {1}"),
    ],
)
def test_values_are_put_in_their_places(text: str, becomes: str) -> None:
    """Other braces stay as they are, those of a shell and of JSON among them."""
    assert filled(text, {"lr": "0.1"}) == becomes


def test_place_without_a_parameter_is_a_mistake() -> None:
    """A typing error would run all jobs in vain."""
    with pytest.raises(CommandError, match="no parameter of the sweep is named sed") as refused:
        filled("{sed}", {"seed": "1"})

    assert refused.value.hint == "did you mean {seed}?"


def made(asked: CommandOptions, *command: str) -> list[Body]:
    template = command_job("s", command, asked, {}).body
    return bodies_of(template, "s", grid_rows(["lr=0.1,0.2"], []))


def test_job_of_a_row_is_an_ordinary_job() -> None:
    """Named by index, with the label of its sweep, its row, and the values in its command."""
    jobs = made(CommandOptions(env=["RATE={lr}"], label=["team=a"]), "train", "--lr", "{lr}")

    assert [job["metadata"]["name"] for job in jobs] == ["s-0", "s-1"]
    assert jobs[1]["metadata"]["labels"] == {
        "team": "a",
        "elasticdeeplearning.ai/sweep": "s",
        "elasticdeeplearning.ai/sweep-index": "1",
    }
    assert (index_of(jobs[1]), row_of(jobs[1])) == (1, {"lr": "0.2"})
    assert container_of(jobs[1])["command"] == ["train", "--lr", "0.2"]
    assert {one["name"]: one["value"] for one in container_of(jobs[1])["env"]} == {
        "SWELL_SWEEP": "s",
        "SWELL_SWEEP_INDEX": "1",
        "SWELL_SWEEP_ROW": '{"lr": "0.2"}',
        "RATE": "0.2",
    }


def test_elastic_jobs_of_a_sweep_have_members_of_their_own() -> None:
    """The ConfigMap of members belongs to one job."""
    jobs = made(CommandOptions(least=1, most=2), "train")
    volumes = [
        job["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["volumes"][0] for job in jobs
    ]

    assert [volume["configMap"]["name"] for volume in volumes] == ["s-0-members", "s-1-members"]


def test_sweep_whose_names_are_too_long_is_refused() -> None:
    """Before the first job is sent."""
    name = "x" * 52
    template = command_job(name, ["true"], CommandOptions(), {}).body

    with pytest.raises(CommandError):
        bodies_of(template, name, grid_rows(["a=0..20"], []))


def test_parameters_without_a_place_are_named() -> None:
    """The program may read them from its variables."""
    rows = grid_rows(["lr=1", "seed=2"], [])

    assert unused_parameters(["--lr", "{lr}"], rows) == ["seed"]


def test_job_that_runs_again_forgets_how_it_ended() -> None:
    """Annotations that end jobs, and those of the operator, are not taken over."""
    notes = {
        "Failed": "x",
        "PREEMPTED": "x",
        "elasticdeeplearning.ai/stopped": "x",
        "elasticdeeplearning.ai/ending": "x",
        "elasticdeeplearning.ai/sweep-row": "{}",
        "mine": "y",
    }
    body: Body = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "annotations": notes},
        "spec": {"x": 1},
        "status": {"phase": "Failed"},
    }

    assert anew(body) == {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {
            "name": "a",
            "annotations": {"elasticdeeplearning.ai/sweep-row": "{}", "mine": "y"},
        },
        "spec": {"x": 1},
    }


@pytest.mark.parametrize(
    ("phase", "message", "shown"),
    [
        ("Pending", "the cluster has 4 cpu in all", "the cluster has 4 cpu in all"),
        ("Pending", "why " * 20, f"{'why ' * 14}w..."),
        ("Failed", f"{'where ' * 20}exit code 7", f"...ere {'where ' * 7}exit code 7"),
        ("Failed", "two\nlines", "two lines"),
        ("Succeed", "done", ""),
    ],
)
def test_row_says_why_it_waits_or_how_it_failed(phase: str, message: str, shown: str) -> None:
    """Shortened where it says least: a failure at its beginning, all else at its end."""
    body: Body = {
        "metadata": {"name": "s-0", "namespace": "ns"},
        "status": {"phase": phase, "message": message},
    }
    state = SweepState("ns", "s", (FoundJob(AI_TRAINING_JOBS.untyped(), body),))

    last = table_of(state).splitlines()[-1].partition(phase)[2].strip(" -")
    whole = table_of(state, wide=True).splitlines()[-1].partition(phase)[2].strip(" -")

    assert last == shown
    assert whole == (" ".join(message.split()) if shown else "")
