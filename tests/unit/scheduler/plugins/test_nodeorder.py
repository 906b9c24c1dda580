"""Scores of nodeorder that follow kube-scheduler, against plain versions of its formulas."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from swell.scheduler.config import DEFAULT
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.tasks import Task
from swell.scheduler.plugins import PLUGINS
from swell.scheduler.plugins.nodeorder import image_locality
from swell.scheduler.session import Session
from tests.score_clusters import HOSTNAME, IMAGES, MIB, ScoreCluster


def nodeorder_of(cluster: ScoreCluster) -> tuple[Session, Hooks, Task]:
    session = Session(cluster.objects().snapshot(), DEFAULT, PLUGINS)
    option = next(o for tier in DEFAULT.tiers for o in tier if o.name == "nodeorder")
    task = session.snapshot.task("ns/new")
    assert task is not None
    return session, PLUGINS["nodeorder"](session, option), task


def plain_images(cluster: ScoreCluster) -> dict[str, int]:
    """The score by images, one node and one image at a time."""
    wanted = [container.get("image", "") for container in cluster.containers]
    wanted += [volume["image"]["reference"] for volume in cluster.image_volumes]
    found = {}
    for node in cluster.nodes:
        total = 0
        for image in wanted:
            name = image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
            holders = [n for n in cluster.nodes if any(name in i["names"] for i in images_of(n))]
            for one in images_of(node):
                if name in one["names"]:
                    total += int(one["sizeBytes"] * (len(holders) / len(cluster.nodes)))
        most = 1000 * MIB * len(cluster.containers)
        total = min(max(total, 23 * MIB), most)
        found[node["metadata"]["name"]] = 100 * (total - 23 * MIB) // (most - 23 * MIB)
    return found


def images_of(node: dict[str, Any]) -> list[dict[str, Any]]:
    images: list[dict[str, Any]] = node["status"].get("images", [])
    return images


def plain_spread(cluster: ScoreCluster, scored: list[str]) -> dict[str, int]:
    """The score by soft topology spread, one node, constraint and pod at a time."""
    soft = [c for c in cluster.constraints if c["whenUnsatisfiable"] == "ScheduleAnyway"]
    labels = {n["metadata"]["name"]: n["metadata"]["labels"] for n in cluster.nodes}
    whole = {name for name, own in labels.items() if all(c["topologyKey"] in own for c in soft)}
    compared = [name for name in scored if name in whole]
    sums = {}
    for name in compared:
        total = 0.0
        for one in soft:
            key = one["topologyKey"]
            alike = {
                other
                for other in whole
                if labels[other][key] == labels[name][key] and cluster.counts(one, other)
            }
            if key == HOSTNAME:
                alike = {name}
            n_pods = sum(cluster.n_matching(one, other) for other in alike)
            n_domains = len({labels[other][key] for other in compared})
            if key == HOSTNAME:
                n_domains = len(compared)
            total += n_pods * math.log(n_domains + 2) + one["maxSkew"] - 1
        sums[name] = math.floor(total + 0.5)
    if not sums:
        return dict.fromkeys(labels, 0)
    most, least = max(sums.values()), min(sums.values())
    points = {name: 100 * (most + least - s) // most if most else 100 for name, s in sums.items()}
    return {name: points.get(name, 0) for name in labels}


def test_images_score_as_in_kube_scheduler() -> None:
    """200 random sets of nodes: tags, digests, several names, init containers, volumes."""
    n_scored = 0
    for seed in range(200):
        cluster = ScoreCluster(Random(seed))
        session, _, task = nodeorder_of(cluster)
        found = image_locality(task.shape, session.snapshot.nodes)
        expected = plain_images(cluster)
        names = session.snapshot.nodes.names
        given = {} if found is None else dict(zip(names, found.tolist(), strict=True))

        assert given == expected or (found is None and not any(expected.values())), seed
        n_scored += any(expected.values())

    assert n_scored > 100


def test_soft_spread_scores_as_in_kube_scheduler() -> None:
    """200 random sets of nodes: several keys, policies, pods that are leaving."""
    n_scored = 0
    for seed in range(200):
        cluster = ScoreCluster(Random(seed))
        session, hooks, task = nodeorder_of(cluster)
        scored = session.placer.passing(task)
        names = session.snapshot.nodes.names
        assert hooks.relative_score is not None
        found = hooks.relative_score(task, scored)
        if found is None:
            assert all(c["whenUnsatisfiable"] == "DoNotSchedule" for c in cluster.constraints)
            continue
        there = [name for name, yes in zip(names, scored, strict=True) if yes]
        expected = plain_spread(cluster, there)
        given = {name: found[at] / 2 for at, name in enumerate(names) if scored[at]}

        assert given == {name: expected[name] for name in there}, seed
        n_scored += len(set(given.values())) > 1

    assert n_scored > 60


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("train", 1), ("train:latest", 1), ("train:v2", 0), ("host:5000/train", 1),
        ("host:5000/train:latest", 1), ("train@sha256:1", 1), ("", 0),
    ],
)  # fmt: skip
def test_an_image_is_known_by_each_of_its_names(image: str, expected: int) -> None:
    """One without a tag is the latest; the port of a registry is no tag."""
    cluster = ScoreCluster(Random(0))
    names = ["train:latest", "host:5000/train:latest", "train@sha256:1"]
    cluster.containers, cluster.image_volumes = [{"name": "main", "image": image}], []
    for node in cluster.nodes:
        node["status"]["images"] = [{"names": names, "sizeBytes": 2000 * MIB}]
    session, _, task = nodeorder_of(cluster)
    found = image_locality(task.shape, session.snapshot.nodes)

    assert (0 if found is None else int(found.min() / 100)) == expected


def test_images_that_come_and_go_are_followed() -> None:
    """A node that pulls an image is found, and no version changes with it."""
    cluster = ScoreCluster(Random(0))
    cluster.containers, cluster.image_volumes = [{"name": "main", "image": IMAGES[0]}], []
    for node in cluster.nodes:
        node["status"].pop("images", None)
    session, _, task = nodeorder_of(cluster)
    nodes = session.snapshot.nodes
    version = nodes.version
    assert image_locality(task.shape, nodes) is None
    first = cluster.nodes[0]
    first["status"]["images"] = [{"names": [IMAGES[0]], "sizeBytes": 9000 * MIB}]
    session.snapshot.put_node(cluster.objects().nodes[0])
    found = image_locality(task.shape, nodes)

    assert nodes.version == version
    assert found is not None
    assert np.flatnonzero(found).tolist() == [nodes.find(first["metadata"]["name"])]
    first["status"]["images"] = []
    session.snapshot.put_node(cluster.objects().nodes[0])
    assert image_locality(task.shape, nodes) is None
