"""Built-in kinds are decoded as kube-apiserver decodes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.cluster.embedded.builtin.definitions import decoders
from swell.schema.decode import DecodeError

POD = decoders().of("io.k8s.api.core.v1.Pod")
CONFIG_MAP = decoders().of("io.k8s.api.core.v1.ConfigMap")
NODE = decoders().of("io.k8s.api.core.v1.Node")
LEASE = decoders().of("io.k8s.api.coordination.v1.Lease")


def read(decode: Any, body: object) -> tuple[Any, list[str]]:
    unknown: list[str] = []
    return decode(body, None, unknown), unknown


def test_null_is_absence() -> None:
    """A null field counts as missing; a null entry of a map becomes its zero value."""
    body, _ = read(CONFIG_MAP, {"data": {"k": None}, "immutable": None, "binaryData": None})

    assert body == {"data": {"k": ""}, "metadata": {}}


def test_zero_of_an_optional_field_is_dropped() -> None:
    """Optional zeros are dropped, unless the field tells zero from missing."""
    spec = {"hostNetwork": False, "priority": 0, "nodeName": "", "volumes": [], "containers": []}
    body, _ = read(POD, {"spec": spec})

    kept = {name: body["spec"][name] for name in spec if name in body["spec"]}
    assert kept == {"priority": 0, "containers": []}


def test_unknown_fields_are_dropped_and_reported() -> None:
    """Unknown fields are dropped, and reported with their paths."""
    body, unknown = read(POD, {"odd": 1, "spec": {"containers": [{"name": "a", "odd": 2}]}})

    assert unknown == ["odd", "spec.containers[0].odd"]
    assert "odd" not in body


def test_amounts_are_canonical() -> None:
    """Quantities get their canonical text; those of resources are rounded to a thousandth."""
    body, _ = read(
        NODE, {"status": {"capacity": {"cpu": 4.0, "memory": "1024Mi", "x/y": "0.0001"}}}
    )

    assert body["status"]["capacity"] == {"cpu": "4", "memory": "1Gi", "x/y": "1m"}


@pytest.mark.parametrize(
    ("decode", "body", "field"),
    [
        (POD, [], ""),
        (POD, {"spec": "x"}, "spec"),
        (POD, {"spec": {"containers": {}}}, "spec.containers"),
        (POD, {"spec": {"containers": [1]}}, "spec.containers[0]"),
        (POD, {"spec": {"priority": "5"}}, "spec.priority"),
        (POD, {"spec": {"priority": 5.0}}, "spec.priority"),
        (POD, {"spec": {"priority": 2**31}}, "spec.priority"),
        (POD, {"spec": {"hostNetwork": 1}}, "spec.hostNetwork"),
        (CONFIG_MAP, {"data": {"k": 1}}, "data[k]"),
        (CONFIG_MAP, {"binaryData": {"k": "!"}}, "binaryData[k]"),
        (NODE, {"status": {"capacity": {"cpu": "1GB"}}}, "status.capacity[cpu]"),
        (LEASE, {"spec": {"renewTime": "now"}}, "spec.renewTime"),
        (LEASE, {"spec": {"renewTime": "2024-01-01T00:00:00Z"}}, "spec.renewTime"),
    ],
)
def test_wrong_type_names_its_field(decode: Any, body: object, field: str) -> None:
    """The first value of a wrong type ends the decoding."""
    with pytest.raises(DecodeError) as caught:
        read(decode, body)

    assert caught.value.field == field


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "status", "metadata", "containers", "name", "resources", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_body_is_read_or_refused(body: object) -> None:
    """The input stays as it is, and a decoded object decodes to itself."""
    try:
        once, _ = read(POD, body)
    except DecodeError:
        return

    assert read(POD, once) == (once, [])
