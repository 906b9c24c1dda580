"""Attacks by one request that concerns thousands of objects, each of them small."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

from tests.attack.definitions import definition
from tests.attack.harness import Attack, Target, at_once
from tests.attack.objects import TABLE
from tests.attack.payloads import config_map
from tests.contract.hostile import DEFINITIONS
from tests.contract.raw import Raw
from tests.contract.world import GROUP

COUNT = 6_000
CONNECTIONS = 4
CROWD = "crowd"
CONFIG_MAPS = f"/api/v1/namespaces/{CROWD}/configmaps"
NAMESPACES = "/api/v1/namespaces"
EMPTIED_S = 30.0


def _made(target: Target, path: str, body: dict[str, Any], count: int = COUNT) -> None:
    """Create as many objects of one form, named by their numbers."""
    numbers = itertools.count()

    def create(raw: Raw) -> None:
        while (number := next(numbers)) < count:
            metadata = {**body["metadata"], "name": f"c{number}", "labels": {"n": str(number)}}
            raw.ask("POST", path, json.dumps({**body, "metadata": metadata}).encode())

    at_once(target, CONNECTIONS, create)


def _with_namespace(target: Target) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CROWD}}
    target.ask("POST", NAMESPACES, body)


def _emptied(target: Target, path: str) -> None:
    """Wait until nothing is listed, or the path is gone."""
    until = time.monotonic() + EMPTIED_S
    while time.monotonic() < until:
        answer = target.raw.ask("GET", f"{path}?limit=1")
        if answer.code == 404 or not json.loads(answer.body).get("items"):
            return
        time.sleep(0.1)


def _collection(target: Target) -> None:
    """All objects of a kind, deleted by one request."""
    _with_namespace(target)
    _made(target, CONFIG_MAPS, config_map("x", data={"a": "b"}))
    target.ask("DELETE", CONFIG_MAPS)


def _namespace(target: Target) -> None:
    """A namespace that holds them, deleted."""
    _with_namespace(target)
    _made(target, CONFIG_MAPS, config_map("x", data={"a": "b"}))
    target.ask("DELETE", f"{NAMESPACES}/{CROWD}")
    _emptied(target, CONFIG_MAPS)


def _owner(target: Target) -> None:
    """Dependents of one object, which is deleted in the foreground."""
    _with_namespace(target)
    answer = target.ask("POST", CONFIG_MAPS, config_map("owner", data={}))
    if answer is None:
        return
    uid = json.loads(answer.body)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    body = config_map("x", data={})
    body["metadata"]["ownerReferences"] = [{**owner, "blockOwnerDeletion": True}]
    _made(target, CONFIG_MAPS, body)
    target.ask("DELETE", f"{CONFIG_MAPS}/owner?propagationPolicy=Foreground")
    _emptied(target, CONFIG_MAPS)


def _definition(target: Target) -> None:
    """Objects of a definition whose schema is changed twice, and which is deleted then."""
    _with_namespace(target)
    made = definition("member")
    target.ask("POST", DEFINITIONS, made)
    version = made["spec"]["versions"][0]
    path = f"/apis/{GROUP}/{version['name']}/namespaces/{CROWD}/members"
    head = {"apiVersion": f"{GROUP}/{version['name']}", "kind": "Member", "metadata": {}}
    _made(target, path, {**head, "spec": {"a": 1, "b": 2}})
    address = f"{DEFINITIONS}/{made['metadata']['name']}"
    for field in ("a", "b"):
        fields = {field: {"type": "integer"}, "c": {"type": "integer", "default": 3}}
        schema = {"type": "object", "properties": fields}
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = schema
        changed = {"spec": {"versions": [version]}}
        merge = {"Content-Type": "application/merge-patch+json"}
        target.ask("PATCH", address, changed, {**merge})
    target.ask("DELETE", address)
    _emptied(target, path)


def _lists(target: Target) -> None:
    """Lists that read every object to find none, tables of all, and watches from the beginning."""
    _with_namespace(target)
    _made(target, CONFIG_MAPS, config_map("x", data={"a": "b"}))
    for query in ("labelSelector=n%20notin%20(a,b,c),!x,n=none", "fieldSelector=metadata.name%3Dx"):
        target.ask("GET", f"{CONFIG_MAPS}?{query}")
    for _ in range(3):
        target.ask("GET", CONFIG_MAPS, headers={"Accept": TABLE})
        target.ask("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0")
    target.ask("DELETE", CONFIG_MAPS)


ATTACKS: dict[str, Attack] = {
    "a collection of thousands": _collection,
    "a namespace of thousands": _namespace,
    "an owner of thousands": _owner,
    "a definition of thousands": _definition,
    "lists of thousands": _lists,
}
