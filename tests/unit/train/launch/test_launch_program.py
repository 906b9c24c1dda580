"""The launcher as a program, with plain scripts, warm and cold: no framework is needed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swell.train import launch as launch_package

WITHIN_S = 60.0
ZYGOTE = Path(launch_package.__file__).parent / "worker" / "zygote.py"
LAUNCH = (sys.executable, "-m", "swell.cli.main", "launch", "--framework", "plain")
SHOW = """
import json, os, pathlib, sys
shown = {"argv": sys.argv, "pid": os.getpid(), "name": __name__, "path": sys.path[0]}
shown |= {"file": __file__, "loader": type(__loader__).__name__}
shown |= {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "MINE")}
pathlib.Path(os.environ["OUT"], os.environ["RANK"] + ".json").write_text(json.dumps(shown))
"""
# Writes its process id, and that of a child of its own, and works on.
WORK = """
import os, pathlib, signal, subprocess, sys, time
out = pathlib.Path(os.environ["OUT"])
def end(*_):
    (out / f"term-{os.environ['RANK']}").write_text("")
    sys.exit(0)
if "{mode}" == "saves": signal.signal(signal.SIGTERM, end)
if "{mode}" == "stubborn": signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
here = out / f"pids-{os.environ['RANK']}-{os.environ['TORCHELASTIC_RESTART_COUNT']}"
here.with_suffix(".new").write_text(f"{os.getpid()} {child.pid}")
here.with_suffix(".new").rename(here)
time.sleep(600)
"""
Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(params=["warm", "cold"])
def way(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return () if request.param == "warm" else ("--cold",)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def environ(out: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "SWELL_"))}
    return {**kept, "OUT": str(out), "MINE": "yes"}


def launch(
    out: Path, *arguments: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCH, *arguments],
        cwd=folder,
        env=environ(out),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


@pytest.fixture
def begin(out: Path) -> Iterator[Begin]:
    """Starts a launcher that is ended with the test."""
    begun: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        with (out / "log").open("w") as log:
            begun.append(
                subprocess.Popen(
                    [*LAUNCH, *arguments], env=environ(out), stdout=log, stderr=log, text=True
                )
            )
        return begun[-1]

    yield start
    for one in begun:
        one.kill()
        one.wait()


def until(what: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WITHIN_S
    while not what():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(text)
    return str(path)


def pids(out: Path, n_workers: int, restarts: int = 0) -> list[int]:
    """Worker and child of each rank in turn, once all of them have begun."""
    files = [out / f"pids-{rank}-{restarts}" for rank in range(n_workers)]
    until(lambda: all(file.exists() for file in files))
    return [int(pid) for file in files for pid in file.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_script_runs_as_the_main_program(tmp_path: Path, out: Path, way: tuple[str, ...]) -> None:
    """Its name, arguments, path and variables are those of a script; each worker is a process.

    Python gives it an absolute file, also where the argument is a relative one.
    """
    path = Path(script(tmp_path, SHOW))
    ended = launch(out, *way, "--nproc-per-node", "2", path.name, "--lr", "0.1", folder=path.parent)
    shown = [json.loads((out / f"{rank}.json").read_text()) for rank in range(2)]

    assert ended.returncode == 0, ended.stderr
    assert len({one["pid"] for one in shown}) == 2
    for rank, one in enumerate(shown):
        assert one["argv"] == [path.name, "--lr", "0.1"]
        assert (one["file"], one["loader"]) == (str(path), "SourceFileLoader")
        assert (one["name"], one["path"], one["MINE"]) == ("__main__", str(tmp_path), "yes")
        assert (one["RANK"], one["WORLD_SIZE"]) == (str(rank), "2")


def test_modules_and_other_programs_run(out: Path, way: tuple[str, ...]) -> None:
    """As with `-m` and `--no-python` of torchrun."""
    assert launch(out, *way, "-m", "json.tool", "--help").returncode == 0
    ended = launch(out, *way, "--no-python", "sh", "-c", "echo rank $RANK; exit 7")

    assert ended.stdout == "rank 0\n"
    assert ended.returncode == 7


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import sys; sys.exit(5)", 5),
        ("raise ValueError('no')", 1),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import sys; sys.exit('words')", 1),
    ],
)
def test_exit_code_is_the_workers(
    tmp_path: Path, out: Path, way: tuple[str, ...], text: str, code: int
) -> None:
    """A traceback shows the script, and nothing of the launcher."""
    ended = launch(out, *way, script(tmp_path, text))

    assert ended.returncode == code
    if "raise" in text:
        assert "ValueError: no" in ended.stderr
        assert "zygote" not in ended.stderr


def test_missing_script_and_program_are_named(out: Path, way: tuple[str, ...]) -> None:
    """One sentence, and the exit codes that Python and shells have for it."""
    ended = launch(out, *way, "/no/script.py")
    assert (ended.returncode, "/no/script.py" in ended.stderr) == (2, True)
    assert "Traceback" not in ended.stderr
    ended = launch(out, *way, "--no-python", "/no/program")
    assert (ended.returncode, "/no/program" in ended.stderr) == (127, True)
    assert "Traceback" not in ended.stderr


def test_failed_workers_are_started_again(
    tmp_path: Path, out: Path, way: tuple[str, ...], begin: Begin
) -> None:
    """All local workers, as often as `--max-restarts` says, with the count in a variable."""
    path = script(tmp_path, WORK.replace("{mode}", "plain"))
    launcher = begin(*way, "--nproc-per-node", "2", "--max-restarts", "1", path)
    first = pids(out, 2)
    os.kill(first[2], signal.SIGKILL)
    second = pids(out, 2, restarts=1)

    until(lambda: not any(is_alive(pid) for pid in first))
    os.kill(second[0], signal.SIGKILL)
    assert launcher.wait(WITHIN_S) == 137
    until(lambda: not any(is_alive(pid) for pid in second))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_workers(
    tmp_path: Path, out: Path, way: tuple[str, ...], begin: Begin, number: signal.Signals
) -> None:
    """They may save; the exit code says which signal it was, and nothing is left."""
    text = WORK.replace("{mode}", "saves").replace("signal.SIGTERM", f"signal.{number.name}")
    launcher = begin(*way, "--nproc-per-node", "2", script(tmp_path, text))
    started = pids(out, 2)
    launcher.send_signal(number)

    assert launcher.wait(WITHIN_S) == 128 + number
    assert (out / "term-0").exists()
    assert (out / "term-1").exists()
    until(lambda: not any(is_alive(pid) for pid in started))


def test_workers_that_do_not_end_are_killed(
    tmp_path: Path, out: Path, way: tuple[str, ...], begin: Begin
) -> None:
    """After `--shutdown-timeout`."""
    path = script(tmp_path, WORK.replace("{mode}", "stubborn"))
    launcher = begin(*way, "--shutdown-timeout", "0.5", path)
    started = pids(out, 1)
    launcher.terminate()

    assert launcher.wait(WITHIN_S) == 143
    until(lambda: not any(is_alive(pid) for pid in started))


def test_no_worker_outlives_a_killed_launcher(
    tmp_path: Path, out: Path, way: tuple[str, ...], begin: Begin
) -> None:
    """The kernel ends them: the launcher has no time to."""
    path = script(tmp_path, WORK.replace("{mode}", "stubborn"))
    launcher = begin(*way, "--nproc-per-node", "2", path)
    started = pids(out, 2)
    workers, children = started[::2], started[1::2]
    launcher.kill()
    launcher.wait(WITHIN_S)
    until(lambda: not any(is_alive(pid) for pid in workers))
    for child in children:  # of the script's own; in a pod they end with the container
        os.kill(child, signal.SIGKILL)


def test_zygote_without_its_launcher_ends_in_silence() -> None:
    """Its parent may be gone at any moment, and nobody reads what it would complain about."""
    ours, its = socket.socketpair()
    with ours, its:
        arguments = [str(its.fileno()), str(os.getpid()), ""]
        zygote = subprocess.Popen(
            [sys.executable, "-W", "error", str(ZYGOTE), *arguments],
            pass_fds=[its.fileno()],
            stderr=subprocess.PIPE,
            text=True,
        )
        its.close()
        ours.recv(1)
        ours.shutdown(socket.SHUT_RDWR)
    assert zygote.communicate(timeout=WITHIN_S)[1] == ""
    assert zygote.returncode == 0


def test_zygote_that_dies_is_replaced(tmp_path: Path, out: Path, begin: Begin) -> None:
    """Its workers have died with it, which is a failure like others."""
    path = script(tmp_path, WORK.replace("{mode}", "plain"))
    launcher = begin("--max-restarts", "1", path)
    (worker, _) = pids(out, 1)
    zygote = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(zygote, signal.SIGKILL)
    again = pids(out, 1, restarts=1)

    until(lambda: not is_alive(worker))
    assert is_alive(again[0])
    launcher.terminate()
    assert launcher.wait(WITHIN_S) == 143


def test_output_goes_to_files_and_to_the_console(
    tmp_path: Path, out: Path, way: tuple[str, ...]
) -> None:
    """Teed lines have a prefix; redirected ones are in their file alone."""
    text = "import sys; print('out'); print('err', file=sys.stderr); sys.stdout.write('end')"
    ended = launch(
        out,
        *(*way, "--nproc-per-node", "3", "--tee", "0:3,1:1", "--redirects", "2:3"),
        *("--log-dir", str(tmp_path / "logs"), "--rdzv-id", "a/b", "--role", "t"),
        script(tmp_path, text),
    )
    (run,) = (tmp_path / "logs").iterdir()
    files = {str(file.relative_to(run)): file.read_text() for file in run.rglob("*.log")}

    assert sorted(ended.stdout.splitlines()) == ["[t0]:end", "[t0]:out", "[t1]:end", "[t1]:out"]
    assert "[t0]:err" in ended.stderr
    assert "[t1]:err" not in ended.stderr
    assert files["attempt_1/2/stdout.log"] == "out\nend"
    assert files["attempt_1/2/stderr.log"] == "err\n"
    assert files["attempt_1/0/stderr.log"] == "err\n"


def test_output_of_other_ranks_is_not_shown(
    tmp_path: Path, out: Path, way: tuple[str, ...]
) -> None:
    """With `--local-ranks-filter`."""
    path = script(tmp_path, "import os; print(os.environ['RANK'])")
    ended = launch(out, *way, "--nproc-per-node", "3", "--local-ranks-filter", "1", path)

    assert ended.stdout == "1\n"


def test_forked_workers_have_random_numbers_of_their_own(tmp_path: Path, out: Path) -> None:
    """Numpy was seeded once, before the fork."""
    text = "import random, numpy; print(random.random(), numpy.random.rand())"
    preload = ("--nproc-per-node", "3", "--preload", "numpy,numpy.random")
    ended = launch(out, *preload, "--tee", "1", script(tmp_path, text))
    numbers = [number for line in ended.stdout.splitlines() for number in line[11:].split()]

    assert len(numbers) == len(set(numbers)) == 6


def test_preload_that_fails_is_said(tmp_path: Path, out: Path) -> None:
    """The script runs all the same."""
    ended = launch(out, "--preload", "no_such_module", script(tmp_path, "print('ran')"))

    assert ended.stdout == "ran\n"
    assert "not loaded beforehand: no_such_module" in ended.stderr


def test_backend_that_was_touched_is_not_forked(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of a GPU does not survive a fork: workers are started cold then, and it is said."""
    stub = tmp_path / "torch.py"
    stub.write_text("class cuda:\n    is_initialized = staticmethod(lambda: True)\n")
    path = script(tmp_path, "import sys; print('torch' in sys.modules)")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    ended = launch(out, "--preload", "torch", path)

    assert "workers are started cold: CUDA is initialised by an import" in ended.stderr
    assert ended.stdout == "False\n"


def test_misuse_is_one_sentence(out: Path) -> None:
    """As of every command."""
    ended = launch(out, "--nnodes", "2", "x.py")

    assert ended.returncode == 2
    assert "at least 2 members, and this process is no member of a job" in ended.stderr
    assert "Traceback" not in ended.stderr
    as_module = [sys.executable, "-m", "swell.train.launch", "--nnodes", "2", "x.py"]
    again = subprocess.run(as_module, env=environ(out), capture_output=True, text=True, check=False)
    assert (again.returncode, again.stderr) == (2, ended.stderr)
