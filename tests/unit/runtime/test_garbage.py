"""When a server looks at everything for garbage."""

from __future__ import annotations

import asyncio
import gc

import pytest

from swell.runtime import garbage
from swell.runtime.garbage import Collections, collect_all, paced_collections

MIB = 1 << 20


def test_quiet_time_is_used_when_enough_is_old() -> None:
    pace = Collections(0.0, 0.0, 100 * MIB)

    assert not pace.is_due(30.0, 0.1, 110 * MIB, n_middle=9), "the last one was not long ago"
    assert not pace.is_due(90.0, 50.0, 110 * MIB, n_middle=9), "the process is busy"
    assert not pace.is_due(95.0, 50.1, 110 * MIB, n_middle=2), "little has become old"
    assert not pace.is_due(100.0, 50.4, 110 * MIB, n_middle=9), "somebody asks now and then"
    assert pace.is_due(105.0, 50.5, 110 * MIB, n_middle=9)


def test_busy_server_looks_at_everything_in_the_end() -> None:
    pace = Collections(0.0, 0.0, 100 * MIB)

    assert not pace.is_due(3_599.0, 3_599.0, 600 * MIB, n_middle=1)
    assert pace.is_due(3_601.0, 3_601.0, 600 * MIB, n_middle=1)
    pace.collected(3_602.0, 3_602.0, 600 * MIB)
    assert not pace.is_due(3_603.0, 3_603.0, 1_700 * MIB, n_middle=1)
    assert pace.is_due(3_604.0, 3_604.0, 1_720 * MIB, n_middle=1), "memory has grown too much"


def test_nothing_is_looked_at_while_nothing_becomes_old() -> None:
    assert not Collections(0.0, 0.0, MIB).is_due(9_999.0, 0.0, 9_000 * MIB, n_middle=0)


def test_loop_that_serves_never_starts_a_collection_of_everything_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "LOOK_S", 0.01)
    before, found = gc.get_threshold(), []

    async def serve() -> None:
        with paced_collections():
            found.append(gc.get_threshold())
            await asyncio.sleep(0.05)

    asyncio.run(serve())

    assert found[0][2] == garbage.NEVER
    assert gc.get_threshold() == before


class _Cycle:
    """Refers to itself, so that only a collection finds it."""

    n_gone = 0

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        _Cycle.n_gone += 1


def test_garbage_that_was_exempt_is_found() -> None:
    _Cycle()
    gc.freeze()
    _Cycle.n_gone = 0
    gc.collect()
    assert _Cycle.n_gone == 0

    collect_all()

    assert _Cycle.n_gone == 1
