"""The plugin resource-strategy-fit, against its formulas number by number."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from swell.api import codec
from swell.api.core import Node
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.scheduler.config import Arguments, Config, PluginOption
from swell.scheduler.config_file import parse
from swell.scheduler.cycle import KNOWN, run_cycle
from swell.scheduler.gathering import SCORE_STEPS
from swell.scheduler.model.pod_notes import STRATEGY_TYPE_KEY, STRATEGY_WEIGHT_KEY
from swell.scheduler.plan import SchedulerObjects
from swell.scheduler.plugins import PLUGINS
from swell.scheduler.plugins.resource_strategy_fit import LEAST, MOST, match, strategies_of
from swell.scheduler.session import Session

Body = dict[str, Any]
GPU, TPU = "nvidia.com/gpu", "example.com/tpu"
RESOURCES = ("cpu", GPU, TPU)


def node(name: str, **amounts: int) -> Node:
    have = {"cpu": "0", "memory": "64G", "pods": "50"} | {
        {"gpu": GPU, "tpu": TPU}.get(key, key): str(value) for key, value in amounts.items()
    }
    ready = [{"type": "Ready", "status": "True"}]
    body = {"metadata": {"name": name}, "status": {"allocatable": have, "conditions": ready}}
    return codec.convert(body, Node)


def pod(name: str, on: str = "", *, notes: Body | None = None, **requests: Any) -> Pod:
    asked = {{"gpu": GPU, "tpu": TPU}.get(key, key): str(value) for key, value in requests.items()}
    body: Body = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "annotations": {"scheduling.k8s.io/group-name": name, **(notes or {})},
        },
        "spec": {
            "schedulerName": "swell",
            "nodeName": on,
            "containers": [{"resources": {"requests": asked}}],
        },
        "status": {"phase": "Running" if on else "Pending"},
    }
    return codec.convert(body, Pod)


def objects(nodes: list[Node], made: list[Pod]) -> SchedulerObjects:
    groups = [
        codec.convert(
            {
                "metadata": {"name": one.metadata.name, "namespace": "ns"},
                "spec": {"minMember": 1, "queue": "q"},
                "status": {"phase": "Inqueue"},
            },
            PodGroup,
        )
        for one in made
    ]
    queue = codec.convert({"metadata": {"name": "q"}}, Queue)
    return SchedulerObjects(nodes=nodes, queues=[queue], groups=groups, pods=made)


def config(arguments: Body) -> Config:
    plugins = [
        {"name": "gang"},
        {"name": "predicates"},
        {"name": "resource-strategy-fit", "arguments": arguments},
    ]
    return parse({"actions": "allocate", "tiers": [{"plugins": plugins}]}, KNOWN).config


def scores(world: SchedulerObjects, arguments: Body, name: str = "ns/new") -> dict[str, float]:
    """The scores that the plugin alone gives to the nodes, in hundredths as decisions use them."""
    snapshot = world.snapshot()
    session = Session(snapshot, config(arguments), PLUGINS)
    task = snapshot.task(name)
    assert task is not None
    ranking = session.placer.ranking(task)
    return {name: float(ranking[at]) for at, name in enumerate(snapshot.nodes.names)}


def plain_score(
    have: dict[str, int], used: dict[str, int], asked: dict[str, int], rows: Body, weight: float
) -> float:
    """The documented formula, one node and one resource at a time."""
    total = points = 0.0
    for name, request in asked.items():
        row = rows.get(name)
        if row is None or not request:
            continue
        share = row["weight"] if row["weight"] > 0 else 1
        total += share
        if not have.get(name):
            continue
        taken = used.get(name, 0) + request
        if taken > have[name]:
            return 0.0
        part = taken if row["type"] == MOST else have[name] - taken
        points += share * part / have[name]
    return points / total * 100 * weight if total else 0.0


def test_scores_are_those_of_the_formula() -> None:
    """200 random sets of nodes, with resources of both strategies and some that nodes lack."""
    for seed in range(200):
        chance = Random(seed)
        rows = {
            name: {"type": chance.choice([MOST, LEAST, "Odd"]), "weight": chance.randint(-1, 5)}
            for name in RESOURCES
            if chance.random() < 0.8
        } or {"cpu": {"type": LEAST, "weight": 1}}
        weight = chance.choice([1, 3, 10])
        have = {
            f"n{at}": {"cpu": chance.randint(1, 16), "gpu": chance.choice([0, 4, 8]), "tpu": 2}
            for at in range(5)
        }
        used = {name: chance.randint(0, 8) for name in have}
        asked: Body = {"cpu": chance.randint(1, 6), "gpu": chance.randint(0, 2)}
        made = [pod(f"old-{name}", name, cpu=n) for name, n in used.items() if n]
        world = objects([node(name, **amounts) for name, amounts in have.items()], made)
        world.pods.append(pod("new", **asked))
        names = {"cpu": "cpu", "gpu": GPU, "tpu": TPU}

        found = scores(world, {"resources": rows, "resourceStrategyFitWeight": weight})

        for name, amounts in have.items():
            expected = plain_score(
                {names[key]: value for key, value in amounts.items()},
                {"cpu": used[name]},
                {names[key]: value for key, value in asked.items()},
                rows,
                weight,
            )
            assert found[name] == pytest.approx(expected * SCORE_STEPS, abs=1), (seed, name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.b/c", "exact"), ("a.b/d", "a.b/*"), ("a.c", "a.*"), ("other", None)],
)
def test_the_longest_prefix_counts(name: str, expected: str | None) -> None:
    """An exact name comes first; a bare star is ignored."""
    weights = {"a.b/c": 1, "a.b/*": 2, "a.*": 3, "*": 4}
    rows = {key: {"type": MOST, "weight": value} for key, value in weights.items()}
    found = match(strategies_of(Arguments({"resources": rows})), name)
    names = {None: None, "exact": 1.0, "a.b/*": 2.0, "a.*": 3.0}

    assert (None if found is None else found.weight) == names[expected]


@pytest.mark.parametrize(
    ("notes", "best"),
    [
        ({}, "empty"),
        ({STRATEGY_TYPE_KEY: MOST}, "used"),
        ({STRATEGY_TYPE_KEY: "Sideways"}, "empty"),
        ({STRATEGY_WEIGHT_KEY: '{"nvidia.com/gpu": 1}'}, "used"),
        ({STRATEGY_WEIGHT_KEY: '{"cpu": 1}'}, "empty"),
        ({STRATEGY_WEIGHT_KEY: "{"}, "empty"),
        ({STRATEGY_TYPE_KEY: LEAST, STRATEGY_WEIGHT_KEY: '{"nvidia.com/gpu": 1}'}, "empty"),
    ],
)
def test_a_pod_chooses_its_strategy(notes: Body, best: str) -> None:
    """Type and weights of its annotations; a resource without a weight counts nothing."""
    rows = {"cpu": {"type": LEAST, "weight": 9}, GPU: {"type": MOST, "weight": 1}}
    nodes = [node("empty", cpu=8, gpu=8), node("used", cpu=8, gpu=8)]
    world = objects(
        nodes, [pod("old", "used", cpu=4, gpu=4), pod("new", notes=notes, cpu=1, gpu=1)]
    )
    found = scores(world, {"resources": rows})

    assert max(found, key=found.__getitem__) == best


def test_sra_prefers_nodes_without_scarce_resources() -> None:
    """By weight; a node that lacks something asked for gets nothing."""
    table = {"enable": True, "resources": f"{GPU}, {TPU}", "weight": 5, "resourceWeight": {GPU: 3}}
    nodes = [node("plain", cpu=8), node("gpu", cpu=8, gpu=1), node("both", cpu=8, gpu=1, tpu=1)]
    rows = {"none": {"type": LEAST, "weight": 1}}  # of no pod: only `sra` counts
    arguments = {"sra": table, "resources": rows}
    world = objects(nodes, [pod("new", cpu=1), pod("asks", cpu=1, gpu=1)])

    assert scores(world, arguments) == {
        "plain": 500 * SCORE_STEPS,
        "gpu": 125 * SCORE_STEPS,
        "both": 0,
    }
    assert scores(world, arguments, "ns/asks") == {"plain": 0, "gpu": 125 * SCORE_STEPS, "both": 0}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"resources": {"*": {"type": MOST}}}, "resource '*' is ignored"),
        ({"resources": {"cpu": {"type": "Odd"}}}, "type 'Odd' counts as LeastAllocated"),
        ({"resources": {"cpu": {"type": MOST, "weight": -1}}}, "weight -1 counts as 1"),
        ({"resources": {"cpu": 3}}, "3 is not a mapping"),
        ({"resources": "cpu"}, "'cpu' is not a mapping"),
        ({"sra": {"resources": GPU}}, "has no effect without `enable: true`"),
        ({"sra": {"enable": True}}, "it lists no resources"),
        ({"sra": {"enable": True, "resources": GPU, "retention": 1}}, "field 'retention'"),
        ({"resourceStrategyFitWeight": 0}, "is not positive, so 10 is used"),
        (
            {
                "proportional": {
                    "enable": True,
                    "resources": GPU,
                    "resourceProportion": {"x.cpu": 1},
                }
            },
            "rate 'x.cpu' has no effect",
        ),
    ],
)
def test_settings_without_effect_are_warned_of(arguments: Body, expected: str) -> None:
    """One warning each."""
    row = {"name": "resource-strategy-fit", "arguments": arguments}
    (warning,) = parse({"tiers": [{"plugins": [row]}]}, KNOWN).warnings

    assert expected in warning


def test_default_is_to_spread_by_cpu_and_memory() -> None:
    """Without arguments emptier nodes come first."""
    world = objects(
        [node("a", cpu=8), node("b", cpu=8)], [pod("old", "a", cpu=2), pod("new", cpu=1)]
    )
    option = PluginOption("resource-strategy-fit")
    assert (
        PLUGINS[option.name](Session(world.snapshot(), config({}), PLUGINS), option).usable_room
        is None
    )
    found = scores(world, {})

    assert found["b"] > found["a"]


OLD = {
    "predicate.ProportionalEnable": True,
    "predicate.resources": GPU,
    f"predicate.resources.{GPU}.cpu": 8,
    f"predicate.resources.{GPU}.memory": 8,
}
NEW = {
    "proportional": {
        "enable": True,
        "resources": GPU,
        "resourceProportion": {f"{GPU}.cpu": 8, f"{GPU}.memory": 8},
    }
}


@pytest.mark.parametrize(
    ("plugin", "arguments"), [("predicates", OLD), ("resource-strategy-fit", NEW)]
)
def test_processors_beside_gpus_are_kept(plugin: str, arguments: Body) -> None:
    """74 processors, 8 GPUs, 8 processors for each: one pod of 8 fits, unless it asks for GPUs."""
    row = {"name": plugin, "arguments": arguments}
    body = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, row]}]}
    parsed = parse(body, KNOWN)
    world = objects([node("n", cpu=74, gpu=8)], [pod(name, cpu=8) for name in ("a", "b")])
    plan = run_cycle(world.snapshot(), parsed.config)
    refusal = plan.groups["ns/b"].refusal
    with_gpu = objects([node("n", cpu=74, gpu=8)], [pod("a", cpu=8), pod("b", cpu=8, gpu=1)])

    assert parsed.warnings == ()
    assert [task.key for task in plan.binds] == ["ns/a"]
    assert refusal is not None
    assert f"1 keeping cpu and memory for pods that ask for {GPU}" in refusal.message
    assert len(run_cycle(with_gpu.snapshot(), parsed.config).binds) == 2


def test_a_gang_counts_what_it_takes_itself() -> None:
    """Equal pods are placed at once, and only as many as leave the reserve."""
    world = objects([node("n", cpu=74, gpu=8), node("m", cpu=70, gpu=8)], [])
    made = [pod(f"p-{at}", cpu=2) for at in range(12)]
    group = {"metadata": {"name": "g", "namespace": "ns"}, "status": {"phase": "Inqueue"}}
    world.groups = [codec.convert({**group, "spec": {"minMember": 1, "queue": "q"}}, PodGroup)]
    world.pods = [
        codec.convert(
            {
                **codec.to_body(one),
                "metadata": {
                    "name": one.metadata.name,
                    "namespace": "ns",
                    "annotations": {"scheduling.k8s.io/group-name": "g"},
                },
            },
            Pod,
        )
        for one in made
    ]
    plan = run_cycle(world.snapshot(), config(NEW))
    places = sorted(plan.binds.values())

    assert places == ["m"] * 3 + ["n"] * 5


def test_freed_processors_are_kept_again() -> None:
    """With fewer idle GPUs less is kept beside them."""
    gpus_in_use = pod("old", "n", cpu=1, gpu=7)
    world = objects([node("n", cpu=20, gpu=8)], [gpus_in_use, pod("new", cpu=8)])
    idle = objects([node("n", cpu=20, gpu=8)], [pod("new", cpu=8)])

    assert len(run_cycle(world.snapshot(), config(NEW)).binds) == 1
    assert not run_cycle(idle.snapshot(), config(NEW)).binds
