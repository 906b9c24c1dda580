"""The whole API server in memory, as a cluster serves it, with short ways to ask."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from swell.api.meta import Body, Key
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.storage import Storage
from swell.cluster.embedded.verbs.requests import RequestContext
from swell.runtime.cluster import Patch, PatchKind
from swell.runtime.errors import ClusterError
from tests.unit.cluster.embedded.world import StillClock

ANSWERS = Path(__file__).parents[3] / "data" / "real_answers"
NAMESPACE = "work"


def answers(name: str) -> dict[str, Any]:
    """Questions and what a real server answered to them."""
    document: dict[str, Any] = json.loads((ANSWERS / f"{name}.json").read_text())
    return document


class Server:
    """One API server, asked by the plural names of its kinds."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.api: ApiServer = new_api_server(Storage(self.clock.now), self.clock, random.Random(3))
        self.api.ensure_namespaces((NAMESPACE,))

    def kind(self, plural: str, group: str = "") -> ServedKind:
        return next(k for k in self.api.registry if k.plural == plural and k.group == group)

    def create(
        self, plural: str, body: Body, group: str = "", call: RequestContext | None = None
    ) -> Body:
        kind = self.kind(plural, group)
        namespace = NAMESPACE if kind.namespaced else ""
        return self.api.create(kind, namespace, body, call or RequestContext("tester")).body

    def get(self, plural: str, name: str, group: str = "") -> Body:
        return self.api.get(self.kind(plural, group), self._key(plural, name, group)).body

    def update(self, plural: str, body: Body, group: str = "", subresource: str = "") -> Body:
        key = self._key(plural, body["metadata"]["name"], group)
        kind, call = self.kind(plural, group), RequestContext("tester")
        return self.api.update(kind, key, body, call, subresource=subresource).stored.body

    def patch(
        self,
        plural: str,
        name: str,
        patch: object,
        kind: PatchKind = PatchKind.MERGE,
        group: str = "",
        subresource: str = "",
    ) -> Body:
        return self.api.patch(
            self.kind(plural, group),
            self._key(plural, name, group),
            Patch(kind, patch),
            RequestContext("tester"),
            subresource=subresource,
        ).body

    def _key(self, plural: str, name: str, group: str) -> Key:
        return Key(NAMESPACE if self.kind(plural, group).namespaced else "", name)


def causes(error: ClusterError) -> list[list[str]]:
    """Field and reason of each cause that has a field, sorted."""
    details = error.status.details
    found = {(cause.field, cause.reason) for cause in details.causes} if details else set()
    return [list(pair) for pair in sorted(found) if pair[0] != "<nil>"]


def a_pod(**spec: object) -> Body:
    """The smallest pod, with more in its spec."""
    container = {"name": "main", "image": "images.example/app:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container], **spec},
    }


def a_definition(schema: Body, plural: str = "things", version: Body | None = None) -> Body:
    """A CustomResourceDefinition of one version with the schema given."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.rstrip("s").capitalize()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **(version or {}),
                }
            ],
        },
    }
