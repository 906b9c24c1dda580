"""A model is trained while a guest comes and goes; what was seen of it.

Plays an example as processes of an embedded cluster, and reads what trainer 0 has printed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import yaml

from swell.api.meta import Body
from tests.e2e.autoscaler.record import Record
from tests.e2e.up.machine import Machine

EXAMPLES = Path(__file__).parents[3] / "examples"
JAX, TORCHRUN, GUEST = "train-jax", "train-torchrun", "guest"
MOST = 4
GUEST_S = 4


@dataclass(frozen=True, slots=True)
class Line:
    """Something trainer 0 has said: what, when, after how many samples, at which loss."""

    what: str
    at: float
    seen: int
    loss: float
    size: int  # how many trainers took part in a step


@dataclass(frozen=True, slots=True)
class Training:
    record: Record
    lines: list[Line]
    top: list[list[str]]  # what `swell top` showed when it had grown, word by word


def train(machine: Machine, job: str, *, is_leader_lost: bool = False) -> Training:
    """The whole story of an example, from an empty machine to a trained model."""
    machine.swell("up", "--detach", "--cpu", "4", "--memory", "8Gi", "--name", "here")
    record = Record(machine.home / "kubeconfig")
    machine.swell("run", "--detach", str(_manifest(machine.folder, job)))
    record.until("it has grown", lambda now: now.size(job) == MOST)
    top = [line.split() for line in machine.swell("top").stdout.splitlines()]
    record.until("all train together", lambda _: _last_size(machine, job) == MOST)
    guest = ("--name", GUEST, "--cpu", "1500m", "--memory", "64Mi")
    machine.swell("run", "--detach", *guest, "--", "sleep", str(GUEST_S))
    record.until("the guest has room", lambda now: now.phase(GUEST) == "Running")
    assert record.look().size(job) < MOST
    record.until("the guest is gone", lambda now: now.phase(GUEST) == "Succeed")
    record.until("it has grown back", lambda now: now.size(job) == MOST)
    record.until("all train again", lambda _: _last_size(machine, job) == MOST)
    if is_leader_lost:
        machine.swell("delete", "pod", f"{job}-trainer-0")
    record.until("it has ended", lambda now: now.phase(job) in {"Succeed", "Failed"})
    return Training(record, read_lines(machine, job), top)


def read_lines(machine: Machine, job: str) -> list[Line]:
    """All that every trainer 0 has said so far, one after the other."""
    printed = machine.swell("logs", job, "--role", "trainer", "--index", "0").stdout
    return [_line(text) for text in printed.splitlines() if text.endswith("}")]


def _last_size(machine: Machine, job: str) -> int:
    return next((line.size for line in reversed(read_lines(machine, job)) if line.size), 0)


def _line(text: str) -> Line:
    what, _, rest = text.partition(" ")
    said: Body = json.loads(rest)
    return Line(
        what,
        said.get("at", 0.0),
        said["seen"],
        said.get("loss", 0.0),
        said.get("size", 0),
    )


def _manifest(folder: Path, job: str) -> Path:
    """The example, with its checkpoints in a folder of this test."""
    documents: list[Body] = list(yaml.safe_load_all((EXAMPLES / f"{job}.yaml").read_text()))
    pod = documents[1]["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]
    for volume in pod["volumes"]:
        if "hostPath" in volume:
            volume["hostPath"]["path"] = str(folder / "checkpoints")
    path = folder / f"{job}.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path
