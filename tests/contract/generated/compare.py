"""Plays generated behaviours on two servers and says where their answers differ.

    python -m tests.contract.generated.compare --real KUBECONFIG --ours KUBECONFIG [--only FAMILY]

Unlike the recorded behaviours, which look at chosen paths, whole bodies are compared here, with what
is random or a time replaced. Messages are prose: they are compared only with --messages.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).resolve().parent.parent / "recorded"
sys.path.insert(0, str(RECORDED))

import client  # noqa: E402
import play  # noqa: E402

from tests.contract.generated import families  # noqa: E402
from tests.contract.generated.steps import Case  # noqa: E402

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")


class ComparingPlayer(play.Player):
    """A player that also shows each whole body and the messages."""

    def _seen(self, step: dict[str, Any], answer: client.Answer) -> dict[str, Any]:
        seen = super()._seen(step, answer)
        if step.get("coarse") or step.get("unchecked"):
            return seen
        facts = play.facts_of(answer)
        seen["ctype"] = facts["ctype"]
        seen["warnings"] = facts["warnings"]
        body = answer.json()
        if step.get("bodyless"):
            return seen
        if not isinstance(body, dict):
            seen["text"] = neutral(facts["text"])
        elif body.get("kind") == "Status" and body.get("apiVersion") == "v1":
            seen["message"] = neutral(body.get("message"))
            details = body.get("details") or {}
            seen["cause_messages"] = [neutral(c) for c in details.get("causes") or []]
            seen["details_rest"] = {
                k: neutral(v) for k, v in details.items() if k not in ("causes", "kind", "name")
            }
            seen["code"] = body.get("code")
        else:
            seen["body"] = neutral(body)
        return seen

    def _events(self, step: dict[str, Any]) -> dict[str, Any]:
        step = dict(step)
        step.setdefault("look", ["."])
        seen = super()._events(step)
        seen["events"] = [neutral(row) for row in seen["events"]]
        return seen


def neutral(value: Any) -> Any:
    """The value without what differs between two runs of one server."""
    if isinstance(value, str):
        value = _UID.sub("<uid>", value)
        value = _TIME.sub("<time>", value)
        return _ADDRESS.sub("<address>", value)
    if isinstance(value, list):
        return [neutral(v) for v in value]
    if not isinstance(value, dict):
        return value
    found = {k: neutral(v) for k, v in value.items() if k != "managedFields"}
    if "template" in (found.get("spec") or {}):
        found.pop("status", None)  # controllers are at work on it
    for column in found.get("columnDefinitions") or ():
        if not str(column.get("description")).startswith("Custom resource"):
            column.pop("description", None)
    for key in ("resourceVersion", "continue"):
        if found.get(key):
            found[key] = "<" + key + ">"
    base = found.get("generateName")
    if base and str(found.get("name", "")).startswith(base):
        found["name"] = base + "<random>"
    return found


def differ(path: str, real: Any, ours: Any) -> list[str]:
    """A line for every path at which the two values differ."""
    if real == ours and type(real) is type(ours):
        return []
    if isinstance(real, dict) and isinstance(ours, dict):
        return [
            line
            for key in sorted(real.keys() | ours.keys(), key=str)
            for line in differ(
                f"{path}.{key}", real.get(key, "(absent)"), ours.get(key, "(absent)")
            )
        ]
    if isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        pairs = enumerate(zip(real, ours, strict=True))
        return [line for n, (a, b) in pairs for line in differ(f"{path}[{n}]", a, b)]
    return [f"{path}: real {short(real)} | ours {short(ours)}"]


def short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 400 else text[:397] + "..."


PROSE = frozenset({"message", "cause_messages", "text"})


def differences(case: Case, real: Any, ours: Any, messages: bool) -> list[str]:
    lines: list[str] = []
    for n, (one, two) in enumerate(zip(real, ours, strict=False)):
        step = case.steps[n]
        label = f"{n + 1} {step.get('do') or step.get('watch') or step.get('events')}"
        ignored = set() if messages else set(PROSE)
        if not messages and one.get("status", 0) < 400:
            ignored.discard("text")
        a = {k: v for k, v in one.items() if k not in ignored}
        b = {k: v for k, v in two.items() if k not in ignored}
        if not messages:
            a["warnings"], b["warnings"] = bool(a.get("warnings")), bool(b.get("warnings"))
        if (one.get("status") == 0 or one.get("status", 0) >= 500) and two.get("status", 0) >= 400:
            continue  # a client's mistake that the real server calls its own failure
        if one.get("status") != two.get("status"):
            said = [
                {k: v for k, v in x.items() if k in ("status", "reason", "message", "causes")}
                for x in (one, two)
            ]
            lines.append(f"{label}: real {short(said[0])} | ours {short(said[1])}")
            continue
        lines += [f"{label}{line}" for line in differ("", a, b)]
    if len(real) != len(ours):
        lines.append(
            f"steps: real {len(real)} {real[-1].get('lost')} | ours {len(ours)} {ours[-1].get('lost')}"
        )
    return lines


def play_all(kubeconfig: Path, cases: list[Case], run: str, jobs: int) -> list[Any]:
    target = client.target_from_kubeconfig(str(kubeconfig))
    held = {"run": run, "u": run}
    done = play.Player(target, held, False, poll_s=20).play(families.SETUP)
    assert len(done) == len(families.SETUP), done[-1]
    made: set[str] = set()

    def one(n: int) -> Any:
        case = cases[n]
        own = {"run": run, "u": f"{run}-{n}", "ns": f"g-{run}-{n}"}
        if "{ns}" in json.dumps(case.steps):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own["ns"]}}
            head = {"Content-Type": "application/json"}
            session = client.Session(target)
            answer = session.ask("POST", "/api/v1/namespaces", json.dumps(body).encode(), head)
            session.close()
            if answer.status != 201:
                return [{"problem": f"namespace {answer.status} {answer.data!r}"}]
        try:
            return ComparingPlayer(target, own, False).play(case.steps)
        except Exception as error:  # noqa: BLE001  one broken case must not hide the others
            return [{"problem": f"{type(error).__name__}: {error}"}]

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, range(len(cases))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=Path, required=True)
    parser.add_argument("--ours", type=Path, required=True)
    parser.add_argument("--only")
    parser.add_argument("--case")
    parser.add_argument("--messages", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    flags = parser.parse_args()
    cases = families.all_cases(random.Random(flags.seed))
    if flags.only:
        cases = [c for c in cases if c.family in flags.only.split(",")]
    if flags.case:
        cases = [c for c in cases if flags.case in c.name]
    run = "g" + "".join(random.choices("abcdefghjkmnp23456789", k=5))
    with ThreadPoolExecutor(2) as pool:
        real = pool.submit(play_all, flags.real, cases, run, flags.jobs)
        ours = pool.submit(play_all, flags.ours, cases, run, flags.jobs)
    total, wrong = Counter(), Counter()
    for case, one, two in zip(cases, real.result(), ours.result(), strict=True):
        total[case.family] += 1
        found = differences(case, one, two, flags.messages)
        if found:
            wrong[case.family] += 1
            print(f"{case.family}/{case.name}")
            for line in found[:12]:
                print("    " + line)
    for family in total:
        print(f"{family}: {total[family] - wrong[family]} of {total[family]}")
    print(f"total: {sum(total.values()) - sum(wrong.values())} of {sum(total.values())}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
