"""No attack ends the server, fills its memory, or keeps another client waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.catalogue import ATTACKS, SAMPLE
from tests.attack.harness import Target, measure, target_server

# The tests share the machine with others, which delay the other client, too: a stall of the server
# is longer than that. `python -m tests.attack.catalogue` holds the bound of half a second.
WAIT_S_MAX = 3.0


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with target_server(Path(tmp_path_factory.mktemp("attacked"))) as target:
        yield target


@pytest.mark.parametrize("name", SAMPLE)
def test_attack_of_the_sample(name: str, target: Target) -> None:
    """An attack of each class: every request of another client is answered in time."""
    harm = measure(target, name, ATTACKS[name])
    print(harm)  # noqa: T201

    assert harm.problems(WAIT_S_MAX) == []


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in SAMPLE])
def test_attack(name: str, target: Target) -> None:
    """All the others, which take longer."""
    harm = measure(target, name, ATTACKS[name])
    print(harm)  # noqa: T201

    assert harm.problems(WAIT_S_MAX) == []
