"""Disturbances of a job of real processes, and the checks that nothing came of them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.unit.train.array_program import N_BATCH, N_SAMPLES
from tests.unit.train.bus.relay import Relay
from tests.unit.train.cluster import BUS_PORT, ROOT, TrainingCluster, python
from tests.unit.train.outputs import Fact

PROGRAM = [python(), "-m", "tests.unit.train.array_program"]
SIZES = (2, 3, 4)
FREEZE_S = 5.0
# All that a run may have done to it; a cut is in one direction.
DISTURBANCES = (
    *("clock steps", "collectives between steps", "cut that drops in", "cut that drops out"),
    *("freeze", "kill", "kill all", "kill in a change", "kill two", "two resizes"),
)
KINDS = ("kill", "kill two", "kill all", "kill in a change", "freeze", "two resizes", "cut")


def undisturbed_weights(epochs: int) -> np.ndarray:
    """The weights that one process reaches alone."""
    env = {**os.environ, "EPOCHS": str(epochs)}
    output = subprocess.run(PROGRAM, cwd=ROOT, env=env, check=True, capture_output=True, timeout=60)
    return np.array(json.loads(output.stdout.splitlines()[-1])["final"])


def check_ending(cluster: TrainingCluster, undisturbed: np.ndarray, epochs: int) -> None:
    """All that trained to the end have the undisturbed weights, and each sample was used once."""
    n_steps = epochs * N_SAMPLES // N_BATCH
    finals = [fact for fact in cluster.facts() if "final" in fact]
    assert finals, cluster.errors()
    for fact in finals:
        assert fact["steps"] == n_steps
        assert fact["n_updates"] == n_steps
        assert np.abs(np.array(fact["final"]) - undisturbed).max() < 1e-9
    facts = [fact for fact in cluster.facts() if "samples" in fact]
    check_one_group(facts)
    # The last time that a step was done, its parts were disjoint.
    last: dict[int, dict[int, list[int]]] = {}
    for fact in facts:
        last.setdefault(fact["step"], {}).setdefault(fact["generation"], []).extend(fact["samples"])
    assert set(last) == set(range(1, n_steps + 1))
    for step, by_generation in last.items():
        used = by_generation[max(by_generation)]
        assert len(used) == len(set(used)) <= N_BATCH, step


def check_one_group(facts: list[Fact]) -> None:
    """No group does a step after a later group has done one.

    A member that was frozen tells of its last step late: such a step was done with others who told
    of it in time, or by itself alone before the later group's first.
    """
    begun: dict[int, float] = {}  # the first step of each generation
    done: dict[tuple[int, int], float] = {}  # when the first member told of a step
    for fact in facts:
        generation, at = fact["generation"], fact["at"]
        begun[generation] = min(begun.get(generation, at), at)
        key = generation, fact["step"]
        done[key] = min(done.get(key, at), at)
    for (generation, step), at in done.items():
        later = [other for other, since in begun.items() if other > generation and since < at]
        assert not later, f"step {step} of {generation} after {later} began"


@dataclass
class Chaos:
    """One job under disturbances that are drawn from a seed."""

    folder: Path
    seed: int
    kinds: tuple[str, ...] = KINDS
    n_disturbances: int = 4
    epochs: int = 16
    size: int = 0
    done: list[str] = field(default_factory=list)
    _relays: list[Relay] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(f"chaos {self.seed}")
        self.size = self._chance.choice(SIZES)
        variables = {"EPOCHS": str(self.epochs), "STEP_S": "0.01"}
        if self._chance.random() < 0.3:
            variables["CLOCK"] = str(self.seed)
            self.done.append("clock steps")
        if self._chance.random() < 0.3:
            variables["LOOKS"] = "1"
            self.done.append("collectives between steps")
        self.cluster = TrainingCluster(self.folder, PROGRAM, **variables)

    def run(self, hang_s: float) -> float:
        """Disturb the job, and wait for its end; the longest time without a step after that."""
        if "cut" in self.kinds:
            self._put_relays_between()
        self.cluster.begin(self.size)
        self.cluster.wait_for_size(self.size)
        for _ in range(self.n_disturbances):
            time.sleep(self._chance.uniform(0.0, 0.4))
            self.disturb(self._chance.choice(self.kinds))
        return self._wait_for_end(hang_s)

    def disturb(self, kind: str) -> None:
        if kind != "cut":
            self.done.append(kind)
        cluster, chance = self.cluster, self._chance
        match kind:
            case "kill" | "kill two" | "kill all":
                n_killed = {"kill": 1, "kill two": 2, "kill all": self.size}[kind]
                cluster.replace(*chance.sample(range(self.size), min(n_killed, self.size)))
            case "kill in a change":
                self._resize()
                time.sleep(chance.uniform(0.0, 0.2))
                cluster.replace(chance.randrange(self.size))
            case "two resizes":
                self._resize()
                time.sleep(chance.uniform(0.0, 0.1))
                self._resize()
            case "freeze":
                with self._frozen(chance.randrange(self.size)):
                    time.sleep(FREEZE_S)
            case "cut":
                direction = chance.choice(["drops_in", "drops_out"])
                self.done.append(f"cut that {direction.replace('_', ' ')}")
                chosen = chance.sample(self._relays, chance.randint(1, len(self._relays)))
                for relay in chosen:
                    setattr(relay, direction, True)
                time.sleep(chance.uniform(0.5, 3.0))
                for relay in chosen:
                    setattr(relay, direction, False)

    def _resize(self) -> None:
        self.size = self._chance.choice([other for other in SIZES if other != self.size])
        self.cluster.resize(self.size)

    @contextlib.contextmanager
    def _frozen(self, index: int) -> Iterator[None]:
        process = self.cluster.processes[index]
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)

    def _put_relays_between(self) -> None:
        """Let members find each other only through relays, which can drop either direction."""
        cluster = self.cluster
        cluster.rows = [cluster.address(100 + index) for index in range(max(SIZES))]
        self._relays = [
            Relay(row, BUS_PORT, (cluster.address(index), BUS_PORT))
            for index, row in enumerate(cluster.rows)
        ]

    def _wait_for_end(self, hang_s: float) -> float:
        longest, n_facts, last = 0.0, -1, time.monotonic()
        while any(process.poll() is None for process in self.cluster.processes.values()):
            now, n_now = time.monotonic(), len(self.cluster.facts())
            if n_now != n_facts:
                n_facts, last = n_now, now
            longest = max(longest, now - last)
            assert longest < hang_s, f"no step for {hang_s:g} s\n{self.cluster.errors()[-4000:]}"
            self.cluster.tend()
            time.sleep(0.05)
        return longest

    def check(self, undisturbed: np.ndarray) -> None:
        # A process that was told to go before it could listen to signals ended by the signal.
        codes = {process.returncode for process in self.cluster.processes.values()}
        assert codes <= {0, 143, -signal.SIGTERM}, (codes, self.cluster.errors())
        check_ending(self.cluster, undisturbed, self.epochs)

    def close(self) -> None:
        for relay in self._relays:
            relay.close()
        self.cluster.close()
