"""What the scheduler exports."""

from __future__ import annotations

from random import Random

from swell.runtime.metrics import Metrics
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.metrics import SchedulerMetrics
from tests.unit.scheduler.live.stage import Stage, on_stage


def test_metrics_have_the_names_people_know() -> None:
    """Queues, waiting jobs, cycles and bindings, by Volcano's names."""

    async def play(stage: Stage) -> None:
        metrics = Metrics()
        await stage.nodes(1)
        await stage.gang("a", 2)
        await stage.gang("b", 2, cpu="3")
        scheduler = Scheduler(
            stage.server.connect("scheduler"),
            stage.settings,
            clock=stage.clock,
            random=Random(1),
            metrics=metrics,
        )
        stage.adopt(scheduler)
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
    meter = SchedulerMetrics(metrics.registry)
    meter.configured(is_valid=True)
    meter.configured(is_valid=False)
    meter.released()
    text = metrics.exposition().decode()

    assert "swell_scheduler_config_valid 0.0" in text
    assert 'swell_scheduler_config_reloads_total{result="invalid"} 1.0' in text
    assert "swell_scheduler_released_gangs_total 1.0" in text
