"""Turning bytes into structs and back."""

from __future__ import annotations

import msgspec
import pytest

from swell.api.codec import convert, decode, encode, encode_stable, to_body
from swell.api.pod import ContainerPort, Pod, PodPhase


def test_equal_content_is_encoded_to_equal_bytes() -> None:
    """The stable form does not depend on the order a dict was built in."""
    assert encode_stable({"b": 1, "a": 2}) == encode_stable({"a": 2, "b": 1})
    assert encode({"b": 1, "a": 2}) == b'{"b":1,"a":2}'


def test_wrong_shape_is_a_validation_error() -> None:
    """A value of the wrong shape is reported with its place."""
    assert decode(b'{"status": {"phase": "Running"}}', Pod).status.phase is PodPhase.RUNNING
    with pytest.raises(msgspec.ValidationError, match=r"\$\.status\.phase"):
        decode(b'{"status": {"phase": "Flying"}}', Pod)


def test_plain_bodies_are_left_as_they_are() -> None:
    """Who asks for a dict gets the very same."""
    body = {"a": [1]}

    assert convert(body, dict) is body


def test_structs_become_sparse_json() -> None:
    """Only what differs from the defaults is written, in JSON's types and the API's names."""
    port = ContainerPort(container_port=80, host_ip="::1")

    assert to_body(port) == {"containerPort": 80, "hostIP": "::1"}
    assert to_body(Pod()) == {}
