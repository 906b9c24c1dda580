"""Fault marks of nodes at the command line, on the embedded server and on a real one."""

from __future__ import annotations

import re
import time

from swell.api.codec import encode
from swell.api.node_faults import FAULTS_ANNOTATION, FaultMark, FaultRecord, read_faults
from swell.api.times import format_time
from tests.contract.swell_command import Swell

TAINTS = [
    {"key": "elasticdeeplearning.ai/suspect", "value": "true", "effect": "NoSchedule"},
    {"key": "example.com/own", "effect": "NoSchedule"},
]


def node(name: str, n_jobs: int) -> str:
    at = format_time(time.time() + 600)  # it weighs the same for a while
    marks = tuple(FaultMark(job=f"team/job-{n}", time=at, reason="Lost") for n in range(n_jobs))
    notes = {FAULTS_ANNOTATION: encode(FaultRecord(marks=marks)).decode()}
    meta = {"name": name, "annotations": notes}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": TAINTS}}
    return encode(body).decode()


def row(swell: Swell, name: str) -> list[str]:
    lines = swell("get", "nodes", "-o", "wide").out.splitlines()
    assert lines[0].split()[-2:] == ["FAULTS", "SUSPECT"]
    (found,) = (line for line in lines if line.split()[0] == name)
    return re.split(" {2,}", found)[-2:]


def test_suspects_are_shown_and_trusted_again(swell: Swell) -> None:
    """Trust takes away the marks and our taint, and leaves the taints of others."""
    name = f"{swell.namespace}-suspect"
    assert swell.apply(node(name, 3)).code == 0
    try:
        assert row(swell, name) == ["3.0", "yes (3 jobs)"]
        trusted = swell("trust", name)
        assert trusted.out == f"node/{name} trusted: 3 failures of 3 jobs and its taint forgotten\n"
        assert row(swell, name) == ["0", "no"]
        body = swell("get", "node", name, "-o", "json").json
        meta, spec = body["metadata"], body["spec"]
        assert isinstance(meta, dict)
        assert isinstance(spec, dict)
        assert read_faults(meta["annotations"]).trusted
        keys = {one["key"] for one in spec["taints"]}
        assert "example.com/own" in keys
        assert "elasticdeeplearning.ai/suspect" not in keys
        assert "0 failures of 0 jobs forgotten" in swell("trust", name).out
    finally:
        swell("delete", "node", name)
