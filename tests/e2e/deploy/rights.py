"""What an identity may do by the deploy files, and what it did by the API server's audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import yaml

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:swell-system", "system:serviceaccounts:swell-jobs"]
  - level: None
"""


class Right(NamedTuple):
    verb: str
    group: str
    resource: str  # with its subresource

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}"


def granted(manifests: str) -> set[Right]:
    """Every right in the Roles and ClusterRoles among some manifests."""
    return {
        Right(verb, group, resource)
        for document in yaml.safe_load_all(manifests)
        for rule in document.get("rules", [])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class Use(NamedTuple):
    """A request, and whether it was let through."""

    right: Right
    is_allowed: bool
    namespace: str = ""


def used(audit_log: Path, user: str) -> list[Use]:
    """Every request of a user for a resource in an audit log."""
    found: list[Use] = []
    whole_lines = audit_log.read_text().rpartition("\n")[0]
    for line in whole_lines.splitlines():
        event = json.loads(line)
        what = event.get("objectRef")
        if what is None or event["user"]["username"] != user:
            continue
        parts = [what["resource"], what.get("subresource", "")]
        right = Right(event["verb"], what.get("apiGroup", ""), "/".join(filter(None, parts)))
        decision = event["annotations"]["authorization.k8s.io/decision"]
        found.append(Use(right, decision == "allow", what.get("namespace", "")))
    return found
