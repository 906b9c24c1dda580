"""How a deleted namespace is emptied."""

from __future__ import annotations

from swell.api.codec import convert
from swell.api.core import Namespace
from swell.api.kinds import PODS
from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.cluster.embedded.controllers.namespace import (
    NamespacedObject,
    NamespaceSnapshot,
    decide_namespace,
)
from swell.runtime.plan import NOTHING, DeleteObject, PatchObject, PatchStatus, Plan
from tests.unit.cluster.embedded.controllers.builders import NOW, ago

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", dict)


def namespace(*, status: Body | None = None, finalizers: tuple[str, ...] = ("kubernetes",)) -> Body:
    return {
        "metadata": {
            "name": "x",
            "uid": "u",
            "resourceVersion": "7",
            "deletionTimestamp": ago(5),
        },
        "spec": {"finalizers": list(finalizers)},
        "status": status or {"phase": "Terminating"},
    }


def content(
    name: str, *, pod: bool = False, deleted: bool = True, held: str = ""
) -> NamespacedObject:
    resource = PODS.untyped() if pod else CONFIG_MAPS
    finalizers = (held,) if held else ()
    return NamespacedObject(resource, Key("x", name), Uid(f"uid-{name}"), deleted, finalizers)


def decide(body: Body, *contents: NamespacedObject) -> Plan:
    return decide_namespace(NamespaceSnapshot(convert(body, Namespace), contents), NOW)


def statuses(plan: Plan) -> dict[str, str]:
    (patch,) = [a for a in plan.each_action() if isinstance(a, PatchStatus)]
    return {c["type"]: c["status"] for c in patch.status["conditions"]}


def test_living_namespace_is_left_alone() -> None:
    """Only a deleted namespace that still has our finalizer is emptied."""
    living = namespace()
    del living["metadata"]["deletionTimestamp"]

    assert decide(living, content("c", deleted=False)) == NOTHING
    assert decide(namespace(finalizers=("other",)), content("c", deleted=False)) == NOTHING


def test_pods_are_deleted_first_and_by_uid() -> None:
    """The rest is not touched while there are pods."""
    plan = decide(namespace(), content("p", pod=True, deleted=False), content("c", deleted=False))
    (deletion,) = plan.each_action()

    assert isinstance(deletion, DeleteObject)
    assert (deletion.key.name, deletion.uid, deletion.propagation) == ("p", "uid-p", "Background")
    assert plan.wake_at == NOW


def test_says_what_it_waits_for() -> None:
    """Kinds and finalizers that are left, by number; the finalizer stays."""
    plan = decide(namespace(), content("c", held="f"), content("d", held="f"))
    (patch,) = plan.each_action()
    assert isinstance(patch, PatchStatus)
    messages = {c["type"]: c.get("message", "") for c in patch.status["conditions"]}

    assert statuses(plan)["NamespaceContentRemaining"] == "True"
    assert statuses(plan)["NamespaceFinalizersRemaining"] == "True"
    assert statuses(plan)["NamespaceDeletionContentFailure"] == "False"
    assert "configmaps (2)" in messages["NamespaceContentRemaining"]
    assert "f (2)" in messages["NamespaceFinalizersRemaining"]


def test_says_nothing_twice() -> None:
    """While nothing changes nothing is written, however late it is."""
    plan = decide(namespace(), content("c", held="f"))
    (patch,) = plan.each_action()
    assert isinstance(patch, PatchStatus)
    reported = namespace(status={"phase": "Terminating", **patch.status})

    assert not decide_namespace(
        NamespaceSnapshot(convert(reported, Namespace), (content("c", held="f"),)), NOW + 100
    ).actions


def test_empty_namespace_loses_its_finalizer_only() -> None:
    """Finalizers of others stay, and keep it."""
    plan = decide(namespace(finalizers=("kubernetes", "other")))
    status, finalize = plan.each_action()

    assert isinstance(status, PatchStatus)
    assert set(statuses(plan).values()) == {"False"}
    assert isinstance(finalize, PatchObject)
    assert finalize.resource.subresource == "finalize"
    assert finalize.patch.body == {"metadata": {"uid": "u"}, "spec": {"finalizers": ["other"]}}
