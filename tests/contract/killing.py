"""Writes over HTTPS while the server is killed again and again; no acknowledged one may be lost.

python -m tests.contract.killing [--kills 20] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body, Key
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.cluster.kube.policy import ClientLimits
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Selection, merge_patch
from swell.runtime.errors import NotFoundError, OutcomeUnknownError, UnreachableError
from tests.contract.targets import embedded_server

CONFIG = CONFIG_MAPS.untyped()
NAMESPACE = "default"
N_WRITERS = 8
UPTIME_S = (0.2, 1.2)  # between ready and killed


@dataclass
class Ledger:
    """The acknowledged value of every object, None for a deleted one.

    An object with a write of unknown outcome may have either of two values.
    """

    promised: dict[str, str | None] = field(default_factory=dict)
    uncertain: dict[str, set[str | None]] = field(default_factory=dict)
    n_acknowledged: int = 0
    n_unknown: int = 0

    def keep(self, name: str, value: str | None) -> None:
        self.promised[name] = value
        self.uncertain.pop(name, None)
        self.n_acknowledged += 1

    def mark_uncertain(self, name: str, value: str | None) -> None:
        self.uncertain.setdefault(name, {self.promised.get(name)}).add(value)
        self.n_unknown += 1

    def broken(self, found: dict[str, str]) -> list[str]:
        """Every promise the server did not keep."""
        wrong: list[str] = []
        for name in sorted({*self.promised, *self.uncertain, *found}):
            allowed = self.uncertain.get(name) or {self.promised.get(name)}
            if found.get(name) not in allowed:
                wrong.append(f"{name}: {found.get(name)!r} instead of {sorted(map(str, allowed))}")
        return wrong


class Writer:
    """Creates, changes and deletes objects of its own, for as long as the server answers."""

    def __init__(self, n: int, ledger: Ledger, rng: random.Random) -> None:
        self._prefix = f"w{n}"
        self._ledger = ledger
        self._rng = rng
        self._n = ledger.n_acknowledged + ledger.n_unknown  # no name or value comes twice

    async def work(self, cluster: KubeCluster) -> None:
        """Ends when the server is gone."""
        while True:
            self._n += 1
            mine = [n for n, v in self._ledger.promised.items() if v and n.startswith(self._prefix)]
            sure = [name for name in mine if name not in self._ledger.uncertain]
            try:
                if not sure or self._rng.random() < 0.5:
                    await self._create(cluster)
                elif self._rng.random() < 0.7:
                    await self._change(cluster, self._rng.choice(sure))
                else:
                    await self._delete(cluster, self._rng.choice(sure))
            except (UnreachableError, OutcomeUnknownError):
                return

    async def _create(self, cluster: KubeCluster) -> None:
        name, value = f"{self._prefix}-{self._n}", str(self._n)
        body: Body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {"v": value},
        }
        try:
            await cluster.create(CONFIG, body)
        except OutcomeUnknownError:
            self._ledger.mark_uncertain(name, value)
            raise
        self._ledger.keep(name, value)

    async def _change(self, cluster: KubeCluster, name: str) -> None:
        value = str(self._n)
        try:
            await cluster.patch(CONFIG, Key(NAMESPACE, name), merge_patch({"data": {"v": value}}))
        except OutcomeUnknownError:
            self._ledger.mark_uncertain(name, value)
            raise
        self._ledger.keep(name, value)

    async def _delete(self, cluster: KubeCluster, name: str) -> None:
        try:
            await cluster.delete(CONFIG, Key(NAMESPACE, name))
        except OutcomeUnknownError:
            self._ledger.mark_uncertain(name, None)
            raise
        self._ledger.keep(name, None)


async def write_until_killed(
    process: subprocess.Popen[bytes], kubeconfig: Path, ledger: Ledger, rng: random.Random
) -> list[str]:
    """Check what the last life left behind, then write on until the process is killed."""
    limits = ClientLimits(connect_s=2.0, answer_s=5.0)
    access = read_kubeconfig([kubeconfig])
    async with connect(access, SystemClock(), rng, limits) as cluster:
        wrong = ledger.broken(await values(cluster))
        await resolve_uncertain(cluster, ledger)
        writers = [Writer(n, ledger, rng) for n in range(N_WRITERS)]
        async with asyncio.TaskGroup() as group:
            for writer in writers:
                group.create_task(writer.work(cluster))
            await asyncio.sleep(rng.uniform(*UPTIME_S))
            process.kill()
    return wrong


async def values(cluster: KubeCluster) -> dict[str, str]:
    listed = await cluster.list(CONFIG, Selection(NAMESPACE))
    return {
        item["metadata"]["name"]: item["data"]["v"]
        for item in listed.items
        if "v" in item.get("data", {})
    }


async def resolve_uncertain(cluster: KubeCluster, ledger: Ledger) -> None:
    """Read the objects with a write of unknown outcome, and go on from what is stored."""
    for name in list(ledger.uncertain):
        try:
            value = (await cluster.get(CONFIG, Key(NAMESPACE, name)))["data"]["v"]
        except NotFoundError:
            value = None
        ledger.promised[name] = value
        del ledger.uncertain[name]


def kill_often(home: Path, kills: int, seed: int) -> tuple[Ledger, list[str]]:
    """Run that many lives of a server on one folder; every broken promise."""
    ledger, rng, wrong = Ledger(), random.Random(seed), []
    for _ in range(kills):
        with embedded_server(home) as process:
            kubeconfig = home / "kubeconfig"
            wrong += asyncio.run(write_until_killed(process, kubeconfig, ledger, rng))
    with embedded_server(home):
        wrong += asyncio.run(_check(home / "kubeconfig", ledger))
    return ledger, wrong


async def _check(kubeconfig: Path, ledger: Ledger) -> list[str]:
    access = read_kubeconfig([kubeconfig])
    async with connect(access, SystemClock(), random.Random(1)) as cluster:
        return ledger.broken(await values(cluster))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        ledger, wrong = kill_often(Path(home), flags.kills, flags.seed)
    for line in wrong:
        print(line)  # noqa: T201
    print(  # noqa: T201
        f"{flags.kills} kills: {ledger.n_acknowledged} writes acknowledged, {ledger.n_unknown} of "
        f"unknown outcome, {len(wrong)} lost, in {time.monotonic() - begun:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
