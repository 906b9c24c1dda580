"""Records go into shards of bounded size and number, and are read back."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from swell.api.core import ConfigMap
from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import ObjectMeta
from swell.history.export import to_csv
from swell.history.life import JobLife, LifeError, PhaseChange, RoleShape, TargetChange, unpack
from swell.history.reading import EVERY_LIFE, HistoryFilter, ended_lives
from swell.history.shards import (
    HISTORY_LABEL,
    SHARD_BYTES_MAX,
    RecordKey,
    ShelfIndex,
    ShelfName,
    too_old,
    writes_for,
)
from swell.history.shelf import Shelf
from swell.history.summary import details_of, history_rows, length_text, timeline_rows
from swell.replay.traces import read_trace
from swell.runtime.cluster import Cluster, Selection
from tests.unit.history.clusters import fresh_cluster

T0 = 1_700_000_000.0


def a_life(number: int, namespace: str = "lab", **more: object) -> JobLife:
    noise = random.Random(number)
    return JobLife(
        uid=f"u-{number}",
        kind="AITrainingJob",
        namespace=namespace,
        name=f"fit-{number}",
        created=T0 + number,
        ended=T0 + number + 100,
        phase="Succeed",
        labels={"team": f"t{number % 3}"},
        roles={"trainer": RoleShape(1, 4, 2, 1000, 1 << 30, 1)},
        phases=(
            PhaseChange(T0 + number, "Pending", "WaitingForRoom", f"{noise.random()}"),
            PhaseChange(T0 + number + 20, "Running", "", ""),
        ),
        **more,  # type: ignore[arg-type]
    )


async def stored(cluster: Cluster) -> list[ConfigMap]:
    return list((await cluster.list(CONFIG_MAPS, Selection(labels=HISTORY_LABEL))).items)


def new_shelf(cluster: Cluster) -> Shelf:
    return Shelf(cluster, "aitrainingjob", ShelfName.ENDED, "")


def test_records_are_read_back_the_last_end_first() -> None:
    async def story() -> list[JobLife]:
        cluster = await fresh_cluster()
        shelf = new_shelf(cluster)
        await shelf.put([a_life(1), a_life(2), a_life(3, "other")])
        await shelf.put([a_life(4)])
        return ended_lives(await stored(cluster))

    lives = asyncio.run(story())

    assert lives == [a_life(4), a_life(3, "other"), a_life(2), a_life(1)]


def test_a_write_that_is_repeated_by_another_process_doubles_nothing() -> None:
    async def story() -> tuple[int, int]:
        cluster = await fresh_cluster()
        await new_shelf(cluster).put([a_life(1), a_life(2)])
        await new_shelf(cluster).put([a_life(1), a_life(2)])  # it has not read what is there
        again = new_shelf(cluster)
        await again.load()
        await again.put([a_life(1)])
        shards = await stored(cluster)
        return sum(len(one.binary_data) for one in shards), len(ended_lives(shards))

    assert asyncio.run(story()) == (2, 2)


def test_shards_are_of_bounded_size_and_an_empty_one_goes() -> None:
    async def story() -> tuple[list[int], list[str]]:
        cluster = await fresh_cluster()
        shelf = new_shelf(cluster)
        lives = [a_life(number) for number in range(700)]
        for at in range(0, len(lives), 50):
            await shelf.put(lives[at : at + 50])
        sizes = [
            sum(len(key) + len(text) for key, text in one.binary_data.items())
            for one in await stored(cluster)
        ]
        await shelf.remove([life.uid for life in lives[:-10]])
        return sizes, [life.name for life in ended_lives(await stored(cluster))]

    sizes, left = asyncio.run(story())

    assert len(sizes) > 1
    assert max(sizes) <= SHARD_BYTES_MAX
    assert left == [f"fit-{number}" for number in range(699, 689, -1)]


def test_a_shard_that_somebody_deleted_is_begun_anew() -> None:
    async def story() -> list[str]:
        cluster = await fresh_cluster()
        shelf = new_shelf(cluster)
        await shelf.put([a_life(1)])
        for one in await stored(cluster):
            await cluster.delete(CONFIG_MAPS, one.metadata.key)
        await shelf.put([a_life(2)])
        await shelf.remove(["u-1", "u-2", "no such"])
        await shelf.put([a_life(3)])
        return [life.name for life in ended_lives(await stored(cluster))]

    assert asyncio.run(story()) == ["fit-3"]


def test_the_oldest_go_when_there_are_too_many_or_they_are_too_old() -> None:
    index = ShelfIndex()
    for number in (5, 1, 9, 3, 7):
        index.add(f"u-{number}", RecordKey("lab", 0, str(number), 10, float(number)))

    assert too_old(index, jobs_max=10, before=4.0) == ["u-1", "u-3"]
    for uid in ("u-1", "u-3"):
        index.remove(uid)
    assert too_old(index, jobs_max=2, before=0.0) == ["u-5"]
    assert index.sizes == {("lab", 0): 30}


def test_a_write_goes_to_each_shard_once() -> None:
    lives = [a_life(1), a_life(2, "other"), a_life(3)]
    writes = writes_for(ShelfIndex(), lives)

    assert [(one.namespace, len(one.texts)) for one in writes] == [("lab", 2), ("other", 1)]


def test_filters_choose_by_end_name_and_labels() -> None:
    async def story() -> list[ConfigMap]:
        cluster = await fresh_cluster()
        await new_shelf(cluster).put(a_life(number) for number in range(6))
        return await stored(cluster)

    shards = asyncio.run(story())

    def names(wanted: HistoryFilter) -> list[str]:
        return [life.name for life in ended_lives(shards, wanted)]

    assert names(HistoryFilter(since=T0 + 104)) == ["fit-5", "fit-4"]
    assert names(HistoryFilter(name="fit-2")) == ["fit-2"]
    assert names(HistoryFilter(labels=lambda one: one.get("team") == "t1")) == ["fit-4", "fit-1"]
    assert len(names(EVERY_LIFE)) == 6


def test_shards_that_others_wrote_are_no_records() -> None:
    """Damaged ones, ones about another namespace, and ones that would unpack without end."""
    other = ConfigMap(
        metadata=ObjectMeta(namespace="lab", name="x", labels={HISTORY_LABEL: "ended"}),
        binary_data={"1.u": "AAAA", "nonsense": "?", "2.v": "", "x.y": "eJw="},
    )

    assert ended_lives([other]) == []
    with pytest.raises(LifeError):
        unpack("eJw=")


def test_an_export_is_a_trace_that_a_replay_reads(tmp_path: Path) -> None:
    """Work is running time times the speed-up of each size; names that come again stay apart."""
    grown = a_life(7, sizes=(TargetChange(T0 + 47, "trainer", 4, "autoscaler", "room"),))
    again = replace(a_life(9), name="fit-7", uid="u-10")
    path = tmp_path / "history.csv"
    path.write_text(to_csv([again, grown], T0))
    jobs = read_trace(path)

    assert [(job.name, job.submitted_s) for job in jobs] == [("lab/fit-7", 0), ("lab/fit-7#2", 2)]
    assert [(job.minimum, job.maximum) for job in jobs] == [(1, 4), (1, 4)]
    # 20 s at two replicas, and 60 s at four.
    assert jobs[0].work_s == pytest.approx(20 * 2 / 1.05 + 60 * 4 / 1.15, abs=0.1)
    assert jobs[1].work_s == pytest.approx(80 * 2 / 1.05, abs=0.1)


def test_tables_and_details_say_the_same() -> None:
    life = a_life(1)
    details = details_of(life, 0.0)

    assert details["wallSeconds"] == sum(details["ledger"].values()) == 100
    assert [one["cause"] for one in details["timeline"]] == ["queued", "running"]
    assert history_rows([life], 0.0, with_namespace=True)[1][:3] == ["lab", "fit-1", "Succeed"]
    assert [row[2] for row in timeline_rows(life, 0.0)] == ["CAUSE", "queued", "running"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (61, "1m1s"), (3700, "1h1m"), (90000, "1d1h"), (-4, "0s")]
)
def test_lengths_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert length_text(seconds) == text
