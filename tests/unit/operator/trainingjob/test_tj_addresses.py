"""The addresses by which PaddlePaddle's processes find each other."""

from __future__ import annotations

import pytest

from swell.api.core import ConfigMap
from swell.api.kinds import CONFIG_MAPS, PODS
from swell.api.meta import Body
from tests.unit.operator.trainingjob.tj_scene import Scene, a_job, created, elastic, patched

PSERVERS = "PADDLE_PSERVERS_IP_PORT_LIST"
TRAINERS = "PADDLE_TRAINER_ENDPOINTS"
COLLECTIVE: Body = {"is_nccl": True}
TWO_OF_EACH: Body = {"pserver": {"min-instance": 2}}


def data(scene: Scene) -> dict[str, str]:
    held: ConfigMap = scene.held[str(CONFIG_MAPS), "fit-addresses"]
    return held.data


def has_address(scene: Scene, name: str, address: str) -> None:
    scene.change(PODS, name, {"status": {"podIP": address}})


def all_have_addresses(scene: Scene) -> Scene:
    """Each pod gets an address, as its node gives it before it starts containers."""
    for number, pod in enumerate(scene.pods()):
        has_address(scene, pod.metadata.name, f"10.0.0.{number}")
    return scene.settle()


def reference(template: Body, name: str) -> Body:
    (found,) = [one for one in template["spec"]["containers"][0]["env"] if one["name"] == name]
    return dict(found["valueFrom"]["configMapKeyRef"])


def templates(**spec: object) -> dict[str, Body]:
    scene = Scene(a_job(**spec))
    made: dict[str, Body] = {}
    for _ in range(3):
        plan = scene.look()
        made |= created(plan)
        scene.settle()
    return {name.split()[1]: body["spec"]["template"] for name, body in made.items() if "-" in name
            and "template" in body.get("spec", {})}  # fmt: skip


def test_lists_come_when_every_pod_has_an_address() -> None:
    """Until then no container with the variable starts: a part of the list would be wrong."""
    scene = Scene(a_job(**TWO_OF_EACH)).settle().populate().settle()
    assert data(scene) == {"PADDLE_TRAINERS_NUM": "2"}
    has_address(scene, "fit-pserver-1", "10.0.0.1")
    has_address(scene, "fit-trainer-1", "10.0.0.3")
    scene.settle()
    assert data(scene) == {"PADDLE_TRAINERS_NUM": "2"}
    has_address(scene, "fit-pserver-0", "10.0.0.9")
    has_address(scene, "fit-trainer-0", "10.0.0.8")
    scene.settle()

    assert data(scene)[PSERVERS] == "10.0.0.9:7164,10.0.0.1:7164"
    assert data(scene)[TRAINERS] == "10.0.0.8:7164,10.0.0.3:7164"


def test_list_is_taken_away_while_a_pserver_is_replaced() -> None:
    """Its replacement would not find itself in it; then it takes the place of the lost one."""
    scene = all_have_addresses(Scene(a_job(**TWO_OF_EACH)).running())
    first = data(scene)[PSERVERS].split(",")[0]
    scene.remove(PODS, "fit-pserver-0").settle()
    assert PSERVERS not in data(scene)
    scene.pod("fit-pserver-new", "fit-pserver-1")
    has_address(scene, "fit-pserver-new", "10.0.9.9")
    scene.settle()

    assert data(scene)[PSERVERS] == "10.0.9.9:7164,10.0.0.1:7164"
    assert first not in data(scene)[PSERVERS]


def test_places_are_kept_whatever_the_age_of_the_pods() -> None:
    """A pserver's place is its number, by which trainers find their parameters."""
    scene = all_have_addresses(Scene(a_job(pserver={"min-instance": 3})).running())
    scene.remove(PODS, "fit-pserver-1").settle()
    scene.pod("fit-pserver-a", "fit-pserver-2", creation_timestamp="2025-01-01T00:00:00Z")
    has_address(scene, "fit-pserver-a", "10.0.9.9")
    scene.settle()

    assert data(scene)[PSERVERS] == "10.0.0.0:7164,10.0.9.9:7164,10.0.0.2:7164"


def test_trainers_follow_the_target() -> None:
    """The list is that of the size the job is to have, in the order of indexes."""
    scene = all_have_addresses(Scene(elastic(1, 4)).running()).targets(3).settle()
    assert data(scene)["PADDLE_TRAINERS_NUM"] == "3"
    assert TRAINERS not in data(scene)
    scene.populate()
    all_have_addresses(scene)

    assert len(data(scene)[TRAINERS].split(",")) == 3


def test_collective_trainers_wait_for_each_other() -> None:
    """Without pservers, trainers connect to each other, and to nothing else."""
    (found,) = templates(**COLLECTIVE).values()
    names = {one["name"] for one in found["spec"]["containers"][0]["env"]}

    assert PSERVERS not in names
    assert reference(found, TRAINERS) == {"name": "fit-addresses", "key": TRAINERS}


@pytest.mark.parametrize(("tolerant", "waits"), [(False, True), (True, False)])
def test_trainers_that_come_and_go_do_not_wait_for_each_other(tolerant: bool, waits: bool) -> None:
    """With pservers and fault tolerance one trainer must not hold up the others."""
    found = templates(fault_tolerant=tolerant)["fit-trainer"]

    assert ("optional" not in reference(found, TRAINERS)) is waits
    assert "optional" not in reference(found, PSERVERS)


@pytest.mark.parametrize(
    "spec", [{"local_job": True}, {"frame_work": {"name": "tensorflow", "type": "multi"}}]
)
def test_others_get_no_addresses(spec: Body) -> None:
    """One trainer alone has nobody to find, and TensorFlow has variables of its own."""
    scene = Scene(a_job(**spec)).running()

    assert (str(CONFIG_MAPS), "fit-addresses") not in scene.held
    assert "ConfigMap fit-addresses" not in patched(scene.look())


def test_update_is_for_the_version_that_was_seen() -> None:
    """An old list that arrives late must not come back."""
    scene = Scene(a_job()).settle().populate().settle()
    for pod in scene.pods():
        has_address(scene, pod.metadata.name, "10.0.0.5")
    change = patched(scene.look())["ConfigMap fit-addresses"]

    assert change["metadata"]["resourceVersion"] == "1"
