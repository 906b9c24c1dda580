"""Jobs that others come after are kept until those have seen how they ended."""

from __future__ import annotations

import json
from typing import cast

import pytest

from swell.api.codec import convert
from swell.api.kinds import TRAINING_JOBS
from swell.api.meta import Key
from swell.api.trainingjob import FINAL_PHASES, TrainingJob
from swell.operator.framework.after import AfterOthers
from swell.runtime.informer import Informer
from swell.sim.loop import run
from tests.unit.runtime.world import World, started, until

OTHERS: AfterOthers[TrainingJob] = AfterOthers(FINAL_PHASES, "after")
UID = "fit-uid"


def mark_of(state: str, uid: str = UID) -> str:
    return json.dumps({"uid": uid, "states": {"prepare": state}})


class Jobs:
    """All jobs there are, as their informer shows them."""

    def __init__(self, *jobs: TrainingJob) -> None:
        self._jobs = jobs

    def by_index(self, index: str, value: object) -> list[TrainingJob]:
        assert index == OTHERS.index.name
        return [one for one in self._jobs if value in OTHERS.index.values(one.metadata, one)]


def job(
    name: str, status: dict[str, object] | None = None, mark: str = "", **spec: object
) -> TrainingJob:
    meta = {"name": name, "namespace": "team", "uid": UID, "annotations": {"after": mark}}
    return convert({"metadata": meta, "spec": spec, "status": status or {}}, TrainingJob)


def is_awaited(*others: TrainingJob) -> bool:
    ended = job("prepare", {"phase": "Succeed"})
    return OTHERS.is_awaited(ended, cast("Informer[TrainingJob]", Jobs(ended, *others)))


@pytest.mark.parametrize(
    ("status", "mark", "spec", "expected"),
    [
        ({}, "", {}, True),
        ({}, mark_of("Waiting"), {}, True),
        ({}, mark_of("Succeed"), {}, False),
        ({}, mark_of("Succeed", "another"), {}, True),
        # The status may be lost before the mark is written.
        ({"dependencies": {"prepare": "Succeed"}}, mark_of("Waiting"), {}, True),
        ({"startTime": "2026-01-01T00:00:00Z"}, "", {}, False),
        ({"phase": "Failed"}, "", {}, False),
        # It never will see it, or nobody can tell.
        ({}, "", {"managedBy": "example.com/other"}, False),
    ],
)
def test_ended_job_is_awaited(
    status: dict[str, object], mark: str, spec: dict[str, object], expected: bool
) -> None:
    """By those that have yet to begin, have no mark of its end, and are ours."""
    assert is_awaited(job("fit", status, mark, after=["prepare"], **spec)) is expected
    assert not is_awaited(job("fit", status, mark, after=["fetch"], **spec))


def test_jobs_before_and_after_one_are_woken_also_when_it_has_gone() -> None:
    """Nothing else tells a job whose time is up that no other waits for it any more."""

    async def story() -> None:
        world = World()
        kind = TRAINING_JOBS
        world.serve(kind)
        jobs: Informer[TrainingJob] = Informer(
            world.line(),
            kind,
            clock=world.clock,
            random=world.random,
            indexes=(OTHERS.index,),
        )
        await started(jobs)
        woken: list[str] = []
        OTHERS.follow(jobs, lambda key: woken.append(key.name))

        meta = {"name": "fit", "namespace": "default"}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
        await world.user.create(kind, {**body, "spec": {"after": ["prepare"]}})
        await until(lambda: woken == ["prepare"])
        await world.user.create(kind, {**body, "metadata": {**meta, "name": "prepare"}})
        await until(lambda: woken == ["prepare", "fit"])
        await world.user.delete(kind, Key("default", "fit"))
        await until(lambda: woken == ["prepare", "fit", "prepare"])

    run(story())
