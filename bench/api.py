"""How fast manifests and quantities are read and judged, and that 100,000 quantities are exact."""

from __future__ import annotations

import time
from collections.abc import Callable

from swell.api.codec import convert
from swell.api.manifest import findings_of, read
from swell.api.pod import PodSpec
from swell.api.quantity import parse
from swell.api.requests import pod_requests, scheduling_amounts
from tests.property.broken_by_hand import written_by_hand
from tests.property.broken_manifests import MANIFESTS, generated
from tests.property.quantities import check_samples

SAMPLES = 100_000
PODS = 10_000
DOCUMENTS = 2_000


def run() -> dict[str, object]:
    manifest = (MANIFESTS / "aitrainingjob-full.yaml").read_text()
    text = f"{manifest}\n---\n" * DOCUMENTS
    spec = convert(_pod_spec(), PodSpec)
    texts = [f"{number}m" for number in range(10_000)]
    readings = [read(text)]
    known = [parse(one) for one in texts]
    return {
        "quantities parsed a second, each new": _rate(
            len(texts), lambda: [parse.__wrapped__(one) for one in texts]
        ),
        "quantities parsed a second, seen before": _rate(
            len(known), lambda: [parse(one) for one in texts]
        ),
        "requests of 10,000 pods, s": _seconds(
            lambda: [scheduling_amounts(pod_requests(spec)) for _ in range(PODS)]
        ),
        "YAML documents read a second": _rate(DOCUMENTS, lambda: read(text)),
        "manifests validated a second": _rate(DOCUMENTS, lambda: findings_of(readings)),
        "broken manifests in the tests": len([*generated(), *written_by_hand()]),
        "quantities checked against fractions": SAMPLES,
        "... in seconds": _seconds(lambda: check_samples(SAMPLES, seed=1)),
    }


def _pod_spec() -> dict[str, object]:
    container = {
        "name": "a",
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"gpu": 1}},
    }
    return {"containers": [container, container], "initContainers": [container]}


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _rate(count: int, work: Callable[[], object]) -> int:
    return int(count / _seconds(work))
