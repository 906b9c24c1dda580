"""Requests that are made as other users, and the parts of their answers that servers agree on."""

from __future__ import annotations

import http.client
import json
from typing import Any

Json = dict[str, Any]

# Fields of an object that differ from server to server and from run to run.
_OWN_METADATA = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


def exchange(
    connection: http.client.HTTPConnection, question: Json, headers: dict[str, str]
) -> tuple[int, Json]:
    """Send the request of a question; returns its status code and comparable answer."""
    method, _, path = question["do"].partition(" ")
    connection.putrequest(method, path)
    given = dict(headers)
    if "as" in question:
        given["Impersonate-User"] = question["as"]
    body = json.dumps(question["body"]).encode() if "body" in question else b""
    if body:
        given["Content-Type"] = question.get("type", "application/json")
        given["Content-Length"] = str(len(body))
    for name, value in given.items():
        connection.putheader(name, value)
    for group in question.get("groups", ()):
        connection.putheader("Impersonate-Group", group)
    connection.endheaders(body or None)
    response = connection.getresponse()
    if response.status == 200 and "watch=true" in path:
        response.close()
        connection.close()
        return 200, {}
    return response.status, comparable(response.status, response.read())


def comparable(code: int, raw: bytes) -> Json:
    """A refusal in full; of an object what the client wrote and the server decided."""
    try:
        found = json.loads(raw)
    except ValueError:
        return {"text": raw.decode()}
    if code >= 400:
        return {name: found.get(name) or None for name in ("reason", "message", "details")}
    for item in [found, *found.get("items", ())]:
        for name in _OWN_METADATA:
            item.get("metadata", {}).pop(name, None)
    details = found.get("details") or {}
    details.pop("uid", None)
    # A real server lists the rules of a user in any order.
    for rules in (found.get("status") if isinstance(found.get("status"), dict) else {}).values():
        if isinstance(rules, list):
            rules.sort(key=lambda rule: json.dumps(rule, sort_keys=True))
    return dict(found)
