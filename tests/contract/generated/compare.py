"""Plays behaviours on a real server and on ours, and says where their answers differ.

    python -m tests.contract.generated.compare [--real KUBECONFIG --ours KUBECONFIG]
           [--family NAME] [--case TEXT] [--mutations N] [--seed 1] [--jobs 4] [--least 1.0]

Without kubeconfigs both servers are started. With --mutations, only behaviours drawn from the seed
are played; --least is the share of them that has to agree.

The recorded behaviours look at chosen paths; here whole bodies are compared, with versions, times
and what is random replaced. Messages are prose, so only their presence counts. Where the real
server calls a client's mistake its own failure (5xx), any refusal of ours agrees.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.contract.generated.mutations import Case, mutated
from tests.contract.targets import embedded_server
from tests.testbed.control_plane import running_control_plane

HERE = Path(__file__).resolve().parent
RECORDED = HERE.parent / "recorded"
sys.path.insert(0, str(RECORDED))

import client  # type: ignore[import-not-found]  # noqa: E402
import play  # type: ignore[import-not-found]  # noqa: E402

CASES = HERE / "cases.json"
KNOWN = HERE / "known.json"
_NEUTRAL = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"), "<time>"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "<address>"),
)
_VERSIONS = ("resourceVersion", "continue")
REPEATS = 2


class WholePlayer(play.Player):  # type: ignore[misc]
    """A player that shows every answer whole."""

    def _seen(self, step: dict[str, Any], answer: Any) -> dict[str, Any]:
        seen: dict[str, Any] = super()._seen(step, answer)
        if step.get("coarse") or step.get("unchecked"):
            return seen
        facts = play.facts_of(answer)
        seen |= {"ctype": facts["ctype"], "warned": facts["warned"]}
        if "name" in seen and _is_generated(step.get("body")):
            seen["name"] = "<generated>"
        body = answer.json()
        if isinstance(body, dict) and not step.get("bodyless") and body.get("kind") != "Status":
            seen["body"] = neutral(body)
        return seen

    def _events(self, step: dict[str, Any]) -> dict[str, Any]:
        seen: dict[str, Any] = super()._events({"look": ["."], **step})
        seen["events"] = neutral(seen["events"])
        return seen


def _is_generated(body: Any) -> bool:
    """Whether the server chooses the last characters of the object's name."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return isinstance(metadata, dict) and not metadata.get("name") and "generateName" in metadata


def neutral(value: Any) -> Any:
    """The value without what differs between two runs of one server."""
    if isinstance(value, str):
        for pattern, name in _NEUTRAL:
            value = pattern.sub(name, value)
        return value
    if isinstance(value, list):
        return [neutral(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {k: neutral(v) for k, v in value.items() if k != "managedFields"}
    found |= {name: f"<{name}>" for name in _VERSIONS if found.get(name)}
    if found.get("generateName") and found.get("name"):
        found["name"] = "<generated>"
    if isinstance(found.get("spec"), dict) and "template" in found["spec"]:
        found.pop("status", None)  # controllers are at work on it
    for column in found.get("columnDefinitions") or ():
        column.pop("description", None)
    for row in found.get("rows") or ():
        row["cells"] = [c for c in row["cells"] if not re.fullmatch(r"\d+s", str(c))]
    return found


def differences(case: Case, real: list[dict[str, Any]], ours: list[dict[str, Any]]) -> list[str]:
    """A line for every difference between what the two servers showed."""
    lines: list[str] = []
    for step, one, other in zip(case["steps"], real, ours, strict=False):
        label = str(step.get("do") or step.get("watch") or step.get("events"))
        failed = one.get("status") == 0 or one.get("status", 0) >= 500
        if not (failed and other.get("status", 0) >= 400):
            lines += [f"{label}{line}" for line in _differ("", one, other)]
    if len(real) != len(ours):
        lines.append(f"{len(real)} steps on the real server, {len(ours)} on ours")
    return lines


def _differ(path: str, real: Any, ours: Any) -> list[str]:
    if real == ours:
        return []
    if isinstance(real, dict) and isinstance(ours, dict):
        absent = "(absent)"
        return [
            line
            for key in sorted(real.keys() | ours.keys())
            for line in _differ(f"{path}.{key}", real.get(key, absent), ours.get(key, absent))
        ]
    texts = [json.dumps(value, sort_keys=True)[:300] for value in (real, ours)]
    return [f"{path}: real {texts[0]} | ours {texts[1]}"]


def load() -> list[Case]:
    cases: list[Case] = json.loads(CASES.read_text(encoding="utf-8"))
    return cases


def compare(real: Path, ours: Path, cases: list[Case], jobs: int = 4) -> dict[str, list[str]]:
    """The differences by the behaviours' names; a behaviour without any is left out.

    What differs is played again, alone, and counts if it differs every time: a real server answers
    some lists from a cache that may be a moment behind its store.
    """
    found = _compare_once(real, ours, cases, jobs, "0")
    for attempt in range(1, REPEATS + 1):
        again = [case for case in cases if name_of(case) in found]
        found = _compare_once(real, ours, again, 1, str(attempt))
    return found


def _compare_once(
    real: Path, ours: Path, cases: list[Case], jobs: int, attempt: str
) -> dict[str, list[str]]:
    with ThreadPoolExecutor(2) as pool:
        seen = [pool.submit(_play_all, one, cases, jobs, attempt) for one in (real, ours)]
    triples = zip(cases, seen[0].result(), seen[1].result(), strict=True)
    found = {name_of(c): differences(c, a, b) for c, a, b in triples}
    return {name: lines for name, lines in found.items() if lines}


def name_of(case: Case) -> str:
    return f"{case['family']}/{case['name']}"


def _play_all(
    kubeconfig: Path, cases: list[Case], jobs: int, attempt: str
) -> list[list[dict[str, Any]]]:
    target = client.target_from_kubeconfig(str(kubeconfig))
    run = f"g{abs(hash(kubeconfig)) % 10**6:06}"
    for subject in ("crschema", "cel"):  # the custom kinds that the behaviours use
        text = (RECORDED / "cases" / f"{subject}.json").read_text(encoding="utf-8")
        play.Player(target, {"run": run, "u": run}, False, poll_s=20).play(
            json.loads(text)["setup"]
        )

    def one(number: int) -> list[dict[str, Any]]:
        held = {"run": run, "u": f"{run}-{attempt}-{number}", "ns": f"g-{run}-{attempt}-{number}"}
        session = client.Session(target)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": held["ns"]}}
        head = {"Content-Type": "application/json"}
        session.ask("POST", "/api/v1/namespaces", json.dumps(body).encode(), head)
        session.close()
        shown: list[dict[str, Any]] = WholePlayer(target, held, False).play(cases[number]["steps"])
        return shown

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, range(len(cases))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--ours", type=Path)
    parser.add_argument("--family")
    parser.add_argument("--case", default="")
    parser.add_argument("--mutations", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--least", type=float, default=1.0)
    flags = parser.parse_args()
    cases = load()
    if flags.mutations:
        cases = mutated(cases, flags.mutations, flags.seed)
    cases = [c for c in cases if flags.family in (None, c["family"]) and flags.case in c["name"]]
    with _servers(flags.real, flags.ours) as (real, ours):
        found = compare(real, ours, cases, flags.jobs)
    for name, lines in found.items():
        sys.stdout.write(name + "".join(f"\n    {line}" for line in lines) + "\n")
    of, wrong = Counter(c["family"] for c in cases), Counter(n.partition("/")[0] for n in found)
    for family in of:
        sys.stdout.write(f"{family}: {of[family] - wrong[family]} of {of[family]} agree\n")
    sys.stdout.write(f"total: {len(cases) - len(found)} of {len(cases)} agree\n")
    return int(len(cases) - len(found) < flags.least * len(cases))


@contextmanager
def _servers(real: Path | None, ours: Path | None) -> Iterator[tuple[Path, Path]]:
    """The kubeconfigs of two servers: those given, or of servers started for this run."""
    if real is not None and ours is not None:
        yield real, ours
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        running_control_plane() as plane,
        embedded_server(Path(folder)),
    ):
        yield plane.kubeconfig, Path(folder) / "kubeconfig"


if __name__ == "__main__":
    raise SystemExit(main())
