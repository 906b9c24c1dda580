"""A scenario: a job, what happens to it, and what must be observed; and a trial that runs it.

The steps of a scenario are in `actions` and `checks`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod
from swell.runtime.cluster import Cluster
from tests.e2e.operator.jobs import manifest
from tests.e2e.operator.observation import NamespaceObserver, NotSeenError

# Operators with different settings work in namespaces of their own.
USUAL, STRICT = "e2e", "e2e-strict"


class Machine(Protocol):
    """What real nodes let one do to what runs on them."""

    async def tell(self, pod: Key, script: str) -> None: ...

    async def log(self, pod: Key, *, is_followed: bool = False) -> str: ...


@dataclass
class Trial:
    """A scenario while it runs. `uids` are the pods as they were when last looked at.

    `machine` is there where nodes are real; `others` are further jobs of the same scenario.
    """

    name: str
    cluster: Cluster
    observer: NamespaceObserver
    nodes: tuple[str, ...]
    uids: dict[str, Uid] = field(default_factory=dict)
    machine: Machine | None = None
    others: dict[str, Trial] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return Key(self.observer.namespace, self.name)

    def pods(self) -> dict[str, Pod]:
        return self.observer.pods_of(self.name)

    def pod(self, name: str) -> Pod:
        found = self.pods().get(name)
        if found is None:
            raise NotSeenError(f"there is no pod {name}, only {sorted(self.pods())}")
        return found

    def pod_key(self, name: str) -> Key:
        return Key(self.key.namespace, f"{self.name}-{name}")

    async def submit(self, spec: Body) -> None:
        body = manifest(self.name, self.key.namespace, spec, self.nodes)
        await self.cluster.create(AI_TRAINING_JOBS.untyped(), body)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        await self.observer.until(holds, what)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens or must be observed; `text` says which one failed."""

    text: str
    act: Callable[[Trial], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`name` is the job's name too. `n_nodes` of its own is for scenarios in which nodes suffer."""

    name: str
    spec: Body
    steps: Sequence[Step]
    n_nodes: int = 0
    namespace: str = USUAL
    takes_long: bool = False  # too long for real time

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(f"{self.name}-node-{number}" for number in range(self.n_nodes))

    async def run(
        self, cluster: Cluster, observer: NamespaceObserver, machine: Machine | None = None
    ) -> None:
        trial = Trial(self.name, cluster, observer, self.nodes, machine=machine)
        await trial.submit(self.spec)
        for number, step in enumerate(self.steps, 1):
            try:
                await step.act(trial)
            except AssertionError as error:
                error.add_note(f"at step {number} of {self.name}: {step.text}")
                error.add_note(_summary(trial))
                raise


def scenario(name: str, spec: Body, *steps: Step, **more: int | str | bool) -> Scenario:
    """Shorthand for tables."""
    return Scenario(name, spec, steps, **more)  # type: ignore[arg-type]


def _summary(trial: Trial) -> str:
    """The job's history and pods, for the reader of a failure."""
    history = trial.observer.history.get(trial.name, [])
    lines = [f"{s.phase.value or '-'}: {s.reason} {s.message}".rstrip() for s in history]
    seen = [line for n, line in enumerate(lines) if n == 0 or line != lines[n - 1]]
    pods = [f"{name} {pod.status.phase.value}" for name, pod in sorted(trial.pods().items())]
    return "\n  ".join(["the job said:", *seen, f"its pods: {', '.join(pods)}"])
