"""Kill a process that writes to the store on disk, again and again, and look what is left.

    python -m tests.property.kill_store [--times 50] [--seed 1]

A child writes objects with several writers and reports each acknowledged write. It is killed with
SIGKILL at a random moment; then the file is opened and every object must be in the state of its
last acknowledged write, or of the one that was under way: nothing lost, nothing half applied.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from swell.api.codec import decode
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.durable import Database, DurableStorage
from swell.runtime.cluster import merge_patch
from tests.unit.cluster.embedded.world import World

CONFIG_MAPS: Resource[Body] = Resource("", "v1", "ConfigMap", "configmaps", dict)
N_WRITERS = 8
STEPS_A_LIFE = 7  # created, changed five times, deleted, created again
FILLING = "x" * 1_500
DELAY_S_MAX = 0.3


@dataclass
class Findings:
    """What a series of kills showed."""

    kills: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    half_applied: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.lost and not self.half_applied


def value_after(step: int) -> str | None:
    """What an object holds after its n-th write; None when that was its deletion."""
    return None if step % STEPS_A_LIFE == STEPS_A_LIFE - 1 else str(step)


# -- the child ---------------------------------------------------------------------------------


async def write_until_killed(path: Path, prefix: str) -> None:
    durable = await DurableStorage.open(path, time.time)
    cluster = InProcessCluster(World(durable.storage).api, "writer")
    await asyncio.gather(*(_writer(cluster, f"{prefix}-{n}") for n in range(N_WRITERS)))


async def _writer(cluster: InProcessCluster, name: str) -> None:
    key, step = Key("default", name), 0
    while True:
        value = value_after(step)
        data = {"value": value, "filling": FILLING, "again": value}
        if value is None:
            await cluster.delete(CONFIG_MAPS, key)
        elif step % STEPS_A_LIFE == 0:
            metadata = {"name": name, "namespace": "default"}
            await cluster.create(CONFIG_MAPS, {"metadata": metadata, "data": data})
        else:
            await cluster.patch(CONFIG_MAPS, key, merge_patch({"data": data}))
        os.write(1, f"{name} {step}\n".encode())
        step += 1


# -- the parent --------------------------------------------------------------------------------


def kill_repeatedly(path: Path, times: int, seed: int) -> Findings:
    """All kills hit one file, so what an earlier one left is looked at after every later one."""
    rng = random.Random(seed)
    findings = Findings()
    last_steps: dict[str, int] = {}
    settled: dict[str, str | None] = {}
    for n in range(times):
        acknowledged = _kill_once(path, f"k{n}", rng.uniform(0, DELAY_S_MAX))
        findings.kills += 1
        findings.acknowledged += sum(step + 1 for step in acknowledged.values())
        last_steps.update(acknowledged)
        held = _contents(path, findings)
        for name, value in settled.items():
            if held.get(name) != value:
                findings.lost.append(f"{name} held {value}, now {held.get(name)}")
        for name, step in acknowledged.items():
            if held.get(name) not in {value_after(step), value_after(step + 1)}:
                findings.lost.append(f"{name} step {step} acknowledged, holds {held.get(name)}")
        settled = {name: held.get(name) for name in {*last_steps, *held}}
    return findings


def _kill_once(path: Path, prefix: str, delay_s: float) -> dict[str, int]:
    """The last acknowledged step of every object written until the kill."""
    command = [sys.executable, "-m", "tests.property.kill_store", "--child", str(path), prefix]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        stdout = child.stdout
        if stdout is None:
            raise AssertionError("a pipe was asked for")
        first = stdout.readline()  # from here on it is writing
        time.sleep(delay_s)
        child.send_signal(signal.SIGKILL)
        lines = (first + stdout.read()).split(b"\n")[:-1]
    steps: dict[str, int] = {}
    for line in lines:
        name, step = line.decode().split()
        steps[name] = int(step)
    return steps


def _contents(path: Path, findings: Findings) -> dict[str, str | None]:
    database = Database(path)
    storage = database.load(time.time)
    database.close()
    held: dict[str, str | None] = {}
    for key, stored in storage.list("configmaps").items:
        body: Body = decode(stored.raw, dict)
        data = body["data"]
        version = int(body["metadata"]["resourceVersion"])
        whole = data["value"] == data["again"] and data["filling"] == FILLING
        if not whole or version != stored.version or version > storage.version:
            findings.half_applied.append(key.name)
        held[key.name] = data["value"]
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", nargs=2, metavar=("FILE", "PREFIX"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        asyncio.run(write_until_killed(Path(arguments.child[0]), arguments.child[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        findings = kill_repeatedly(Path(folder) / "store.db", arguments.times, arguments.seed)
    report = {
        "kills": findings.kills,
        "acknowledged writes": findings.acknowledged,
        "lost": len(findings.lost),
        "half applied": len(findings.half_applied),
    }
    print(json.dumps(report))  # noqa: T201 (the report)
    for line in findings.lost + findings.half_applied:
        print(line, file=sys.stderr)  # noqa: T201
    return 0 if findings.clean else 1


if __name__ == "__main__":
    raise SystemExit(main())
