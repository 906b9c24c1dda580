"""What the scheduler exports, by values of a live cycle."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from swell.api.codec import convert
from swell.api.core import Node
from swell.api.kinds import POD_GROUPS, QUEUES
from swell.api.meta import Key
from swell.runtime.metrics import Metrics
from swell.scheduler.config import DEFAULT, PluginOption
from swell.scheduler.live import snapshot_metrics
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.loop import stopwatch
from swell.scheduler.live.metrics import SchedulerMetrics
from swell.scheduler.live.settings import SchedulerSettings
from swell.sim.loop import VirtualClock
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage


def measured(stage: Stage) -> tuple[Metrics, Scheduler]:
    """Starts a scheduler that exports metrics."""
    metrics = Metrics()
    cluster = stage.server.connect("scheduler")
    scheduler = Scheduler(
        cluster, stage.settings, clock=stage.clock, random=Random(1), metrics=metrics
    )
    stage.adopt(scheduler)
    return metrics, scheduler


def values(metrics: Metrics, name: str) -> dict[str, float]:
    """Returns the values of one metric, by the values of its labels."""
    return {
        "/".join(sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def test_metrics_have_the_names_people_know() -> None:
    """Queues, waiting jobs, cycles and bindings, by Volcano's names."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.gang("a", 2)
        await stage.gang("b", 2, cpu="3")
        metrics, _ = measured(stage)
        await stage.sleep(5)
        text = metrics.exposition().decode()

        assert 'volcano_queue_allocated_milli_cpu{queue_name="default"} 2000.0' in text
        assert 'volcano_queue_weight{queue_name="default"} 1.0' in text
        assert 'volcano_unschedule_task_count{job_id="ns/b"} 2.0' in text
        assert "volcano_unschedule_job_count 1.0" in text
        assert 'volcano_schedule_attempts_total{result="scheduled"} 2.0' in text
        assert "volcano_e2e_scheduling_latency_milliseconds_count" in text

    on_stage(play)


def test_configuration_that_is_refused_shows() -> None:
    """A gauge to alert on."""
    metrics = Metrics()
    meter = SchedulerMetrics(metrics.registry, VirtualClock())
    meter.configured(is_valid=True, n_warnings=3)
    meter.configured(is_valid=False)
    meter.released()
    text = metrics.exposition().decode()

    assert "swell_scheduler_config_valid 0.0" in text
    assert "swell_scheduler_config_warnings 3.0" in text
    assert 'swell_scheduler_config_reloads_total{result="invalid"} 1.0' in text
    assert "swell_scheduler_released_gangs_total 1.0" in text


def test_queues_are_described_by_the_plugin_in_charge() -> None:
    """With proportion a queue deserves its weighted part, whatever its spec says."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="8")
        await stage.queue("red", weight=3, capability={"cpu": "7"}, deserved={"cpu": "1"})
        await stage.queue("blue", weight=1)
        await stage.gang("r", 8, 1, queue="red")
        await stage.gang("b", 8, 1, queue="blue")
        metrics, _ = measured(stage)
        await stage.sleep(5)

        deserved = values(metrics, "volcano_queue_deserved_milli_cpu")
        assert (deserved["red"], deserved["blue"]) == (6000, 2000)
        assert values(metrics, "volcano_queue_allocated_milli_cpu")["red"] == 6000
        assert values(metrics, "volcano_queue_request_milli_cpu")["red"] == 8000
        assert values(metrics, "volcano_queue_real_capacity_milli_cpu") == {
            "red": 7000, "blue": 8000, "default": 8000, "root": 8000,
        }  # fmt: skip
        assert values(metrics, "volcano_queue_share")["blue"] == 1
        # It lacks memory that it deserves, so it has not all.
        assert values(metrics, "volcano_queue_overused")["red"] == 0
        assert values(metrics, "volcano_queue_allocated_scalar_resources")["red/pods"] == 6
        assert values(metrics, "volcano_queue_allocated_memory_bytes")["red"] == 6 * 2**30
        assert values(metrics, "volcano_queue_capacity_milli_cpu")["red"] == 7000
        weights = values(metrics, "volcano_queue_weight")
        assert (weights["red"], weights["blue"]) == (3, 1)

    on_stage(play)


def test_queue_that_has_all_it_deserves_is_overused() -> None:
    """What a queue deserves is at most what it asks for."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="8")
        await stage.queue("red")
        await stage.gang("r", 2, queue="red")
        metrics, _ = measured(stage)
        await stage.sleep(5)

        assert values(metrics, "volcano_queue_deserved_milli_cpu")["red"] == 2000
        assert values(metrics, "volcano_queue_overused")["red"] == 1

    on_stage(play)


TREE = SchedulerSettings(
    config=replace(
        DEFAULT,
        tiers=(
            (
                PluginOption("gang", {"enableReclaimable": False}),
                PluginOption("conformance"),
                PluginOption("capacity", {"enableHierarchy": True}),
            ),
            DEFAULT.tiers[1],
        ),
    )
)


def test_queues_of_a_tree_are_described_with_those_below() -> None:
    """With capacity a parent has what its children hold, and its spec says what it deserves."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="8")
        await stage.queue("parent", capability={"cpu": "6"}, deserved={"cpu": "6"})
        await stage.queue("child", parent="parent", deserved={"cpu": "2"})
        await stage.gang("c", 3, queue="child")
        metrics, _ = measured(stage)
        await stage.sleep(5)

        assert values(metrics, "volcano_queue_allocated_milli_cpu")["parent"] == 3000
        assert values(metrics, "volcano_queue_deserved_milli_cpu")["child"] == 2000
        assert values(metrics, "volcano_queue_real_capacity_milli_cpu")["child"] == 6000
        assert values(metrics, "volcano_queue_share")["child"] == 1.5
        assert values(metrics, "volcano_queue_overused")["parent"] == 0

    on_stage(play, TREE)


def test_waits_of_pods_and_jobs_are_measured_from_their_creation() -> None:
    """A pod when it is bound, a job once when its last pod is; restarts do not count again."""

    async def play(stage: Stage) -> None:
        await stage.gang("a", 2)
        metrics, _ = measured(stage)
        await stage.sleep(60)
        await stage.nodes(1)
        await stage.sleep(5)

        tasks = "volcano_task_scheduling_latency_milliseconds"
        jobs = "volcano_e2e_job_scheduling_latency_milliseconds"
        assert values(metrics, f"{tasks}_count") == {"": 2}
        assert 2 * 60_000 <= values(metrics, f"{tasks}_sum")[""] < 2 * 70_000
        assert values(metrics, f"{jobs}_count") == {"": 1}
        assert 60_000 <= values(metrics, f"{jobs}_sum")[""] < 70_000
        duration = values(metrics, "volcano_e2e_job_scheduling_duration")
        assert list(duration) == [f"a/default/{NAMESPACE}"]
        assert duration[f"a/default/{NAMESPACE}"] == values(metrics, f"{jobs}_sum")[""]

        await stage.run_pods()
        await stage.remove("a-1")
        await stage.pod("a-1", "a")
        await stage.sleep(10)
        assert values(metrics, f"{tasks}_count") == {"": 3}
        assert values(metrics, f"{jobs}_count") == {"": 1}

    on_stage(play)


def test_wait_of_a_job_that_was_made_anew_is_measured_again() -> None:
    """Jobs of one name are told apart by their UIDs, also if nobody asked in between."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        metrics, _ = measured(stage)
        for _ in range(2):
            await stage.gang("a", 1)
            await stage.sleep(10)
            await stage.user.delete(POD_GROUPS, Key(NAMESPACE, "a"))
            await stage.remove("a-0")
            await stage.sleep(10)

        assert values(metrics, "volcano_e2e_job_scheduling_latency_milliseconds_count") == {"": 2}

    on_stage(play)


def test_admitted_jobs_that_wait_are_what_is_inqueue() -> None:
    """Their minimum counts until they have it."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.pod("old", cpu="3", schedulerName="other", nodeName="node-0")
        await stage.queue("red")
        metrics, _ = measured(stage)
        await stage.gang("a", 2, queue="red", minResources={"cpu": "2"})
        await stage.sleep(5)
        assert values(metrics, "volcano_queue_inqueue_milli_cpu")["red"] == 2000
        assert values(metrics, "volcano_queue_allocated_milli_cpu")["red"] == 0
        await stage.remove("old")
        await stage.sleep(60)

        assert values(metrics, "volcano_queue_inqueue_milli_cpu")["red"] == 0
        assert values(metrics, "volcano_queue_allocated_milli_cpu")["red"] == 2000

    on_stage(play)


def test_amounts_of_the_last_cycle_are_left_out_once_there_are_more_resources() -> None:
    """They do not compare with those of now; the next cycle knows all of them."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        metrics, scheduler = measured(stage)
        await stage.gang("a", 1)
        await stage.sleep(5)
        assert "default" in values(metrics, "volcano_queue_share")
        amounts = {f"example.com/r{number}": "1" for number in range(99)}
        body = {"metadata": {"name": "other"}, "status": {"allocatable": amounts}}
        scheduler.cache.snapshot.put_node(convert(body, Node))

        assert values(metrics, "volcano_queue_share") == {}
        assert values(metrics, "volcano_queue_weight")["default"] == 1

    on_stage(play)


def test_steps_of_a_cycle_are_measured() -> None:
    """Every action and plugin of the configuration has its own figure in each cycle."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        metrics, scheduler = measured(stage)
        await stage.gang("a", 2)
        await stage.sleep(5)
        n = scheduler.loop.n_cycles
        actions = values(metrics, "volcano_action_scheduling_latency_milliseconds_count")
        plugins = values(metrics, "volcano_plugin_scheduling_latency_milliseconds_count")
        opened = values(metrics, "volcano_open_session_duration_milliseconds_count")

        assert n > 0
        assert actions == dict.fromkeys(DEFAULT.actions, n)
        names = [option.name for tier in DEFAULT.tiers for option in tier]
        assert plugins == {f"{name}/OnSessionOpen": n for name in names}
        assert opened == {"": n}

    on_stage(play)


def test_time_of_a_step_is_its_own() -> None:
    """A step is measured from the end of the one before, the session from its beginning."""

    class Ticking(VirtualClock):
        """Every look at the clock takes a second."""

        at = 0.0

        def monotonic(self) -> float:
            self.at += 1.0
            return self.at

    metrics = Metrics()
    meter = SchedulerMetrics(metrics.registry, VirtualClock())
    on_step = stopwatch(Ticking(), meter)
    for kind, name in (("plugin", "gang"), ("plugin", "drf"), ("session", "open")):
        on_step(kind, name)
    on_step("action", "allocate")

    plugins = values(metrics, "volcano_plugin_scheduling_latency_milliseconds_sum")
    assert plugins == {"gang/OnSessionOpen": 1000, "drf/OnSessionOpen": 1000}
    assert values(metrics, "volcano_open_session_duration_milliseconds_sum") == {"": 3000}
    actions = values(metrics, "volcano_action_scheduling_latency_milliseconds_sum")
    assert actions == {"allocate": 1000}


def test_preemptions_are_counted_by_group_and_by_pod() -> None:
    """One group makes room for itself: one attempt, and as many victims as pods leave."""

    async def play(stage: Stage) -> None:
        await stage.priority("low", 1)
        await stage.priority("high", 9)
        await stage.nodes(1)
        metrics, _ = measured(stage)
        await stage.gang("old", 3, priorityClassName="low")
        await stage.sleep(3)
        await stage.run_pods()
        await stage.gang("new", 2, cpu="2", priorityClassName="high")
        await stage.sleep(3)

        assert values(metrics, "volcano_total_preemption_attempts") == {"": 1}
        assert values(metrics, "volcano_pod_preemption_victims") == {"": 3}
        assert values(metrics, "volcano_eviction_transactions_total") == {"preempt": 3}

    on_stage(play)


def test_gauges_go_with_their_queue_and_job() -> None:
    """What is gone is not exported any more."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.queue("red")
        metrics, _ = measured(stage)
        await stage.gang("a", 1, queue="red")
        await stage.sleep(5)
        assert values(metrics, "volcano_job_share") == {f"{NAMESPACE}/a": 0.25}
        assert "red" in values(metrics, "volcano_queue_share")

        await stage.user.delete(POD_GROUPS, Key(NAMESPACE, "a"))
        await stage.remove("a-0")
        await stage.user.delete(QUEUES, Key("", "red"))
        await stage.sleep(5)
        for name in ("job_share", "e2e_job_scheduling_duration", "unschedule_task_count"):
            assert values(metrics, f"volcano_{name}") == {}
        for name in ("share", "weight", "overused", "deserved_milli_cpu", "allocated_milli_cpu"):
            assert "red" not in values(metrics, f"volcano_queue_{name}")

    on_stage(play)


def test_jobs_with_gauges_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many jobs those that hold or lack most have gauges of their own."""
    monkeypatch.setattr(snapshot_metrics, "JOBS_MAX", 2)

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="8")
        for name, size in (("a", 1), ("b", 3), ("c", 2)):
            await stage.gang(name, size)
            await stage.gang(f"{name}-waits", size, cpu="20")
        metrics, _ = measured(stage)
        await stage.sleep(5)

        assert set(values(metrics, "volcano_job_share")) == {f"{NAMESPACE}/b", f"{NAMESPACE}/c"}
        assert values(metrics, "volcano_unschedule_task_count") == {
            f"{NAMESPACE}/b-waits": 3, f"{NAMESPACE}/c-waits": 2,
        }  # fmt: skip
        assert values(metrics, "volcano_unschedule_job_count") == {"": 3}

    on_stage(play)
