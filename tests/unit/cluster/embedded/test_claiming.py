"""Owners claim pods by selectors, which are parsed once for many pods."""

from __future__ import annotations

import pytest

from swell.api.meta import ObjectMeta
from swell.api.pod import LabelSelector, Pod
from swell.cluster.embedded.controllers import claiming
from swell.cluster.embedded.selectors import LabelRequirements, from_label_selector


def test_selector_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with thousands of values was parsed for every pod and every owner."""
    n_parsed = 0

    def counted(spec: dict[str, object] | None) -> LabelRequirements | None:
        nonlocal n_parsed
        n_parsed += 1
        return from_label_selector(spec)

    monkeypatch.setattr(claiming, "from_label_selector", counted)
    chosen, other = LabelSelector(match_labels={"a": "b"}), LabelSelector(match_labels={"a": "c"})
    pod = Pod(metadata=ObjectMeta(name="p", labels={"a": "b"}))

    assert [claiming.selects(chosen)(pod) for _ in range(9)] == [True] * 9
    assert not claiming.selects(other)(pod)
    assert n_parsed == 2
    assert not claiming.selects(None)(pod)
