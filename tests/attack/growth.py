"""Attacks by small requests that grow: defaults, protobuf, scalars, and what clients hold back."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from tests.attack.definitions import _schema, _try, definition
from tests.attack.harness import Attack, Target
from tests.attack.owners import APPLY
from tests.attack.payloads import CONFIG_MAPS, DRY, MERGE_PATCH, WIDGETS, YAML, config_map, widget
from tests.contract.hostile import DEFINITIONS, NAMESPACE
from tests.contract.world import GROUP
from tests.protobuf_bodies import chunk, envelope

PROTOBUF: dict[str, str | None] = {"Content-Type": "application/vnd.kubernetes.protobuf"}


def _defaults(target: Target) -> None:
    """Items of three bytes, each of which is filled with a default of a hundred kilobytes."""
    wide = {f"f{n}": "x" * 10 for n in range(5_000)}
    kinds: list[tuple[object, dict[str, Any]]] = [
        ("x" * 500_000, {"type": "string"}),
        (wide, {"type": "object", "additionalProperties": {"type": "string"}}),
        ([1] * 20_000, {"type": "array", "items": {"type": "integer"}}),
    ]
    for default, kind in kinds:
        made = definition("filled")
        one = {"type": "object", "properties": {"d": {**kind, "default": default}}}
        nulls = {**kind, "default": default}
        _schema(made)["properties"] = {
            "l": {"type": "array", "items": one},
            "n": {"type": "array", "items": nulls},
            "m": {"type": "object", "additionalProperties": one},
        }
        _try(target, made, {"l": [{}] * 60_000}, {"n": [None] * 60_000},
             {"m": {f"k{n}": {} for n in range(30_000)}}, {"l": [{}] * 2_000})  # fmt: skip


def _later_defaults(target: Target) -> None:
    """A default that objects get when they are read: it is added after they were stored."""
    made = definition("later")
    one: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    _schema(made)["properties"] = {"l": {"type": "array", "items": one}}
    version = made["spec"]["versions"][0]
    target.ask("POST", DEFINITIONS, made)
    path = f"/apis/{GROUP}/{version['name']}/namespaces/{NAMESPACE}/laters"
    until = time.monotonic() + 5
    while time.monotonic() < until and target.raw.ask("GET", path).code == 404:
        time.sleep(0.05)
    for n in range(3):
        body = {"apiVersion": f"{GROUP}/{version['name']}", "kind": "Later"}
        target.ask(
            "POST", path, {**body, "metadata": {"name": f"l{n}"}, "spec": {"l": [{}] * 20_000}}
        )
    one["properties"]["d"] = {"type": "string", "default": "x" * 300_000}
    address = f"{DEFINITIONS}/{made['metadata']['name']}"
    target.ask("PATCH", address, {"spec": {"versions": [version]}}, {**MERGE_PATCH})
    time.sleep(0.5)
    for _ in range(3):
        target.ask("GET", path)
        target.ask("GET", f"{path}/l0")
        target.ask("PATCH", f"{path}/l0", {"metadata": {"labels": {"a": "b"}}}, {**MERGE_PATCH})
        target.ask("GET", f"{path}?watch=1&timeoutSeconds=1")
    target.ask("DELETE", path)
    target.ask("DELETE", address)


def _protobuf(target: Target) -> None:
    """Protobuf bodies of a million messages of two bytes, and nested ones."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods{DRY}"
    for number in (1, 2, 5, 10, 22):
        spec = chunk(number, b"") * 1_000_000
        target.ask("POST", path, envelope("v1", "Pod", chunk(2, spec)), PROTOBUF)
    container = chunk(2, chunk(7, b"") * 1_400_000)
    target.ask("POST", path, envelope("v1", "Pod", chunk(2, container)), PROTOBUF)
    raw = chunk(2, chunk(1, b"a") + chunk(2, b"b")) * 300_000
    target.ask("POST", CONFIG_MAPS + DRY, envelope("v1", "ConfigMap", raw), PROTOBUF)
    nested = b""
    for _ in range(20_000):
        nested = chunk(2, nested[:3_000_000])
        if len(nested) > 2_500_000:
            break
    target.ask("POST", path, envelope("v1", "Pod", nested), PROTOBUF)
    unknown = b"\xfb\xff\xff\xff\x0f" * 500_000
    target.ask("POST", path, envelope("v1", "Pod", unknown), PROTOBUF)
    target.ask("POST", path, envelope("v1", "Pod", b"\x0b" * 2_000_000), PROTOBUF)
    target.ask("POST", path, envelope("v1", "Pod", b"\x58\x01" * 1_300_000), PROTOBUF)
    target.ask("POST", path, envelope("v1", "Pod", chunk(2, b"\x20\x01" * 1_300_000)), PROTOBUF)


def _scalars(target: Target) -> None:
    """Merges, tags, numbers and blanks of YAML that a reader may go through again and again."""
    long = 900_000
    wide = ",".join(f"k{n}: 1" for n in range(2_000))
    merged = "".join(f"b{n}: {{<<: *a}}\n" for n in range(3_000))
    for text in (
        f"a: &a {{{wide}}}\n{merged}", "<<: {<<: {<<: 1}}\n" * 9_000, "? {a: 1}\n: b\n" * 30_000,
        "a: {<<: [" + "{a: 1}," * 60_000 + "]}", "a: !!omap [" + "a: 1," * 60_000 + "]",
        "a: !!set {" + ",".join(f"k{n}" for n in range(60_000)) + "}", "a: 0b" + "1" * long,
        "a: 2001-01-01T00:00:00" + "0" * long, "a: 1:" + "59:" * 300_000 + "1", "\t" * long,
        "a: 0x" + "f" * long, "a: 1" + "_" * long + "1", "a: ." + "_" * long + "inf",
        "a: 1" + "e" * long, "a: 0o" + "7" * long, "a: " + "-" * long, "a: 1e" + "9" * long,
        "#" * long + "\n" + "# x\n" * 400_000, "a:" + " " * long + "b", "a: '" + "''" * long + "'",
        "a: |" + "9" * long, "a: |2-+\n" + " x\n" * 100_000, "\ufeff" * 400_000,
        "\u2028" * 400_000 + "a: b", "\u0085a: b" * 200_000, "%YAML " + "9" * long + "\n---\na: b",
        "a: *" + "x" * long, "a: !<" + "x" * long + "> b", "a: &" + "x" * long + " b",
        "{" + "a," * 200_000 + "}", '"' + "\\n\\\n" * 300_000 + '": 1', "...\n" * 400_000,
        "a: b\n...\n" * 100_000,
    ):  # fmt: skip
        target.ask("POST", CONFIG_MAPS + DRY, text.encode(), YAML)
        target.ask("PATCH", f"{CONFIG_MAPS}/body?fieldManager=m&force=true", text.encode(), APPLY)


def _exponents(target: Target) -> None:
    template, zeros = json.dumps(widget("numbers", "N")), "0" * 900_000
    for number in (
        "1e" + "9" * 1_000_000, "1e-" + "9" * 1_000_000, "-0", f"1E+{zeros}1", f"0.{zeros}1e900000",
        "1" + "0" * 18 + f".{zeros}",
    ):  # fmt: skip
        target.ask("POST", WIDGETS + DRY, template.replace('"N"', number).encode())
        many = "[" + ",".join([number[:300]] * 9_000) + "]"
        target.ask("POST", WIDGETS + DRY, template.replace('"N"', many).encode())


def _held_bodies(target: Target) -> None:
    """Bodies of which the last byte never comes, with a token and without."""
    body = b'{"a":"' + b"x" * 2_900_000
    for token in (True, False):
        line = f"POST {CONFIG_MAPS} HTTP/1.1"
        head = target.head(line, "Content-Length: 3000000", "", token=token)
        _hold(target, 400, head + body)


def _held_chunks(target: Target) -> None:
    head = target.head(f"POST {CONFIG_MAPS} HTTP/1.1", "Transfer-Encoding: chunked", "")
    _hold(target, 200, head + b"2bf200\r\n" + b"x" * 0x2BF200)


def _hold(target: Target, count: int, sent: bytes) -> None:
    """Send the same on many connections, as far as the server takes it, and hold them."""
    with contextlib.ExitStack() as stack:
        for n in range(count):
            with contextlib.suppress(OSError):
                opened = stack.enter_context(target.connect_tls())
                opened.settimeout(5)
                opened.sendall(sent)
            if n % 20 == 0:
                target.take_memory()
        time.sleep(1)
        target.take_memory()


def _unread_beginnings(target: Target) -> None:
    """Watches, lists, objects and backups of twenty megabytes, of clients that never read."""
    streamed = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    for n in range(20):
        target.ask("POST", CONFIG_MAPS, config_map(f"u{n}", data={"k": "x" * 1_000_000}))
    for path in (
        f"{CONFIG_MAPS}?watch=1", f"{CONFIG_MAPS}?watch=1&resourceVersion=0", CONFIG_MAPS,
        f"{CONFIG_MAPS}?watch=1&{streamed}", f"{CONFIG_MAPS}/u0", "/swell/backup",
    ):  # fmt: skip
        with contextlib.ExitStack() as stack:
            for _ in range(300):
                with contextlib.suppress(OSError):
                    stack.enter_context(target.raw.open_stream(path))
            time.sleep(2)
            target.take_memory()
    for n in range(20):
        target.ask("DELETE", f"{CONFIG_MAPS}/u{n}")


def _hundreds_of_definitions(target: Target) -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    for n in range(300):
        target.ask("POST", DEFINITIONS, definition(f"hundred{n}"))
        if n % 10 == 0:
            target.ask("GET", "/openapi/v2")
            target.ask("GET", f"/openapi/v3/apis/{GROUP}/v1")
            target.ask("GET", "/apis", headers={"Accept": aggregated})
    for n in range(300):
        target.ask("DELETE", f"{DEFINITIONS}/hundred{n}s.{GROUP}")


ATTACKS: dict[str, Attack] = {
    "defaults of small items": _defaults,
    "defaults of stored objects": _later_defaults,
    "protobuf of a million messages": _protobuf,
    "odd scalars and merges of YAML": _scalars,
    "exponents": _exponents,
    "bodies that are held back": _held_bodies,
    "chunks that are held back": _held_chunks,
    "beginnings of watches never read": _unread_beginnings,
    "hundreds of definitions": _hundreds_of_definitions,
}
