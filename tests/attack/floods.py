"""Attacks by many ordinary requests at once: watches of what changes, lists, documents, writes."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from urllib.parse import quote

from tests.attack.harness import Attack, Target, at_once
from tests.attack.objects import TABLE
from tests.attack.payloads import CONFIG_MAPS, DRY, MERGE_PATCH, config_map
from tests.contract.raw import Raw


def _storm(target: Target) -> None:
    """Hundreds of watches, all read, of objects that change all the time."""
    target.ask("POST", CONFIG_MAPS, config_map("storm", data={"k": "x" * 20_000}))
    stop = threading.Event()

    def follow() -> None:
        with (
            contextlib.suppress(OSError, ValueError),
            Raw(target.home / "kubeconfig") as raw,
            raw.open_stream(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=60") as opened,
        ):
            opened.settimeout(0.2)
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    if not opened.recv(1 << 20):
                        return

    threads = [threading.Thread(target=follow) for _ in range(150)]
    for thread in threads:
        thread.start()
    for n in range(60):
        change = {"metadata": {"labels": {"n": str(n)}}}
        target.ask("PATCH", f"{CONFIG_MAPS}/storm", change, {**MERGE_PATCH})
    target.take_memory()
    stop.set()
    for thread in threads:
        thread.join()
    target.ask("DELETE", f"{CONFIG_MAPS}/storm")


def _selected(target: Target) -> None:
    """Selectors of thousands of terms, in lists, watches and deletions at once."""
    for n in range(300):
        body = config_map(f"sel{n}", data={})
        body["metadata"]["labels"] = {f"k{m}": "v" for m in range(60)}
        target.ask("POST", CONFIG_MAPS, body)
    terms = ",".join(f"k{n} notin (a{n},b{n})" for n in range(300))
    selector = f"labelSelector={quote(terms)}"

    def send(raw: Raw) -> None:
        for _ in range(10):
            raw.ask("GET", f"{CONFIG_MAPS}?{selector}")
            raw.ask("GET", f"{CONFIG_MAPS}?{selector}&watch=1&timeoutSeconds=1&resourceVersion=0")
            raw.ask("DELETE", f"{CONFIG_MAPS}{DRY}&{selector}")

    at_once(target, 6, send)
    target.ask("DELETE", CONFIG_MAPS)


def _documents(target: Target) -> None:
    """Health, figures and discovery, asked for as fast as they come."""

    def send(raw: Raw) -> None:
        for _ in range(150):
            for path in ("/metrics", "/readyz?verbose", "/livez", "/apis", "/version", "/api/v1"):
                raw.ask("GET", path)

    at_once(target, 6, send)


def _lists(target: Target) -> None:
    """Lists and tables of thousands of objects, of many clients at once."""
    data = {f"k{n}": "x" * 50 for n in range(20)}

    def create(raw: Raw) -> None:
        for _ in range(500):
            body = config_map("", data=data)
            body["metadata"] = {"generateName": "many-"}
            raw.ask("POST", CONFIG_MAPS, json.dumps(body).encode())

    def read(raw: Raw) -> None:
        for accept in ("application/json", TABLE, "application/yaml"):
            raw.ask("GET", CONFIG_MAPS, headers={"Accept": accept})

    at_once(target, 6, create)
    at_once(target, 12, read)
    target.ask("DELETE", CONFIG_MAPS)


def _contended(target: Target) -> None:
    """Large patches of one object that small ones change all the time."""
    data = {f"k{n}": "x" * 20 for n in range(30_000)}
    target.ask("POST", CONFIG_MAPS, config_map("shared", data=data))
    stop = threading.Event()

    def disturb() -> None:
        with Raw(target.home / "kubeconfig") as raw, contextlib.suppress(OSError):
            while not stop.is_set():
                change = {"metadata": {"annotations": {"n": str(time.monotonic())}}}
                raw.ask("PATCH", f"{CONFIG_MAPS}/shared", change, {**MERGE_PATCH})

    thread = threading.Thread(target=disturb)
    thread.start()
    larger = json.dumps({"data": {f"k{n}": "y" * 20 for n in range(30_000)}}).encode()
    for _ in range(4):
        target.ask("PATCH", f"{CONFIG_MAPS}/shared", larger, {**MERGE_PATCH})
    stop.set()
    thread.join()
    target.ask("DELETE", f"{CONFIG_MAPS}/shared")


def _medium_bodies(target: Target) -> None:
    """Bodies of the size that is just handled on the loop, and just above, from many clients."""
    bodies = [
        json.dumps(config_map("medium", data={f"k{n}": "" for n in range(count)})).encode()
        for count in (2_500, 3_500, 10_000, 13_000)
    ]

    def send(raw: Raw) -> None:
        for _ in range(8):
            for body in bodies:
                raw.ask("POST", CONFIG_MAPS + DRY, body)

    at_once(target, 30, send)


ATTACKS: dict[str, Attack] = {
    "storms of watched changes": _storm,
    "selectors of hundreds of terms at once": _selected,
    "documents as fast as they come": _documents,
    "lists of thousands at once": _lists,
    "large patches of what changes": _contended,
    "medium bodies at once": _medium_bodies,
}
