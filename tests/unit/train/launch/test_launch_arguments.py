"""The launcher's command line: torchrun's flags, PET_ variables, and refusals in words."""

from __future__ import annotations

import signal

import pytest

from swell.train.launch.arguments import UsageError, count_gpus, n_workers, parse
from swell.train.launch.output import streams_of


def test_command_lines_of_torchrun_are_read() -> None:
    """Both spellings; everything after the script is the script's."""
    options = parse(
        [
            "--nnodes=1:4",
            "--nproc_per_node",
            "2",
            "--max-restarts=3",
            "-t",
            "3",
            "--role",
            "r",
            "train.py",
            "--nnodes",
            "9",
            "--",
            "x",
        ],
        {},
    )

    assert options.command == ("train.py", "--nnodes", "9", "--", "x")
    assert (options.nodes_min, options.nodes_max, options.n_local) == (1, 4, 2)
    assert (options.max_restarts, options.role, options.tee) == (3, "r", 3)
    assert options.notes == ()


def test_variables_of_torchrun_are_read() -> None:
    """A flag wins; variables that the operator always sets are no reason for a note."""
    environ = {
        "PET_NNODES": "2:4",
        "PET_NPROC_PER_NODE": "3",
        "PET_MAX_RESTARTS": "5",
        "PET_RDZV_ENDPOINT": "host:1",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ID": "job",
        "PET_MODULE": "1",
        "PET_NO_PYTHON": "0",
    }
    options = parse(["--max-restarts", "1", "package.train"], environ)

    assert (options.nodes_min, options.nodes_max, options.n_local) == (2, 4, 3)
    assert (options.max_restarts, options.run_id) == (1, "job")
    assert (options.is_module, options.is_plain_command) == (True, False)
    assert options.notes == ()


@pytest.mark.parametrize(
    "flag",
    [
        "--rdzv-backend",
        "--rdzv_endpoint",
        "--rdzv-conf",
        "--node-rank",
        "--master-addr",
        "--master_port",
        "--start-method",
        "--local-addr",
        "--logs-specs",
        "--numa-binding",
        "--event-log-handler",
        "--duplicate-stdout-filters",
    ],
)
def test_flags_without_effect_say_so(flag: str) -> None:
    """A script's old command line works, and its user learns what does nothing."""
    (note,) = parse([flag, "1", "train.py"], {}).notes

    assert note.startswith(f"{flag.replace('_', '-')} has no effect here: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "SCRIPT"),
        (["--nnodes", "4:2", "x"], "--nnodes takes a number or MIN:MAX, not '4:2'"),
        (["--nnodes", "0", "x"], "not '0'"),
        (["--nproc-per-node", "0", "x"], "from 1 on, gpu, cpu or auto, not '0'"),
        (["--nproc-per-node", "many", "x"], "not 'many'"),
        (["--tee", "4", "x"], "not '4'"),
        (["--redirects", "0:9", "x"], "not '0:9'"),
        (["--local-ranks-filter", "a", "x"], "ranks by commas, not 'a'"),
        (["--signals-to-handle", "SIGNOT", "x"], "there is no signal 'SIGNOT'"),
        (["--framework", "caffe", "x"], "caffe"),
        (["--nonsense", "x"], "--nonsense"),
    ],
)
def test_impossible_command_lines_are_refused(arguments: list[str], words: str) -> None:
    """In one sentence that names the value."""
    with pytest.raises(UsageError) as refusal:
        parse(arguments, {})

    assert words in str(refusal.value)


@pytest.mark.parametrize(("name", "value"), [("PET_MAX_RESTARTS", "x"), ("PET_NNODES", "-1")])
def test_impossible_variables_are_refused(name: str, value: str) -> None:
    """As flags are."""
    with pytest.raises(UsageError, match=f"not '{value}'"):
        parse(["x"], {name: value})


@pytest.mark.parametrize(
    ("visible", "count"), [("0,1,2", 3), ("0", 1), ("", 0), ("-1", 0), ("0,-1,1", 1), ("GPU-a", 1)]
)
def test_gpus_are_counted_as_cuda_sees_them(visible: str, count: int) -> None:
    """Nothing after the first name that is none."""
    environ = {"CUDA_VISIBLE_DEVICES": visible}

    assert count_gpus(environ) == count
    if count:
        assert n_workers("gpu", environ) == n_workers("auto", environ) == count
    else:
        assert n_workers("auto", environ) == n_workers("cpu", environ)
        with pytest.raises(UsageError, match="no GPU is visible"):
            n_workers("gpu", environ)


def test_framework_follows_the_operators_variables() -> None:
    """A job's `frameworkType` reaches the launcher by the variables that go with it."""
    assert parse(["x"], {"PADDLE_TRAINERS_NUM": "2"}).framework == "paddle"
    assert parse(["x"], {"JAX_COORDINATOR_ADDRESS": "a:1"}).framework == "jax"
    assert parse(["x"], {"JAX_COORDINATOR_ADDRESS": "a:1"}).change_s == 1.0
    assert parse(["x"], {"PADDLE_TRAINER_ID": "0"}).change_s == 1.0
    assert parse(["--framework", "plain", "x"], {"PADDLE_TRAINER_ID": "0"}).framework == "plain"


def test_streams_by_rank() -> None:
    """Ranks that are not named have none."""
    options = parse(["--tee", "0:3,1:1", "--local-ranks-filter", "0,1", "x"], {})

    assert [streams_of(options.tee, rank) for rank in range(3)] == [3, 1, 0]
    assert options.shown_ranks == frozenset({0, 1})


def test_signals_are_torchruns() -> None:
    """SIGUSR1 is what clusters with SLURM send."""
    assert parse(["x"], {}).signals == (
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
    )
    assert parse(["--signals-to-handle=SIGUSR1", "x"], {}).signals == (signal.SIGUSR1,)
