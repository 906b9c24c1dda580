"""Random and spoilt protobuf bodies are read or refused with 400, whatever is in them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.api.codec import encode
from swell.cluster.embedded.http.protobuf import MAGIC, read_protobuf
from swell.runtime.errors import ClusterError
from tests.contract import hostile
from tests.protobuf_bodies import chunk, encode_body, envelope

BODIES = [
    encode_body(body)
    for body in hostile.objects("a").values()
    if body["kind"] not in {"Widget", "CustomResourceDefinition"}
]


def read_or_refuse(raw: bytes) -> None:
    try:
        found = read_protobuf(raw, ("v1", "Pod"))
    except ClusterError as error:
        if error.status.code != 400:
            raise
        return
    assert encode(found)


@given(st.binary(max_size=400), st.sampled_from(["Pod", "ConfigMap", "Node", "Service", "Event"]))
def test_any_bytes_are_read_or_refused(noise: bytes, kind: str) -> None:
    """No bytes raise anything but a refusal."""
    read_or_refuse(noise)
    read_or_refuse(MAGIC + noise)
    read_or_refuse(envelope("v1", kind, noise))
    definition = chunk(2, chunk(7, chunk(4, chunk(1, noise))))
    read_or_refuse(envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition))


@pytest.mark.parametrize("seed", range(4))
def test_spoilt_objects_are_read_or_refused(seed: int) -> None:
    """Bytes of good objects changed, cut, doubled and moved."""
    rng = random.Random(seed)
    for _ in range(3_000):
        raw = bytearray(rng.choice(BODIES))
        for _ in range(rng.randint(1, 6)):
            at, size = rng.randrange(len(raw)), rng.randint(1, 20)
            match rng.randrange(4):
                case 0:
                    raw[at] = rng.randrange(256)
                case 1:
                    del raw[at : at + size]
                case 2:
                    raw[at:at] = raw[at : at + size]
                case 3:
                    raw[at:at] = rng.randbytes(size)
            raw = raw or bytearray(MAGIC)
        read_or_refuse(bytes(raw))
