"""A report is one file that refers to nothing outside, and takes no text for markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from msgspec.structs import replace

from swell.history.ledger import ledger_of
from swell.history.life import JobLife, PhaseChange, PodRun, ProgressSample, RoleShape, TargetChange
from swell.history.report import report_page
from tests.unit.history.hostile import HOSTILE

T0 = 1_700_000_000.0
LIFE = JobLife(
    uid="u",
    kind="AITrainingJob",
    namespace="lab",
    name="fit",
    created=T0,
    ended=T0 + 100,
    phase="Succeed",
    reason="RolesCompleted",
    message="done",
    user="ada",
    queue="night",
    labels={"team": "a"},
    roles={"trainer": RoleShape(1, 4, 2, 1000, 1 << 30, 1)},
    phases=(
        PhaseChange(T0, "Pending", "WaitingForRoom", "the cluster is full"),
        PhaseChange(T0 + 20, "Running"),
        PhaseChange(T0 + 60, "Restarting", "NodeLost", "node n1 is gone"),
        PhaseChange(T0 + 70, "Running"),
    ),
    sizes=(TargetChange(T0 + 40, "trainer", 4, "autoscaler", "idle nodes"),),
    pods=(
        PodRun("trainer", 0, "n1", T0 + 20, T0 + 60, "exit 1 Error"),
        PodRun("trainer", 0, "n2", T0 + 70, None, ""),
    ),
    n_folded=3,
    progress=(ProgressSample(T0 + 30, 1, 10, 2.5, 9.0, 2), ProgressSample(T0 + 80, 9, 90, 1.5)),
)


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(tag, tuple(sorted(attributes))) for tag, attributes in self.found]


def test_a_report_has_all_of_a_life() -> None:
    page = report_page([LIFE], T0, manifests=["replicas: 2\n"])
    text = " ".join(Elements(page).texts)

    for part in ("the cluster is full", "node n1 is gone", "idle nodes", "exit 1 Error", "ada"):
        assert part in text
    for part in ("Loss", "replicas: 2", "and 3 earlier ones", "queued", "node", "running"):
        assert part in text
    assert sum(ledger_of(LIFE, T0).seconds.values()) == 100


def test_a_report_refers_to_nothing_outside_and_runs_nothing() -> None:
    page = report_page([LIFE, replace(LIFE, name="other", ended=None)], T0 + 500)
    elements = Elements(page).found

    assert {tag for tag, _ in elements} <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "div", "table"),
        *("tr", "th", "td", "svg", "rect", "text", "polyline", "span", "pre"),
    }
    names = {name for _, attributes in elements for name in attributes}
    assert not names & {"src", "href", "srcset", "action", "data", "style"}
    assert not [name for name in names if name.startswith("on")]
    assert "url(" not in page
    assert "@import" not in page
    assert re.search(r"\b(https?:)?//", page.replace("<!doctype html>", "")) is None
    assert "default-src &#x27;none&#x27;" in page


def test_hostile_texts_in_every_field_change_no_element() -> None:
    """Thirty strings, in everything that a user, a program or a node may have named."""
    plain = Elements(report_page([LIFE], T0, manifests=["x"])).shape
    assert len(HOSTILE) >= 30
    for bad in HOSTILE:
        life = replace(
            LIFE,
            namespace=bad,
            name=bad,
            user=bad,
            queue=bad,
            priority=bad,
            phase=bad,
            reason=bad,
            message=bad,
            kind=bad,
            labels={bad: bad},
            roles={bad: RoleShape(1, 4, 2)},
            phases=tuple(
                PhaseChange(one.at, one.phase, one.reason, bad if one.message else "")
                for one in LIFE.phases
            ),
            sizes=(TargetChange(T0 + 40, bad, 4, bad, bad),),
            pods=tuple(
                PodRun(bad, run.index, bad, run.started, run.ended, bad) for run in LIFE.pods
            ),
        )
        page = Elements(report_page([life], T0, manifests=[bad]))

        assert page.shape == plain, bad


def test_the_numbers_of_a_page_are_those_of_the_ledger() -> None:
    page = report_page([LIFE], T0)

    for cause, length in ledger_of(LIFE, T0).seconds.items():
        assert f"<td>{cause.value}</td><td>{length:.0f}</td>" in page
    assert "<td>all</td><td>100</td>" in page


def test_a_life_of_no_length_has_a_page() -> None:
    bare = JobLife(uid="u", kind="TrainingJob", namespace="n", name="x", created=T0, ended=T0)

    assert "x" in report_page([bare], T0)
