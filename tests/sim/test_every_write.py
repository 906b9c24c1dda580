"""Something goes wrong at every single write of the core scenarios, one at a time."""

from __future__ import annotations

import pytest

from swell.sim.campaign.search import search_every_write
from tests.sim.campaign import ENTRIES

SUBJECTS = {entry.subject.name: entry.subject for entry in ENTRIES}
# Subject, scenario, and how the writes meant begin. A campaign does so to whole scenarios.
CORE = (
    *(("toy", name, "") for name in ("finish", "delete", "resize")),
    ("operator", "finish", "operator-0 patch aitrainingjobs"),
    ("trainingjob kept", "finish", "operator-0 patch trainingjobs"),
    ("scheduler", "bind", "scheduler-0 create pods/binding"),
)
LONG = [
    pytest.param(*one, marks=pytest.mark.long)
    for one in (
        ("toy", "restart", ""),
        ("toy", "recreate", ""),
        ("operator", "creation", ""),
        ("operator", "suspend", "operator-0 patch aitrainingjobs"),
        ("operator", "fields", "operator-0"),
        ("operator", "suspects", "operator-0 patch aitrainingjobs"),
        ("operator", "hang", "operator-0 patch aitrainingjobs"),
        ("operator", "held", "operator-0 patch aitrainingjobs"),
        ("trainingjob", "suspend", "operator-0 patch trainingjobs"),
        ("trainingjob", "wishes", "operator-0 patch trainingjobs"),
        ("trainingjob", "scale", ""),
        ("trainingjob", "delete", ""),
        ("scheduler", "oust", "scheduler"),
        ("scheduler storage", "volumes", "scheduler-0 patch persistent"),
        ("scheduler storage", "volumes", "scheduler-0 create pods/binding"),
        ("scheduler devices", "devices", "scheduler-0 patch resourceclaims"),
        ("scheduler devices", "devices", "scheduler-0 create pods/binding"),
        ("scheduler devices", "cards", "scheduler-0 create resourceclaims"),
        ("scheduler devices", "cards", "scheduler-0 patch pods/status"),
    )
]


@pytest.mark.parametrize(("name", "scenario", "whose"), [*CORE, *LONG])
def test_every_write_may_be_the_last(name: str, scenario: str, whose: str) -> None:
    """A crash before or after any write, or a lost answer to it, changes nothing in the end."""
    subject = SUBJECTS[name]
    results = list(search_every_write(subject, subject.scenario(scenario), seed=0, whose=whose))
    failures = [(r.faults, [str(v) for v in r.violations]) for r in results if r.violations]
    n_writes = sum(write.site.startswith(whose) for write in results[0].write_sites)

    assert failures == []
    assert n_writes > 5
    assert len(results) == 1 + 3 * n_writes
    assert sum(r.crashes for r in results) == 2 * n_writes
