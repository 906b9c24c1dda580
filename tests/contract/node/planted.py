"""Bugs to plant in the process runtime, one switch each, and the behaviour that must notice.

Each is what somebody could plausibly get wrong. They live here and nowhere in the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from swell.node import restarts
from swell.node.pods import BoundContainer, BoundPod
from swell.node.process import logserver, probes
from swell.node.process.folders import log_file
from swell.node.process.probes import ContainerHealth, Prober
from swell.node.process.runtime import ProcessRuntime
from swell.node.process.setup import environment, spec
from swell.node.process.setup.resources import Cgroup
from swell.node.process.supervised import SupervisedRun
from swell.node.process.upkeep import PodUpkeep
from swell.node.runs import Exited

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Bug:
    """What is wrong, and the behaviour that shows it."""

    name: str
    behaviour: str
    plant: Plant

    def __str__(self) -> str:
        return self.name


BUGS: list[Bug] = []


def bug(behaviour: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        BUGS.append(Bug(plant.__name__, behaviour, plant))
        return plant

    return register


async def nothing(*_: object, **__: object) -> None:
    """Does not do what it should."""


@bug("ending-other_exit_codes_are_failures")
def exit_code_is_lost(patch: pytest.MonkeyPatch) -> None:
    honest = SupervisedRun._exited

    def exited(self: SupervisedRun, fields: list[str]) -> Exited:
        return replace(honest(self, fields), exit_code=0)

    patch.setattr(SupervisedRun, "_exited", exited)


@bug("ending-too_much_memory_is_killed")
def cause_of_a_kill_is_unknown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cgroup, "has_oom_kill", lambda _: False)


@bug("deleting-asked_to_end_first")
def killed_without_being_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SupervisedRun, "terminate", SupervisedRun.kill)


@bug("deleting-killed_after_the_grace_period")
def grace_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = ProcessRuntime.stop

    async def stop(self: ProcessRuntime, pod: BoundPod, name: str, grace_s: float) -> None:
        await honest(self, pod, name, min(grace_s, 0.5))

    patch.setattr(ProcessRuntime, "stop", stop)


@bug("deleting-pre_stop_comes_first")
def pre_stop_is_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProcessRuntime, "_pre_stop", nothing)


@bug("restarting-success_is_not_tried_again")
def success_is_restarted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restarts, "should_restart", lambda *_, **__: True)


@bug("restarting-never_is_never")
def policy_is_ignored(patch: pytest.MonkeyPatch) -> None:
    def should_restart(*arguments: object, **__: object) -> bool:
        ended = arguments[2]
        return isinstance(ended, Exited) and not ended.is_success

    patch.setattr(restarts, "should_restart", should_restart)


@bug("initialising-others_wait_for_them")
def init_containers_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    def no_steps(*_: object, **__: object) -> Iterator[object]:
        return iter(())

    patch.setattr(restarts, "_init_steps", no_steps)


@bug("environment-literals_refer_to_earlier_ones")
def variables_are_not_expanded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(environment, "expand", lambda text, _: text)


@bug("volumes-map_is_followed")
def changes_of_maps_are_missed(patch: pytest.MonkeyPatch) -> None:
    async def do_nothing(*_: object) -> bool:
        return True

    patch.setattr(PodUpkeep, "_renew", do_nothing)


@bug("volumes-read_only_is_read_only")
def read_only_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = spec._mounts

    def mounts(
        pod: BoundPod, container: BoundContainer, places: spec.RunPaths
    ) -> list[tuple[str, str, bool]]:
        return [(source, target, False) for source, target, _ in honest(pod, container, places)]

    patch.setattr(spec, "_mounts", mounts)


@bug("probing-readiness_is_waited_for")
def everybody_is_ready(patch: pytest.MonkeyPatch) -> None:
    well = ContainerHealth(is_started=True, is_ready=True)
    patch.setattr(probes, "first_health", lambda _: well)
    patch.setattr(probes, "after_answer", lambda *_: well)


@bug("probing-dead_containers_may_fail_the_pod")
def no_probe_is_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Prober, "start", lambda _: None)


@bug("logs-run_before_the_last")
def earlier_output_is_not_found(patch: pytest.MonkeyPatch) -> None:
    def first(folder: Path, container: str, _: int) -> Path:
        return log_file(folder, container, 0)

    patch.setattr(logserver, "log_file", first)
