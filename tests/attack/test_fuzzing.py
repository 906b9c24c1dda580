"""A sample of the random inputs; `python -m tests.attack.fuzzing` takes 100,000."""

from __future__ import annotations

from tests.attack.fuzzing import fuzz


def test_fuzzed_inputs_are_read_or_refused() -> None:
    """No parser fails in another way than by its own error, and none takes long."""
    report = fuzz(4_000, seed=7)

    assert report.errors == []
    assert report.slow == []
    assert 0 < report.n_refused < report.n_inputs
