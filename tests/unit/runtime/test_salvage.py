"""A placeholder has all that can be read of an object, and never loses what was read before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swell.api import kinds
from swell.api.codec import convert, to_body
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod, PodPhase
from swell.api.resource import Resource
from swell.runtime.cluster import Malformed
from swell.runtime.salvage import Placeholder, salvage

SOUND: Body = {
    "metadata": {"name": "a", "namespace": "ns", "uid": "u", "labels": {"role": "worker"}},
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
    },
    "status": {"phase": "Running"},
}
RESOURCES = [r for r in vars(kinds).values() if isinstance(r, Resource) and r.struct is not dict]


def broken(path: str, value: Any = 7) -> Malformed:
    """The sound pod with one wrong field."""
    body = msgspec.json.decode(msgspec.json.encode(SOUND))
    *above, field = path.split(".")
    holder = body
    for step in above:
        holder = holder[step]
    holder[field] = value
    with pytest.raises(msgspec.ValidationError) as error:
        convert(body, Pod)
    return Malformed(Key("ns", "a"), Uid("u"), "5", str(error.value), body)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.containers", 7),
        ("spec.containers", [{"resources": {"requests": "all"}}]),
        ("status.phase", "Dreaming"),
        ("metadata.labels", {"role": "worker", "count": 3}),
        ("spec.tolerations", [{"key": "a"}, {"key": 5}]),
        ("spec", "?"),
        ("status", 3),
    ],
)
def test_wrong_field_keeps_its_last_readable_value(path: str, value: Any) -> None:
    """With a state read before, nothing is unknown: the wrong field is as it was."""
    sound = convert(SOUND, Pod)

    found = salvage(broken(path, value), Pod, Placeholder(sound))

    assert found.unknown == ()
    assert found.object.spec == sound.spec
    assert found.object.status == sound.status
    assert found.object.metadata.labels == sound.metadata.labels
    assert found.object.metadata.resource_version == "5"


def test_readable_fields_are_as_the_server_has_them() -> None:
    """A pod that was bound and finished meanwhile is bound and finished, whatever else is wrong."""
    unbound = convert({"metadata": {"name": "a"}, "spec": {}}, Pod)
    found = broken("spec.containers")
    found.body["status"]["phase"] = "Succeeded"

    seen = salvage(found, Pod, Placeholder(unbound)).object

    assert seen.spec.node_name == "n1"
    assert seen.status.phase is PodPhase.SUCCEEDED


def test_field_that_was_never_readable_is_named() -> None:
    """Without a state read before, the rest still counts, and what is missing is said."""
    found = salvage(broken("spec.containers"), Pod, None)

    assert found.unknown == ("spec.containers",)
    assert found.object.spec.node_name == "n1"
    assert found.object.status.phase is PodPhase.RUNNING
    assert found.object.metadata.labels == {"role": "worker"}


def test_unknown_field_stays_unknown_until_it_is_readable() -> None:
    """A second wrong state does not make the first one's gap look known."""
    first = salvage(broken("spec.containers"), Pod, None)
    second = salvage(broken("spec.containers", "again"), Pod, first)
    other = salvage(broken("status.phase"), Pod, second)

    assert second.unknown == ("spec.containers",)
    assert other.unknown == ()
    assert other.object.spec.containers[0].name == "main"


def test_one_wrong_label_costs_no_other() -> None:
    """The entries of a map that can be read are kept."""
    found = salvage(broken("metadata.labels", {"role": "worker", "count": 3}), Pod, None)

    assert found.object.metadata.labels == {"role": "worker"}
    assert found.unknown == ("metadata.labels",)


@pytest.mark.parametrize("body", [{}, {"metadata": "?"}, {"metadata": None, "spec": [1]}])
@pytest.mark.parametrize("resource", RESOURCES, ids=str)
def test_identity_survives_anything(resource: Resource[Any], body: Body) -> None:
    """Of every kind there is a placeholder, if only with name, UID and version."""
    found = Malformed(Key("ns", "a"), Uid("u"), "5", "all wrong", body)

    seen = salvage(found, resource.struct, None).object

    assert (seen.metadata.key, seen.metadata.uid) == (Key("ns", "a"), "u")
    assert to_body(seen)["metadata"]["resourceVersion"] == "5"
