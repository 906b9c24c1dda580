"""Protobuf bodies: what they mean in JSON, and what is refused."""

from __future__ import annotations

import struct

import pytest

from swell.cluster.embedded.http import protobuf
from swell.cluster.embedded.http.protobuf import DEPTH_MAX, FIELDS_MAX, MAGIC, read_protobuf
from swell.runtime.errors import ClusterError
from tests.contract import hostile
from tests.protobuf_bodies import chunk, encode_body, envelope, number_field, varint

CONFIG = ("v1", "ConfigMap")
NAMED = chunk(1, chunk(1, b"a"))  # metadata with a name


def read(raw: bytes, api_version: str = "v1", kind: str = "ConfigMap") -> dict[str, object]:
    """The object of a message, without its apiVersion and kind."""
    found = read_protobuf(envelope(api_version, kind, raw), (api_version, kind))
    assert (found.pop("apiVersion"), found.pop("kind")) == (api_version, kind)
    return found


def spec_of_pod(raw: bytes) -> object:
    return read(chunk(2, raw), kind="Pod")["spec"]


def test_zeros_without_a_meaning_are_left_out() -> None:
    """Go writes every field that is no pointer; an empty one is what `omitempty` leaves out."""
    meta = b"".join(chunk(number, b"") for number in (1, 2, 3, 4, 5, 6)) + number_field(7, 0)

    assert read(chunk(1, meta + chunk(8, b""))) == {"metadata": {"creationTimestamp": None}}


def test_zeros_of_pointers_are_kept() -> None:
    """A pointer to zero is a value: no replicas are wanted."""
    assert read(chunk(2, number_field(1, 0)), "apps/v1", "ReplicaSet") == {"spec": {"replicas": 0}}


def test_maps_of_texts_and_of_bytes() -> None:
    """Bytes are base64 in JSON; an entry may lack its value, and an empty one is kept."""
    data = chunk(2, chunk(1, b"k") + chunk(2, b"v")) + chunk(2, chunk(1, b"empty"))
    binary = chunk(3, chunk(1, b"b") + chunk(2, b"\xff\x00"))

    assert read(data + binary) == {"data": {"k": "v", "empty": ""}, "binaryData": {"b": "/wA="}}


def test_quantities_and_numbers_or_texts() -> None:
    """Both are messages in protobuf, and plain values in JSON."""
    port = chunk(4, number_field(1, 1) + chunk(3, b"web")) + number_field(3, 80)
    other = chunk(4, number_field(1, 0) + number_field(2, 8080))
    service = read(chunk(2, chunk(1, port) + chunk(1, other)), kind="Service")
    assert service["spec"] == {"ports": [{"targetPort": "web", "port": 80}, {"targetPort": 8080}]}

    capacity = chunk(1, chunk(1, b"cpu") + chunk(2, chunk(1, b"500m")))
    assert read(chunk(3, capacity), kind="Node") == {"status": {"capacity": {"cpu": "500m"}}}


def test_times() -> None:
    """Whole seconds, microseconds for leases, and null for the zero of Go's type."""
    stamp = number_field(1, 1_700_000_000) + number_field(2, 5_999)
    meta = read(chunk(1, chunk(8, stamp) + chunk(9, b"")))["metadata"]
    assert meta == {"creationTimestamp": "2023-11-14T22:13:20Z", "deletionTimestamp": None}

    lease = read(chunk(2, chunk(4, stamp)), "coordination.k8s.io/v1", "Lease")
    assert lease == {"spec": {"renewTime": "2023-11-14T22:13:20.000005Z"}}


def test_lists_of_numbers_packed_or_not() -> None:
    """Both forms of a list are read, mixed as well."""
    packed = chunk(4, varint(1) + varint(300)) + number_field(4, 5)

    assert spec_of_pod(chunk(14, packed)) == {
        "securityContext": {"supplementalGroups": [1, 300, 5]}
    }


def test_negative_numbers() -> None:
    """Numbers are in two's complement, and one of 32 bits takes the lower half, as in Go."""
    assert spec_of_pod(number_field(4, -1)) == {"terminationGracePeriodSeconds": -1}
    assert spec_of_pod(number_field(25, (7 << 32) + 2**32 - 5)) == {"priority": -5}


def test_inner_messages_without_a_name_of_their_own() -> None:
    """The source of a volume stands beside its name."""
    volume = chunk(1, b"v") + chunk(2, chunk(2, b""))

    assert spec_of_pod(chunk(1, volume)) == {"volumes": [{"name": "v", "emptyDir": {}}]}


def test_a_field_that_comes_again() -> None:
    """The last value counts, also when it is empty; messages are merged."""
    again = chunk(1, chunk(1, b"a") + chunk(3, b"ns")) + chunk(1, chunk(1, b"b") + chunk(3, b""))

    assert read(again) == {"metadata": {"name": "b"}}


def test_unknown_fields_are_skipped() -> None:
    """A newer client may send fields that are not known here."""
    strange = number_field(900, 1) + chunk(901, b"x") + varint(902 << 3 | 1) + bytes(8)
    strange += varint(903 << 3 | 5) + bytes(4)

    assert read(NAMED + strange) == {"metadata": {"name": "a"}}


def test_bad_text_is_replaced() -> None:
    """As in JSON bodies, bytes that are no UTF-8 become the replacement character."""
    assert read(chunk(1, chunk(1, b"\xff"))) == {"metadata": {"name": "\ufffd"}}


def test_the_envelope_may_leave_out_the_kind() -> None:
    """Then the path says it."""
    found = read_protobuf(MAGIC + chunk(2, NAMED), CONFIG)

    assert found == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_delete_options_belong_to_every_group() -> None:
    """A typed client writes its own group into them."""
    raw = envelope("batch/v1", "DeleteOptions", number_field(1, 0) + chunk(4, b"Foreground"))
    found = read_protobuf(raw, ("v1", "DeleteOptions"))

    assert found["gracePeriodSeconds"] == 0
    assert found["propagationPolicy"] == "Foreground"


def test_schemas_of_definitions() -> None:
    """Values that are one of several types in JSON have messages with a field for each."""
    inner = chunk(5, b"string")  # a schema of that type
    schema = (
        chunk(8, chunk(1, b'{"a":[1]}'))  # default
        + varint(9 << 3 | 1)
        + struct.pack("<d", 2.5)  # maximum
        + chunk(24, chunk(1, inner))  # items: one schema
        + chunk(30, number_field(1, 1))  # additionalProperties: true
        + chunk(33, chunk(2, inner))  # additionalItems: a schema
        + chunk(32, chunk(1, b"x") + chunk(2, chunk(2, b"y")))  # dependencies: names
        + chunk(3, b"#/x")
        + number_field(38, 0)
    )
    version = chunk(4, chunk(1, schema))
    found = read(chunk(2, chunk(7, version)), "apiextensions.k8s.io/v1", "CustomResourceDefinition")

    assert found["spec"] == {
        "versions": [
            {
                "schema": {
                    "openAPIV3Schema": {
                        "default": {"a": [1]},
                        "maximum": 2.5,
                        "items": {"type": "string"},
                        "additionalProperties": True,
                        "additionalItems": {"type": "string"},
                        "dependencies": {"x": ["y"]},
                        "$ref": "#/x",
                        "x-kubernetes-preserve-unknown-fields": False,
                    }
                }
            }
        ]
    }


def test_objects_of_every_kind_survive() -> None:
    """An object that is written as protobuf reads as the same object."""
    kinds = set()
    for body in hostile.objects("a").values():
        if body["kind"] not in {"Widget", "CustomResourceDefinition"}:
            kinds.add(body["kind"])
            assert read_protobuf(encode_body(body), ("", "")) == body
    assert len(kinds) == 13


MALFORMED = {
    "nothing": b"",
    "no magic": b"{}",
    "only magic of something else": b"k8s\x01",
    "an unknown kind": envelope("v1", "Nothing", NAMED),
    "a custom kind": envelope("example.com/v1", "Thing", NAMED),
    "a number for the type": MAGIC + number_field(1, 5) + chunk(2, NAMED),
    "a number for the object": MAGIC + chunk(2, NAMED) + number_field(2, 5),
    "a number for the kind": MAGIC + chunk(1, number_field(2, 5)) + chunk(2, NAMED),
    "an encoding": MAGIC + chunk(2, NAMED) + chunk(3, b"gzip"),
    "another content type": MAGIC + chunk(2, NAMED) + chunk(4, b"application/json"),
    "an end within a number": envelope(*CONFIG, b"\x80"),
    "an end within a text": envelope(*CONFIG, b"\x0a\x05ab"),
    "a size beyond everything": envelope(*CONFIG, b"\x0a" + varint(2**63)),
    "a number that never ends": envelope(*CONFIG, b"\x80" * 11),
    "field 0": envelope(*CONFIG, b"\x02\x00"),
    "a group": envelope(*CONFIG, b"\x0b\x0c"),
    "an unknown wire type": envelope(*CONFIG, b"\x0f"),
    "a text where a number is wanted": envelope("v1", "Pod", chunk(2, chunk(4, b"x"))),
    "a number where a message is wanted": envelope(*CONFIG, number_field(1, 5)),
    "a number where a map is wanted": envelope(*CONFIG, number_field(2, 5)),
    "a year that no calendar has": envelope(*CONFIG, chunk(1, chunk(8, number_field(1, 2**62)))),
    "managed fields that are no JSON": envelope(
        *CONFIG,
        chunk(1, chunk(17, chunk(7, chunk(1, b"{")))),
    ),
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
def test_malformed_bodies_are_bad_requests(raw: bytes) -> None:
    """Each is refused with 400, and the text says why."""
    with pytest.raises(ClusterError) as refused:
        read_protobuf(raw, CONFIG)

    assert refused.value.status.code == 400
    assert "protobuf" in refused.value.status.message or "no kind" in refused.value.status.message


def test_a_number_that_is_none_is_refused() -> None:
    """JSON has no infinity."""
    schema = varint(9 << 3 | 1) + struct.pack("<d", float("inf"))
    version = chunk(4, chunk(1, schema))
    with pytest.raises(ClusterError, match="finite"):
        read(chunk(2, chunk(7, version)), "apiextensions.k8s.io/v1", "CustomResourceDefinition")


def test_nesting_is_bounded() -> None:
    """Schemas in schemas, to the level that is allowed and not further."""
    for depth, fits in ((DEPTH_MAX - 4, True), (DEPTH_MAX + 1, False), (100_000, False)):
        schema = _nested(depth)
        raw = chunk(2, chunk(7, chunk(4, chunk(1, schema))))
        if fits:
            read(raw, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
            continue
        with pytest.raises(ClusterError, match="nested"):
            read(raw, "apiextensions.k8s.io/v1", "CustomResourceDefinition")


def _nested(depth: int) -> bytes:
    """`not` in `not`. The bytes are made from the inside out, with the size of each level."""
    sizes = [0]
    for _ in range(depth):
        sizes.append(sizes[-1] + 2 + len(varint(sizes[-1])))
    return b"".join(varint(28 << 3 | 2) + varint(size) for size in reversed(sizes[:-1]))


def test_many_fields_are_refused() -> None:
    """A body of the largest size made of the smallest fields is not read to its end."""
    raw = chunk(2, b"\x0a\x00" * (3 << 19))  # 1.5 million empty volumes

    with pytest.raises(ClusterError, match=f"more than {FIELDS_MAX} fields"):
        read(raw, kind="Pod")


def test_every_kind_has_a_message() -> None:
    """The table has the messages of all kinds that are served, and of all that travel."""
    tables = protobuf._tables()
    known = {entry["kind"] for entry in _kinds()}

    assert known <= {name.rpartition("/")[2] for name in tables.kinds}
    for fields in tables.messages.values():
        assert all(not one.message or one.message in tables.messages for one in fields.values())


def _kinds() -> list[dict[str, str]]:
    from swell.cluster.embedded.builtin.definitions import read_data

    return list(read_data("builtin-kinds.json")["kinds"])
