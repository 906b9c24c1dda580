"""The reference page names everything that there is to know by name."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from swell.api.aitrainingjob import AITrainingJobSpec, AITrainingJobStatus, ReplicaSpec
from swell.operator.aitrainingjob import environment
from swell.operator.aitrainingjob.environment import Peers

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "aitrainingjob.md"
NAMED = frozenset(re.findall(r"`([^`]+)`", PAGE.read_text()))
STRUCTS = [AITrainingJobSpec, ReplicaSpec, AITrainingJobStatus]
PEERS = Peers(
    job="fit",
    hosts={"pserver": ["p"], "trainer": ["t"]},
    ports={"pserver": [1], "trainer": [2]},
    bounds={"pserver": (1, 1), "trainer": (1, 2)},
)


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_field_is_on_the_page(struct: type[msgspec.Struct]) -> None:
    """A field that people may write or read is explained."""
    fields = {field.encode_name for field in msgspec.structs.fields(struct)}

    assert sorted(fields - NAMED) == []


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "paddlepaddle", "jax"])
def test_every_variable_of_a_framework_is_on_the_page(framework: str) -> None:
    """What containers are told is explained."""
    reported = {name for name, _ in environment.framework_variables(framework, PEERS, "trainer", 0)}

    assert reported
    assert sorted(reported - NAMED) == []
