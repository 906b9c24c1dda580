"""Feature gates, and the versioned file of the operator's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.api.meta import Body
from swell.cli.command_line import CommandError
from swell.cli.controllers.component_config import API_VERSION, KIND, values
from swell.cli.controllers.feature_gates import (
    FEATURES,
    Feature,
    Stage,
    gated,
    gates,
    states,
)
from swell.cli.main import run
from swell.history.settings import HistorySettings
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.trainingjob.settings import TrainingJobSettings
from swell.runtime.metrics import Metrics
from tests.unit.cli.test_operator_command import Started, started  # noqa: F401 - a fixture

CONFIGURATION = Path(__file__).parents[3] / "docs" / "configuration.md"
DEFAULTS = AITrainingJobSettings(history=HistorySettings())


@pytest.mark.parametrize("name", FEATURES)
def test_gate_switches_its_feature_alone(name: str) -> None:
    """On and off, of both kinds of job; the defaults are those of the stages."""
    feature = FEATURES[name]
    others = {other: on for other, _, on in states(DEFAULTS) if other != name}

    assert feature.is_on(DEFAULTS) is (feature.stage is not Stage.ALPHA)
    for on in (True, False):
        changed = gated(DEFAULTS, {name: on})
        assert feature.is_on(changed) is on
        assert {other: held for other, _, held in states(changed) if other != name} == others
        assert isinstance(gated(TrainingJobSettings(), {name: on}), TrainingJobSettings)


def test_gate_that_is_not_given_leaves_the_flags(started: list[Started]) -> None:  # noqa: F811
    """And one that is given outweighs them."""
    assert run(["operator", "--gang-api", "native", "--no-history"]) == 0
    assert run(["operator", "--gang-api", "native", "--feature-gates", "NativeGangs=false"]) == 0
    first, second = (services.jobs for _, services in started)

    assert (first.gang_api, first.history) == ("native", None)
    assert second.gang_api == "volcano"


def _nothing(settings: object, on: bool) -> AITrainingJobSettings:
    return DEFAULTS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NativeGang=true", "no feature 'NativeGang'"),
        ("GPUFaults", "'GPUFaults'"),
        ("GPUFaults=perhaps", "'GPUFaults=perhaps'"),
        ("Old=false", "Old is GA and cannot be switched off"),
    ],
)
def test_wrong_gate_is_named(text: str, said: str) -> None:
    """Before anything is started."""
    features = {**FEATURES, "Old": Feature(Stage.GA, "", lambda _: True, _nothing)}
    with pytest.raises(CommandError, match=said):
        gates(text, features)


def test_gates_are_read_as_kubernetes_reads_them() -> None:
    """Several, with spaces, and an end that was forgotten."""
    assert gates("GPUFaults=false, NativeGangs=True,") == {"GPUFaults": False, "NativeGangs": True}
    assert gates("") == {}


def test_features_are_metrics() -> None:
    """So that a board shows which operators have which."""
    metrics = Metrics()
    metrics.set_features(states(DEFAULTS))
    text = metrics.exposition().decode()

    assert 'swell_feature_enabled{name="JobHistory",stage="beta"} 1.0' in text
    assert 'swell_feature_enabled{name="NativeGangs",stage="alpha"} 0.0' in text


def test_every_feature_is_documented() -> None:
    """With its stage and what it does."""
    text = CONFIGURATION.read_text()

    for name, feature in FEATURES.items():
        assert f"| `{name}` | {feature.stage} | {feature.says}" in text
    assert f"apiVersion: {API_VERSION}\nkind: {KIND}\n" in text


def test_versioned_file_sets_flags(started: list[Started], tmp_path: Path) -> None:  # noqa: F811
    """In camel case; the command line is stronger."""
    file = tmp_path / "operator.yaml"
    head = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
    file.write_text(
        f"{head}gcPeriod: 1m\nworkers: 9\nleaderElect: false\nfeatureGates: {{GPUFaults: false}}\n"
    )
    assert run(["operator", "--config", str(file), "--workers", "7"]) == 0
    process, services = started[-1]

    assert (services.jobs.gc_period_s, services.jobs.workers) == (60, 7)
    assert services.jobs.gpu_fault_conditions == ()
    assert not process.lease.leader_elect


def test_example_of_the_guide_is_a_file(tmp_path: Path) -> None:
    """What people copy works."""
    text = CONFIGURATION.read_text()
    example = text.partition("```yaml\n")[2].partition("```")[0]
    file = tmp_path / "operator.yaml"
    file.write_text(example)

    known = ("gc_period", "workers", "log_format", "feature_gates", "node_lost_after")
    assert values(file, known)["feature_gates"] == "NativeGangs=true,JobHistory=false"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"apiVersion": "config.elasticdeeplearning.ai/v9"}, "apiVersion: .* write .*/v1alpha1"),
        ({"kind": "SchedulerConfiguration"}, f"kind: .* write {KIND}"),
        ({"gcPeriods": "1m", "wrkers": 1}, "gcPeriods: .* mean gcPeriod.*wrkers: .* mean workers"),
        ({"gc-period": "1m"}, "gc-period: unknown field; did you mean gcPeriod"),
    ],
)
def test_mistakes_in_a_versioned_file_are_named_together(
    tmp_path: Path, body: Body, said: str
) -> None:
    """With the field that was meant."""
    import yaml

    file = tmp_path / "operator.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, **body}))
    with pytest.raises(CommandError, match=said):
        values(file, ("gc_period", "workers"))
