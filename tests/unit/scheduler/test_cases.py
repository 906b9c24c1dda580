"""Recorded cases of gang scheduling, each one session in one process."""

from __future__ import annotations

import pytest

from tests.scheduler_cases import Case, differences, load, run, run_next

CASES = [case for case in load(units=False) if "unverified" not in case]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_recorded_case(case: Case) -> None:
    """A session decides what the case records."""
    outcome = run(case)

    assert differences(case, case["expect"], outcome) == []

    if "nextCycle" in case:
        following = run_next(case, outcome)

        assert differences(case, case["nextCycle"]["expect"], following) == []
