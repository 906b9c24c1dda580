"""Pauses of survivors when a training job changes: the library, the launcher, and torchrun.

Four members on `swell up`, `ROUNDS` rounds (10) of every event, medians and the worst one. `WAYS`
and `EVENTS` name some of them, with commas between; `RESULT` is a file that keeps all events, and
a later run replaces those it measures anew, or with `MORE=1` adds to them
(docs/training-figures.md). With `AT_ONCE=1` the ways are measured at once, each on two processors
of its own (a way that is named twice is measured twice), and end after `WITHIN_MINUTES` (8).
Frameworks are those that `make e2e` installs; a way whose framework or GPU is missing has no
figures.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from bench.training_at_once import Found, measure_at_once, merged
from bench.training_figures import rows, table
from bench.training_stage import (
    SCRIPT,
    SIZE,
    TrainingEvent,
    TrainingStage,
    TrainingWay,
)
from swell.api.meta import Body
from tests.e2e.launch.programs import JAX, JAX_SUM, PADDLE, PADDLE_SUM, TORCH, TORCH_DDP

ROUNDS = int(os.environ.get("ROUNDS", "10"))
# So that changes do not run into each other.
SETTLE_S = 1.0
LIBRARY = ("-m", "tests.e2e.train.torch_program")
# More than any run lasts.
ENDLESS = {"EPOCHS": "1000000", "STEP_S": "0.02"}
LAUNCH = ("-m", "swell.train.launch", "--framework")
TORCHRUN = ("-m", "torch.distributed.run", "--nnodes=1:4", "--max-restarts=100")
# As in examples/train-torchrun.yaml: all else comes from the operator, member 0 is the host.
C10D = 'export PET_LOCAL_ADDR="$TRAININGJOB_SERVICE"; '
# Agents that meet through a file of a folder they share: nobody keeps their store.
FILE_STORE = {
    "PET_RDZV_ENDPOINT": "$(FACTS)/../rendezvous",
    "PET_RDZV_CONF": "store_type=file,last_call_timeout=3,keep_alive_interval=1,"
    "keep_alive_max_attempt=5",
}
# As in docs/launch.md: torch's own store in a pod in which nothing else runs.
KEEPER = (
    "from signal import pause; from torch.distributed import TCPStore; "
    "store = TCPStore('localhost', 29500, is_master=True, wait_for_workers=False); pause()"
)
KILLS = ("kill one", "kill the leader")
RESIZES = ("4 to 2", "2 to 4")
URGENT = "urgent"

WAYS: dict[str, tuple[TrainingWay, tuple[str, ...]]] = {
    "library DDP": (
        TrainingWay(TORCH, LIBRARY, variables=ENDLESS | {"CHECKPOINT": "$(FACTS)/../saved"}),
        (*KILLS, *RESIZES, "preempted whole", "freeze one"),
    ),
    "library FSDP2": (
        TrainingWay(TORCH, LIBRARY, variables=ENDLESS | {"WRAP": "fsdp", "COPY_STEPS": "20"}),
        (*KILLS, *RESIZES),
    ),
    # The state of all four members is on one GPU.
    "library DDP on a GPU": (
        TrainingWay(TORCH, LIBRARY, variables=ENDLESS | {"DEVICE": "cuda"}, on_gpu=True),
        (*KILLS, *RESIZES),
    ),
    "library FSDP2 on a GPU": (
        TrainingWay(
            TORCH,
            LIBRARY,
            variables=ENDLESS | {"DEVICE": "cuda", "WRAP": "fsdp", "COPY_STEPS": "20"},
            on_gpu=True,
        ),
        (*KILLS, *RESIZES),
    ),
    "launcher warm": (TrainingWay(TORCH, (*LAUNCH, "pytorch", SCRIPT), TORCH_DDP), ()),
    "launcher cold": (TrainingWay(TORCH, (*LAUNCH, "pytorch", "--cold", SCRIPT), TORCH_DDP), ()),
    "launcher JAX": (
        TrainingWay(
            JAX,
            (*LAUNCH, "jax", SCRIPT),
            JAX_SUM,
            framework="jax",
            variables={"JAX_PLATFORMS": "cpu"},
        ),
        (),
    ),
    "launcher Paddle": (
        TrainingWay(PADDLE, (*LAUNCH, "paddle", SCRIPT), PADDLE_SUM, framework="paddle"),
        (),
    ),
    "torchrun with backend swell": (
        TrainingWay(TORCH, (*TORCHRUN, "--rdzv-backend=swell", SCRIPT), TORCH_DDP),
        (),
    ),
    "torchrun": (TrainingWay(TORCH, (*TORCHRUN, SCRIPT), TORCH_DDP, setup=C10D, host=0), ()),
    "torchrun with a keeper": (
        TrainingWay(
            TORCH,
            (*TORCHRUN, SCRIPT),
            TORCH_DDP,
            setup=C10D,
            host=0,
            variables={"PET_NNODES": f"1:{SIZE}"},
            keeper=("-c", KEEPER),
        ),
        (),
    ),
    "torchrun with a file": (
        TrainingWay(
            TORCH, (*TORCHRUN, SCRIPT), TORCH_DDP, setup=C10D, host=0, variables=FILE_STORE
        ),
        (),
    ),
}


def run(names: tuple[str, ...] = tuple(WAYS)) -> dict[str, object]:
    chosen = os.environ.get("WAYS")
    kept = Path(os.environ["RESULT"]) if "RESULT" in os.environ else None
    found: Found = {}
    if kept is not None and kept.exists():
        found = json.loads(kept.read_text())
    asked_for = [name for name in (chosen.split(",") if chosen else names) if _is_there(name)]

    def keep(news: Found) -> None:
        if kept is not None:
            new = kept.with_suffix(".new")  # a file that was cut short would be lost as a whole
            new.write_text(json.dumps(news, indent=1) + "\n")
            new.replace(kept)

    if os.environ.get("AT_ONCE"):
        return _shown(measure_at_once(asked_for, found, keep))
    for name in asked_for:
        way, events = WAYS[name]
        wanted = events or (*KILLS, *RESIZES)
        if asked := os.environ.get("EVENTS"):
            wanted = tuple(event for event in wanted if event in asked.split(","))
        before = found.get(name, {})
        for measured in measure(way, wanted, name):
            found[name] = merged(before, measured, adds=bool(os.environ.get("MORE")))
            keep(found)
    return _shown(found)


def _is_there(name: str) -> bool:
    way, _ = WAYS[name]
    if not way.python.exists():
        print(f"  {name}: {way.python} is missing; `make e2e` installs it", file=sys.stderr)
        return False
    if way.on_gpu and not gpu(way):
        print(f"  {name}: torch finds no GPU here", file=sys.stderr)
        return False
    return True


def gpu(way: TrainingWay) -> str:
    """The name of the first GPU that torch finds; empty without one."""
    asked = "import torch as t; print(t.cuda.get_device_name(0) if t.cuda.is_available() else '')"
    return _asked(way, asked)


def _asked(way: TrainingWay, program: str) -> str:
    return subprocess.run(
        [way.python, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


def _shown(found: Found) -> dict[str, object]:
    print(table(found))
    return {row.label: row.measured for row in rows(found) if row.values}


def machine(way: TrainingWay) -> str:
    """The processors that this program may use, and the version of the framework."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    n_processors = len(os.sched_getaffinity(0))
    version = _asked(way, f"import importlib.metadata as m; print(m.version('{way.package}'))")
    model = models[0] if models else platform.machine()
    where = f"{n_processors} processors of {os.cpu_count()} ({model})"
    if way.on_gpu:
        where = f"one {gpu(way)} and {where}"
    return f"{where}, {way.package} {version}"


def measure(
    way: TrainingWay, events: tuple[str, ...], name: str
) -> Iterator[dict[str, list[Body]]]:
    """Cause all events, round by round; after each one, all that were measured so far."""
    found: dict[str, list[Body]] = {event: [] for event in events}
    where = machine(way)
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as folder:
        stage = TrainingStage(Path(folder), way)
        try:
            stage.open()
            for number in range(ROUNDS):
                for event in events:
                    time.sleep(SETTLE_S)
                    seen = PLAYS[event](stage)
                    found[event].append(asdict(seen) | {"machine": where})
                    line = f"  {name}, {event}, {number + 1}: {seen.pause_s:.2f} s"
                    print(f"{line}, load {seen.load:.1f}", file=sys.stderr, flush=True)
                    yield found
        finally:
            stage.close()


def _kill(stage: TrainingStage, victim: int) -> TrainingEvent:
    others = set(range(SIZE)) - {victim}
    pids = [stage.pid(index) for index in sorted(others)]
    at = stage.kill(victim)
    load = os.getloadavg()[0]
    again = stage.wait_for_others(victim, at)
    before = max(f["step"] for f in stage.steps() if f["at"] <= at)
    first = next((f["step"] for f in stage.steps(at) if f["size"] == SIZE - 1), before + 1)
    full = stage.wait_for_group(SIZE, again)
    loaded = stage.loaded_at(at)
    return TrainingEvent(
        pause_s=stage.pause_s(others, at, again),
        load=load,
        rejoin_pause_s=stage.pause_s(others, again, full),
        full_s=full - at,
        join_s=full - loaded if loaded else None,
        n_redone=before + 1 - first,
        n_crashed=sum(a != stage.pid(b) for a, b in zip(pids, sorted(others), strict=True)),
    )


def _kill_one(stage: TrainingStage) -> TrainingEvent:
    leader = stage.leader()
    return _kill(stage, max(index for index in range(SIZE) if index != leader))


def _kill_leader(stage: TrainingStage) -> TrainingEvent:
    return _kill(stage, stage.leader())


def _shrink(stage: TrainingStage) -> TrainingEvent:
    pids = [stage.pid(index) for index in (0, 1)]
    at, load = time.time(), os.getloadavg()[0]
    stage.scale(2)
    again = stage.wait_for_group(2, at)
    n_crashed = sum(stage.pid(index) != pid for index, pid in enumerate(pids))
    return TrainingEvent(stage.pause_s({0, 1}, at, again), load, n_crashed=n_crashed)


def _grow(stage: TrainingStage) -> TrainingEvent:
    pids = [stage.pid(index) for index in (0, 1)]
    at, load = time.time(), os.getloadavg()[0]
    stage.scale(SIZE)
    full = stage.wait_for_group(SIZE, at)
    loaded = stage.loaded_at(at)
    return TrainingEvent(
        stage.pause_s({0, 1}, at, full),
        load,
        full_s=full - at,
        join_s=full - loaded if loaded else None,
        n_crashed=sum(stage.pid(index) != pid for index, pid in enumerate(pids)),
    )


def _preempt(stage: TrainingStage) -> TrainingEvent:
    """A job of higher priority takes the whole node; when it is gone, training goes on."""
    at = time.time()
    stage.apply(_priority(), _urgent_job())
    stage.wait(lambda: stage.is_running(URGENT), "the urgent job does not run")
    load = os.getloadavg()[0]
    last = stage.steps()[-1]
    freed = time.time()
    stage.delete(URGENT)
    full = stage.wait_for_group(SIZE, freed)
    first = next(f["step"] for f in stage.steps(freed))
    return TrainingEvent(
        max(0.0, last["at"] - at), load, full_s=full - freed, n_redone=last["step"] + 1 - first
    )


def _freeze(stage: TrainingStage) -> TrainingEvent:
    leader = stage.leader()
    victim = max(index for index in range(SIZE) if index != leader)
    load = os.getloadavg()[0]
    with stage.frozen(victim) as at:
        again = stage.wait_for_group(SIZE - 1, at)
    full = stage.wait_for_group(SIZE, again)
    others = set(range(SIZE)) - {victim}
    return TrainingEvent(stage.pause_s(others, at, again), load, full_s=full - at)


PLAYS: dict[str, Callable[[TrainingStage], TrainingEvent]] = {
    "kill one": _kill_one,
    "kill the leader": _kill_leader,
    "4 to 2": _shrink,
    "2 to 4": _grow,
    "preempted whole": _preempt,
    "freeze one": _freeze,
}


def _priority() -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": URGENT},
        "value": 1000,
    }


def _urgent_job() -> Body:
    container = {
        "name": "aitj-main",
        "image": "local",
        "command": ["sleep", "1000"],
        "resources": {"requests": {"cpu": "16"}},
    }
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    role = {"replicas": 1, "template": template}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": URGENT, "namespace": "default"},
        "spec": {"priority": URGENT, "replicaSpecs": {"main": role}},
    }
