"""Writes the Grafana boards and the alert rules under deploy/monitoring, and docs/metrics.md.

    python -m tools.write_boards [FOLDER of the repository]

Panels and alerts are the tables below; a test keeps the files as this program writes them, and
every metric in them one that a component has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from swell.autoscaler.metrics import AutoscalerMetrics
from swell.operator.aitrainingjob.metrics import JobMetrics
from swell.operator.trainingjob.metrics import TrainingJobMetrics
from swell.runtime.clock import SystemClock
from swell.runtime.metrics import Metrics
from swell.scheduler.live.metrics import SchedulerMetrics

FOLDER = Path("deploy") / "monitoring"
DOCS = Path("docs") / "metrics.md"


class Panel(NamedTuple):
    """A graph: its title, its unit in Grafana's words, and expressions with their legends."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]


class Alert(NamedTuple):
    """A rule: what holds for how long before somebody is told, and in which words."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str


def _rate(metric: str, label: str) -> tuple[tuple[str, str], ...]:
    return ((f"sum by ({label}) (rate({metric}[5m]))", f"{{{{{label}}}}}"),)


def _quantiles(metric: str, label: str = "") -> tuple[tuple[str, str], ...]:
    by = f"le, {label}" if label else "le"
    name = f" {{{{{label}}}}}" if label else ""
    return tuple(
        (
            f"histogram_quantile({q}, sum by ({by}) (rate({metric}_bucket[5m])))",
            f"p{q * 100:g}{name}",
        )
        for q in (0.5, 0.99)
    )


BOARDS: dict[str, tuple[Panel, ...]] = {
    "operator": (
        Panel("Jobs by phase", "short", (("sum by (phase) (swell_jobs)", "{{phase}}"),)),
        Panel(
            "TrainingJobs by phase",
            "short",
            (("sum by (phase) (swell_training_jobs)", "{{phase}}"),),
        ),
        Panel("Restarts by cause", "ops", _rate("swell_job_restarts_total", "cause")),
        Panel(
            "Resizes",
            "ops",
            (
                ("sum(rate(swell_job_resizes_total[5m]))", "AITrainingJobs"),
                ("sum(rate(swell_training_job_resizes_total[5m]))", "TrainingJobs"),
            ),
        ),
        Panel("Looks at jobs, by result", "ops", _rate("swell_controller_passes_total", "result")),
        Panel("Duration of a look", "s", _quantiles("swell_controller_pass_seconds", "controller")),
        Panel(
            "Keys that wait",
            "short",
            (("sum by (controller) (swell_controller_queued_keys)", "{{controller}}"),),
        ),
        Panel("Writes, by outcome", "ops", _rate("swell_writes_total", "result")),
        Panel(
            "Trouble",
            "short",
            (
                ("sum(swell_malformed_objects)", "objects that cannot be read"),
                ("sum(increase(swell_handler_failures_total[1h]))", "handler failures in 1 h"),
                ("sum(increase(swell_event_loop_stalls_total[1h]))", "stalls in 1 h"),
                (
                    'sum(increase(swell_history_records_total{result!="kept"}[1h]))',
                    "jobs without a record in 1 h",
                ),
            ),
        ),
        Panel("Leaders", "short", (("sum by (job) (swell_leader)", "{{job}}"),)),
    ),
    "scheduler": (
        Panel(
            "Duration of a cycle", "ms", _quantiles("volcano_e2e_scheduling_latency_milliseconds")
        ),
        Panel(
            "Duration of actions",
            "ms",
            _quantiles("volcano_action_scheduling_latency_milliseconds", "action"),
        ),
        Panel(
            "From creation to binding of a pod",
            "ms",
            _quantiles("volcano_task_scheduling_latency_milliseconds"),
        ),
        Panel(
            "From creation to binding of a gang",
            "ms",
            _quantiles("volcano_e2e_job_scheduling_latency_milliseconds"),
        ),
        Panel(
            "Pods, by what a cycle did", "ops", _rate("volcano_schedule_attempts_total", "result")
        ),
        Panel("Evictions", "ops", _rate("volcano_eviction_transactions_total", "action")),
        Panel("Duration of a binding", "s", _quantiles("swell_scheduler_bind_duration_seconds")),
        Panel(
            "Gangs given up, roles shrunk",
            "ops",
            (
                (
                    "sum(rate(swell_scheduler_released_gangs_total[5m]))",
                    "gangs given up half bound",
                ),
                ("sum(rate(swell_scheduler_shrinks_total[5m]))", "roles shrunk"),
            ),
        ),
        Panel(
            "Configuration",
            "short",
            (
                ("min(swell_scheduler_config_valid)", "valid"),
                ("max(swell_scheduler_config_warnings)", "settings without effect"),
            ),
        ),
    ),
    "autoscaler": (
        Panel(
            "Load of the cluster",
            "percentunit",
            (("max by (resource) (swell_autoscaler_cluster_load)", "{{resource}}"),),
        ),
        Panel(
            "Replicas of elastic roles",
            "short",
            (
                ("sum(swell_autoscaler_desired_replicas)", "should be"),
                ("sum(swell_autoscaler_actual_replicas)", "have their room"),
            ),
        ),
        Panel(
            "Sizes written, by reason", "ops", _rate("swell_autoscaler_decisions_total", "reason")
        ),
        Panel(
            "Furthest from their size",
            "short",
            (
                (
                    "topk(10, swell_autoscaler_desired_replicas"
                    " - swell_autoscaler_actual_replicas)",
                    "{{namespace}}/{{job}} {{role}}",
                ),
            ),
        ),
    ),
}
ALERTS = (
    Alert(
        "SwellHasNoLeader",
        "sum by (job) (swell_leader) == 0",
        "5m",
        "critical",
        "No replica of {{ $labels.job }} leads: jobs are not looked after.",
    ),
    Alert(
        "SwellWritesFail",
        'sum(rate(swell_writes_total{result!="done"}[10m])) '
        "> 0.5 * sum(rate(swell_writes_total[10m]))",
        "15m",
        "warning",
        "More than half of the operator's writes fail.",
    ),
    Alert(
        "SwellHistoryRefused",
        'sum(increase(swell_history_records_total{result!="kept"}[1h])) > 0',
        "5m",
        "warning",
        "{{ $value }} jobs ended without a record: their namespaces take no ConfigMap.",
    ),
    Alert(
        "SwellKeysWait",
        "sum by (controller) (swell_controller_queued_keys) > 1000",
        "15m",
        "warning",
        "{{ $value }} jobs wait to be looked at by {{ $labels.controller }}.",
    ),
    Alert(
        "SwellObjectsUnreadable",
        "sum(swell_malformed_objects) > 0",
        "15m",
        "warning",
        "{{ $value }} objects cannot be decoded; see the operator's log for their names.",
    ),
    Alert(
        "SwellEventLoopStalls",
        "rate(swell_event_loop_stalled_seconds_total[10m]) > 0.05",
        "10m",
        "warning",
        "{{ $labels.instance }} stands still for 5 % of the time or more.",
    ),
    Alert(
        "SwellJobsRestartOften",
        "sum by (cause) (increase(swell_job_restarts_total[1h])) > 100",
        "10m",
        "info",
        "{{ $value }} restarts within an hour by {{ $labels.cause }}.",
    ),
    Alert(
        "SwellSchedulerSlow",
        "histogram_quantile(0.99, sum by (le) "
        "(rate(volcano_e2e_scheduling_latency_milliseconds_bucket[10m]))) > 5000",
        "15m",
        "warning",
        "A scheduling cycle takes more than 5 s.",
    ),
    Alert(
        "SwellSchedulerConfigInvalid",
        "min(swell_scheduler_config_valid) == 0",
        "5m",
        "warning",
        "The scheduler's configuration cannot be used; the last good one is in force.",
    ),
    Alert(
        "SwellClusterFull",
        "max(swell_autoscaler_cluster_load) > 0.98",
        "1h",
        "info",
        "The cluster has been full for an hour.",
    ),
)


def all_metrics() -> CollectorRegistry:
    """Returns a registry of every metric that operator, scheduler and autoscaler have."""
    registry = Metrics().registry
    for kind in (JobMetrics, TrainingJobMetrics, AutoscalerMetrics):
        kind(registry)
    SchedulerMetrics(registry, SystemClock())
    return registry


def families() -> list[Metric]:
    """Returns every metric that they have from their start."""
    return sorted(all_metrics().collect(), key=lambda one: one.name)


def board(name: str, panels: tuple[Panel, ...]) -> str:
    """Returns a board of Grafana: two graphs a line, of the data source that is chosen there."""
    source = {"type": "prometheus", "uid": "${source}"}
    shown = [
        {
            "id": at + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": 12 * (at % 2), "y": 8 * (at // 2)},
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + n), "expr": query, "legendFormat": legend}
                for n, (query, legend) in enumerate(panel.queries)
            ],
        }
        for at, panel in enumerate(panels)
    ]
    choice = {"name": "source", "type": "datasource", "query": "prometheus"}
    body = {
        "uid": f"swell-{name}",
        "title": f"Swell: {name}",
        "tags": ["swell"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [choice]},
        "panels": shown,
    }
    return json.dumps(body, indent=2) + "\n"


def rules() -> str:
    """Returns the alert rules as Prometheus reads them."""
    found = [
        {
            "alert": one.name,
            "expr": one.expression,
            "for": one.lasts,
            "labels": {"severity": one.severity},
            "annotations": {"summary": one.summary},
        }
        for one in ALERTS
    ]
    return str(yaml.safe_dump({"groups": [{"name": "swell", "rules": found}]}, sort_keys=False))


def page() -> str:
    """Returns the page that documents every metric."""
    lines = [
        "# Metrics",
        "",
        "Operator, autoscaler and scheduler serve these at `/metrics` ([how to get at",
        "them](installation.md)). Boards of Grafana and alert rules of Prometheus are in",
        "`deploy/monitoring`. `python -m tools.write_boards` writes boards, rules and this page.",
        "",
        "| metric | type | says |",
        "| --- | --- | --- |",
    ]
    for one in families():
        name = f"{one.name}_total" if one.type == "counter" else one.name
        lines.append(f"| `{name}` | {one.type} | {one.documentation} |")
    lines += ["", "| alert | after | says |", "| --- | --- | --- |"]
    lines += [f"| `{one.name}` | {one.lasts} | {one.summary} |" for one in ALERTS]
    return "\n".join(lines) + "\n"


def files() -> dict[Path, str]:
    """Returns every file that this program writes."""
    boards = {FOLDER / f"{name}.json": board(name, panels) for name, panels in BOARDS.items()}
    return {**boards, FOLDER / "rules.yaml": rules(), DOCS: page()}


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    for path, text in files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


if __name__ == "__main__":
    main()
