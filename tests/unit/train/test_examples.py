"""The examples of elastic training: valid, and the scripts in them are scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from swell.api.meta import Body
from tests.unit.train.cluster import ROOT

EXAMPLES = ROOT / "examples"
JOBS = ("train-numpy", "train-torch", "train-jax", "train-paddle", "train-torchrun")


def documents(name: str) -> list[Body]:
    return list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))


@pytest.mark.parametrize("name", JOBS)
def test_script_of_an_example_can_be_compiled(name: str) -> None:
    config, job = documents(name)

    assert config["metadata"]["name"] == f"{job['metadata']['name']}-code"
    compile(config["data"]["train.py"], f"{name}/train.py", "exec")


def test_torch_example_is_the_script_beside_it() -> None:
    """So the few lines that differ from the plain script are those of the job, too."""
    config, _ = documents("train-torch")

    assert config["data"]["train.py"] == (EXAMPLES / "train" / "elastic_ddp.py").read_text()


@pytest.mark.parametrize("name", JOBS)
def test_example_is_explained(name: str) -> None:
    assert f"[{name}.yaml]({name}.yaml)" in Path(EXAMPLES / "README.md").read_text()
