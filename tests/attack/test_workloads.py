"""No pod or job ends a whole cluster, fills its memory, or keeps another client waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.harness import Target, measure
from tests.attack.test_attacks import WAIT_S_MAX
from tests.attack.workloads import ATTACKS, target_cluster


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with target_cluster(Path(tmp_path_factory.mktemp("attacked"))) as target:
        yield target


@pytest.mark.long
@pytest.mark.parametrize("name", ATTACKS)
def test_attack_by_a_workload(name: str, target: Target) -> None:
    harm = measure(target, name, ATTACKS[name])
    print(harm)  # noqa: T201

    assert harm.problems(WAIT_S_MAX) == []
