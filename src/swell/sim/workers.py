"""Runs in several operating-system processes, results in the order they would have in one.

Subjects hold functions, which do not travel; workers are forked, so they have them already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from swell.sim.plan import Fault
from swell.sim.scenario import Scenario, Subject
from swell.sim.search import faults_at_writes, scenario_of, try_against
from swell.sim.trial import Result, try_faults, try_seed

T = TypeVar("T")

_CHUNK = 20
_tries: list[Callable[[Any], Result]] = []  # what this worker is to do


def search_in_parallel(subject: Subject, seeds: range, n_workers: int) -> Iterator[Result]:
    """The same results as `search_at_random`, sooner."""

    def try_one(seed: int) -> Result:
        return try_seed(subject, scenario_of(subject, seed), seed)

    yield from _share_out(try_one, seeds, n_workers)


def search_writes_in_parallel(
    subject: Subject, scenario: Scenario, seed: int, whose: str, n_workers: int
) -> Iterator[Result]:
    """The same results as `search_every_write`, sooner."""
    reference = try_faults(subject, scenario, seed)

    def try_one(fault: Fault) -> Result:
        return try_against(subject, reference, fault)

    yield reference
    if not reference.violations:
        yield from _share_out(try_one, faults_at_writes(reference, whose), n_workers)


def _share_out(
    try_one: Callable[[T], Result], what: Sequence[T], n_workers: int
) -> Iterator[Result]:
    if n_workers < 2 or len(what) < _CHUNK * n_workers:
        yield from map(try_one, what)
        return
    with ProcessPoolExecutor(
        n_workers, get_context("fork"), initializer=_tries.append, initargs=(try_one,)
    ) as pool:
        yield from pool.map(_try, what, chunksize=_CHUNK)


def _try(one: object) -> Result:
    return _tries[-1](one)
