"""The variables of workers, for each framework."""

from __future__ import annotations

from swell.train.launch.arguments import LaunchOptions
from swell.train.launch.variables import Seat, Seating, worker_variables

# Members may have different numbers of workers.
SEATS = (Seat("a", (10, 11)), Seat("b", (20,)), Seat("c", (30, 31)))


def variables(framework: str, own: int, local_rank: int, **environ: str) -> dict[str, str]:
    options = LaunchOptions(
        ("train.py",), n_local=len(SEATS[own].ports), framework=framework, max_restarts=3
    )
    return worker_variables(
        Seating(4, SEATS, own), local_rank, options, n_restarts=2, environ=environ
    )


def test_pytorch_has_torchruns_variables() -> None:
    """Ranks go on from member to member; all meet at the first worker."""
    found = variables("pytorch", 2, 1)
    wanted = {
        "RANK": "4",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "5",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_RANK": "4",
        "ROLE_WORLD_SIZE": "5",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "a",
        "MASTER_PORT": "10",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "OMP_NUM_THREADS": "1",
    }

    assert {name: found[name] for name in wanted} == wanted


def test_ranks_of_all_workers_are_all_ranks() -> None:
    """Each once, in order."""
    ranks = [
        variables("plain", own, local)["RANK"]
        for own, seat in enumerate(SEATS)
        for local in range(len(seat.ports))
    ]

    assert ranks == ["0", "1", "2", "3", "4"]


def test_users_own_variables_stay_and_the_launchers_go() -> None:
    """The place is the launcher's: a script that read it would join the group again."""
    found = variables(
        "pytorch", 0, 0, SWELL_MEMBERS="/m", PET_NNODES="3", OMP_NUM_THREADS="7", MINE="x", RANK="9"
    )

    assert "SWELL_MEMBERS" not in found
    assert "PET_NNODES" not in found
    assert (found["OMP_NUM_THREADS"], found["MINE"], found["RANK"]) == ("7", "x", "0")


def test_jax_finds_its_coordinator() -> None:
    """The first worker is it."""
    found = variables("jax", 1, 0)

    assert found["JAX_COORDINATOR_ADDRESS"] == "a:10"
    assert (found["JAX_PROCESS_ID"], found["JAX_NUM_PROCESSES"]) == ("2", "5")


def test_paddle_has_its_launchers_variables() -> None:
    """An endpoint for every worker, and its own among them."""
    found = variables("paddle", 2, 0)
    wanted = {
        "PADDLE_TRAINER_ID": "3",
        "PADDLE_TRAINERS_NUM": "5",
        "PADDLE_TRAINER_ENDPOINTS": "a:10,a:11,b:20,c:30,c:31",
        "PADDLE_CURRENT_ENDPOINT": "c:30",
        "PADDLE_MASTER": "a:10",
        "PADDLE_RANK_IN_NODE": "0",
        "PADDLE_LOCAL_SIZE": "2",
        "PADDLE_NNODES": "3",
        "POD_IP": "c",
        "PADDLE_PORT": "30",
    }

    assert {name: found[name] for name in wanted} == wanted
    assert "TRAINING_ROLE" not in found
    assert variables("paddle", 2, 1, CUDA_VISIBLE_DEVICES="")["PADDLE_DISTRI_BACKEND"] == "gloo"
    assert variables("paddle", 2, 1, CUDA_VISIBLE_DEVICES="0,1")["FLAGS_selected_gpus"] == "1"


def test_paddle_trainers_know_their_parameter_servers() -> None:
    """Servers themselves keep what the operator gave them."""
    options = LaunchOptions(("train.py",), framework="paddle")
    seating = Seating(1, (Seat("a", (10,)),), 0)
    trainer = worker_variables(
        seating, 0, options, n_restarts=0, environ={}, servers=("s:1", "s:2")
    )
    given = {"TRAINING_ROLE": "PSERVER", "PADDLE_TRAINERS_NUM": "8", "PADDLE_PORT": "1"}
    server = worker_variables(seating, 0, options, n_restarts=0, environ=given, servers=("s:1",))

    assert trainer["TRAINING_ROLE"] == "TRAINER"
    assert trainer["PADDLE_PSERVERS_IP_PORT_LIST"] == "s:1,s:2"
    assert {name: server[name] for name in given} == given
    assert "PADDLE_TRAINER_ENDPOINTS" not in server


def test_virtual_local_rank_shows_one_gpu() -> None:
    """LOCAL_RANK is 0 then, and the worker's GPU the only one."""
    options = LaunchOptions(("x",), n_local=2, is_virtual_local_rank=True)
    seating = Seating(1, (Seat("a", (10, 11)),), 0)
    found = [
        worker_variables(
            seating, rank, options, n_restarts=0, environ={"CUDA_VISIBLE_DEVICES": "4,7"}
        )
        for rank in range(2)
    ]

    assert [one["LOCAL_RANK"] for one in found] == ["0", "0"]
    assert [one["CUDA_VISIBLE_DEVICES"] for one in found] == ["4", "7"]
