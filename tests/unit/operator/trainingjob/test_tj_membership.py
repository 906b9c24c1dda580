"""Trainers of a TrainingJob know each other, if the job asks for it: by UID, address and number."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api import injection
from swell.api.codec import to_body
from swell.api.core import ConfigMap
from swell.api.kinds import CONFIG_MAPS, PODS
from swell.api.meta import Body
from swell.operator.framework.training import MEMBERS_EPOCH, REPORT_TOKEN, TRAINING
from swell.operator.trainingjob.membership import NOBODY
from swell.runtime.plan import CreateObject, DeleteSecret, IssueSecret
from tests.unit.operator.trainingjob.tj_scene import Scene, created, elastic, patched

FIRST_NUMBER = 1767225600  # 2026-01-01T00:00:00Z


def trains(asks: str = "true") -> Scene:
    scene = Scene(elastic(2, 4))
    scene.job = replace(
        scene.job, metadata=replace(scene.job.metadata, annotations={TRAINING: asks})
    )
    return scene


def members(scene: Scene) -> dict[str, str]:
    found: ConfigMap = scene.held[str(CONFIG_MAPS), "fit-members"]
    return found.data


def gets_address(scene: Scene, name: str, address: str) -> None:
    scene.change(PODS, name, {"status": {"podIP": address}})


def addressed(scene: Scene) -> Scene:
    for number in range(len(scene.pods("fit-trainer-"))):
        gets_address(scene, f"fit-trainer-{number}", f"10.0.0.{number}")
    return scene.settle()


def trainer_env(scene: Scene) -> dict[str, object]:
    container = scene.trainer.spec.template["spec"]["containers"][0]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def test_parts_are_there_before_the_trainers() -> None:
    """The secret and the membership are made first; the template names them."""
    scene = trains()
    actions = list(scene.look().each_action())
    kinds = [
        "Secret" if isinstance(one, IssueSecret) else f"{one.resource.kind} {one.key.name}"
        for one in actions
        if isinstance(one, IssueSecret | CreateObject)
    ]

    assert kinds.index("Secret") < kinds.index("Job fit-trainer")
    assert kinds.index("ConfigMap fit-members") < kinds.index("Job fit-trainer")
    env = trainer_env(scene.settle())
    assert env[injection.UID_VARIABLE] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert env["TRAININGJOB_REPLICA_NAME"] == "trainer"
    assert injection.INSTANCE_VARIABLE not in env
    volumes: list[Body] = scene.trainer.spec.template["spec"]["volumes"]
    assert {"swell-members", "swell-secret"} <= {volume["name"] for volume in volumes}
    assert REPORT_TOKEN in scene.job.metadata.annotations


def test_job_that_does_not_ask_is_as_before() -> None:
    """Neither the objects nor the template change."""
    plain, refused = Scene(elastic(2, 4)).running(), trains("false").running()

    for scene in (plain, refused):
        assert (str(CONFIG_MAPS), "fit-members") not in scene.held
        assert scene.secrets == []
    assert to_body(plain.trainer.spec) == to_body(refused.trainer.spec)
    assert not any(name.startswith("SWELL_") for name in trainer_env(plain))


def test_command_of_the_launcher_asks() -> None:
    trainer = {"min-instance": 2, "entrypoint": "swell launch train.py"}
    job = elastic(2, 4)
    scene = Scene(
        replace(
            job,
            spec=replace(
                job.spec, trainer=replace(job.spec.trainer, entrypoint=str(trainer["entrypoint"]))
            ),
        )
    )

    assert "ConfigMap fit-members" in created(scene.look())


def test_members_are_the_newest_pods_by_address_and_number() -> None:
    """A row without an address has nobody; the epoch grows with every change of rows."""
    scene = trains().running()
    assert members(scene)["trainer"] == f"{NOBODY}\n{NOBODY}\n"
    before = int(members(scene)["epoch"])
    addressed(scene)

    data = members(scene)
    assert data["trainer"] == "10.0.0.0\n10.0.0.1\n"
    assert data[injection.INSTANCES_FILE] == f"trainer {FIRST_NUMBER} {FIRST_NUMBER}\n"
    assert data[injection.UIDS_FILE] == "trainer 0=fit-trainer-0-uid 1=fit-trainer-1-uid\n"
    assert int(data["epoch"]) == before + 1
    assert scene.pods()[-1].metadata.annotations[MEMBERS_EPOCH] == data["epoch"]


def test_successor_takes_the_place_and_a_stale_cache_does_not_give_it_back() -> None:
    scene = addressed(trains().running())
    scene.ends(1, "Failed")
    scene.pod(
        "fit-trainer-x",
        "fit-trainer-1",
        creation_timestamp="2026-01-01T00:01:00Z",
        annotations=scene.held[str(PODS), "fit-trainer-1"].metadata.annotations,
    )
    scene.change(PODS, "fit-trainer-x", {"status": {"phase": "Running", "podIP": "10.0.0.9"}})
    scene.settle()
    data = dict(members(scene))

    assert data["trainer"] == "10.0.0.0\n10.0.0.9\n"
    assert data[injection.INSTANCES_FILE] == f"trainer {FIRST_NUMBER} {FIRST_NUMBER + 60}\n"
    assert data[injection.UIDS_FILE].split()[2] == "1=fit-trainer-x"
    scene.remove(PODS, "fit-trainer-x")
    assert "ConfigMap fit-members" not in patched(scene.look())


def test_pods_beyond_the_size_are_listed_until_they_are_gone() -> None:
    scene = addressed(trains().targets(3).running())
    gets_address(scene, "fit-trainer-2", "10.0.0.2")
    scene.settle().targets(2).settle()

    assert members(scene)[injection.FORMER_FILE] == "trainer 2=10.0.0.2\n"
    scene.remove(PODS, "fit-trainer-2").settle()
    assert members(scene)[injection.FORMER_FILE] == "trainer\n"
    assert len(members(scene)[injection.INSTANCES_FILE].split()) == 4


def test_successes_are_listed_while_others_run() -> None:
    scene = addressed(trains().running())
    scene.ends(1, "Succeeded").settle()

    assert members(scene)[injection.SUCCEEDED_FILE] == f"trainer 1={FIRST_NUMBER}\n"


@pytest.mark.parametrize("garbled", ["", "trainer x 1\n", "trainer\n"])
def test_garbled_membership_is_made_anew(garbled: str) -> None:
    scene = addressed(trains().running())
    data = dict(members(scene))
    scene.change(CONFIG_MAPS, "fit-members", {"data": {injection.INSTANCES_FILE: garbled}})
    scene.settle()

    assert members(scene)[injection.INSTANCES_FILE] == data[injection.INSTANCES_FILE]


def test_secret_that_is_not_on_record_is_replaced_before_anybody_uses_it() -> None:
    """An operator died between the two; that no pod is there is read consistently."""
    scene = trains()
    for action in scene.look().each_action():
        if not isinstance(action, IssueSecret) and not (
            isinstance(action, CreateObject) and action.resource.kind == "Job"
        ):
            scene.apply(action)
    plan = scene.look()

    assert any(isinstance(one, DeleteSecret) for one in plan.each_action())
    assert plan.needs_consistent_read
