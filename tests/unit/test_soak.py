"""The soak notices what grows, and nothing else."""

from __future__ import annotations

import pytest

from tests.e2e.up.soak import MIB, SAMPLE_S, Samples, SoakLoad, problems

RATE = 20.0
LONG_S = 1200.0


def _samples(
    memory_per_h: float = 0, descriptors_per_h: float = 0, database_per_h: float = 0
) -> Samples:
    """Twenty minutes: tables fill for four of them, then only what is asked for grows."""
    made = Samples()
    for n in range(int(LONG_S / SAMPLE_S)):
        at = n * SAMPLE_S
        filling = min(at, 240.0) / 240.0
        jitter = (n * 7919 % 13) * MIB // 8
        made.at.append(at)
        made.resident.append(int((150 + 100 * filling + memory_per_h * at / 3600) * MIB) + jitter)
        made.descriptors.append(int(60 + n % 3 + descriptors_per_h * at / 3600))
        made.database.append(int((10 + 5 * filling + database_per_h * at / 3600) * MIB))
    return made


def _load() -> SoakLoad:
    return SoakLoad(n_created=24_000, n_deleted=23_950, by_phase={"Succeed": 23_950})


def test_full_tables_are_no_leak() -> None:
    assert problems(_samples(), _load(), RATE) == []


@pytest.mark.parametrize(
    ("samples", "what"),
    [
        (_samples(memory_per_h=60), "memory grows by"),
        (_samples(descriptors_per_h=90), "descriptors grow by"),
        (_samples(database_per_h=40), "the database grows by"),
    ],
)
def test_growth_after_the_warm_up_is_noticed(samples: Samples, what: str) -> None:
    (problem,) = problems(samples, _load(), RATE)

    assert problem.startswith(what)


def test_jobs_that_are_not_over_are_noticed() -> None:
    assert problems(_samples(), SoakLoad(n_created=24_000, n_deleted=20_000), RATE) == [
        "200 s of jobs are not over"
    ]
