"""The flags of programs that stay: each reaches the setting that it is for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swell.cli.controllers import operator as operator_command
from swell.cli.controllers import scheduler as scheduler_command
from swell.cli.main import run
from swell.cluster.embedded.http import serving
from swell.node import program

CONFIG = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}]}]\n'
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status:
  allocatable: {cpu: "4", memory: 8Gi, example.com/gpu: 2, pods: "110"}
  conditions: [{type: Ready, status: "True"}]
"""


def caught(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[tuple[Any, ...]]:
    """Returns the list that gets the arguments of a function, which is not called."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(module, name, lambda *given, **named: calls.append((*given, named)))
    return calls


def test_operator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """How the autoscaler decides, and which resources are GPUs to it and to the job controllers."""
    calls = caught(monkeypatch, operator_command, "_run")
    config = tmp_path / "scheduler.conf"
    config.write_text(CONFIG)
    flags = ["--scale-period", "7s", "--scale-cooldown", "2m", "--gpu-resources", "a.b/c,d.e/f"]

    flags += ["--starve-after", "90s", "--scheduler-config", str(config)]
    assert run(["operator", *flags]) == 0
    _, services, _ = calls[0]
    sizes = services.sizes
    assert (sizes.scale_period_s, sizes.scale_cooldown_s) == (7.0, 120.0)
    assert sizes.parameters.starve_after_s == 90.0
    assert tuple(sizes.gpu_resources) == ("a.b/c", "d.e/f")
    assert services.jobs.gpu_resources == ("a.b/c", "d.e/f")
    assert sizes.scheduler.actions == ("allocate",)


def test_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often it decides, how much it sends at once, and how long it keeps room."""
    calls = caught(monkeypatch, scheduler_command, "_run")
    flags = ["--schedule-period", "2s", "--bind-workers", "3", "--inqueue-timeout", "5m"]

    flags += ["--save-seconds-max", "45s"]

    assert run(["scheduler", *flags, "--default-queue", "vision"]) == 0
    _, settings, _ = calls[0]
    assert settings.save_seconds_max == 45.0
    assert (settings.schedule_period_s, settings.bind_workers) == (2.0, 3)
    assert (settings.inqueue_timeout_s, settings.default_queue) == (300.0, "vision")
    assert run(["scheduler", "--bind-workers", "0"]) == 2
    assert (
        run(
            [
                "scheduler",
                "--gpu-resources",
                "a.b/c",
                "--gpu-drivers=x,y",
                "--gpu-fault-conditions",
                "X=False",
            ]
        )
        == 0
    )
    _, settings, _ = calls[1]
    assert (settings.gpu_resources, settings.gpu_fault_conditions) == (("a.b/c",), ("X=False",))
    assert settings.gpu_drivers == ("x", "y")
    assert run(["scheduler", "--gpu-fault-taints", "x:Never"]) == 2


def test_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """How long a node may be silent."""
    monkeypatch.setenv("SWELL_HOME", str(tmp_path))
    calls = caught(monkeypatch, serving, "serve")

    assert run(["server", "--node-monitor-grace-period", "2m"]) == 0
    assert calls[0][-1]["settings"].node_monitor_grace_s == 120.0


def test_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """How many pods a node takes."""
    monkeypatch.setenv("SWELL_HOME", str(tmp_path))
    calls = caught(monkeypatch, program, "run_agent")
    config = tmp_path / "config"
    config.write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "users: [{name: u, user: {}}]\ncurrent-context: c\n"
    )

    assert run(["node", "--pods", "7", "--kubeconfig", str(config)]) == 0
    assert calls[0][2].wanted.pods == 7


def test_plan_counts_the_resources_that_are_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of another vendor, by name."""
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    arguments = ["plan", "autoscale", "-f", str(file), "-o", "json"]

    assert run([*arguments, "--gpu-resources", "example.com/gpu"]) == 0
    assert json.loads(capsys.readouterr().out)["cluster"]["resources"]["gpu"]["total"] == 2
