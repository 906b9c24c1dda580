"""Answers TokenReviews, access reviews and their kin: objects that are never stored.

A client asks whose token it was shown, who it is itself, what it or another may do. The answer is
the object with its status filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from swell.api.codec import encode
from swell.api.meta import Body
from swell.api.times import format_time
from swell.cluster.embedded import refusals
from swell.cluster.embedded.access.attributes import (
    AUTHENTICATED,
    AccessDecision,
    Identity,
    RequestAttributes,
)
from swell.cluster.embedded.access.index import AccessIndex
from swell.cluster.embedded.access.policyrules import PolicyRule
from swell.cluster.embedded.commits import Stored
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

AUTHORIZATION = "authorization.k8s.io"
AUDIENCE = "https://kubernetes.default.svc"


class ReviewClock(Protocol):
    """The part of a clock that reviews need."""

    def now(self) -> float: ...


class Reviewer(Protocol):
    """The part of a request's context that reviews need: who asks."""

    @property
    def identity(self) -> Identity: ...


class Reviews:
    """Answers reviews by an index of roles. `authenticate` finds the identity of a token."""

    def __init__(self, access: AccessIndex, clock: ReviewClock) -> None:
        self._access = access
        self._clock = clock
        self.authenticate: Callable[[str], Identity | None] = lambda _token: None
        self._answers: dict[str, Callable[[Body, Identity], None]] = {
            "TokenReview": self._token,
            "SelfSubjectReview": self._self,
            "SubjectAccessReview": self._subject_access,
            "LocalSubjectAccessReview": self._subject_access,
            "SelfSubjectAccessReview": self._self_access,
            "SelfSubjectRulesReview": self._self_rules,
        }

    def answer(self, body: Body, request: Reviewer) -> Stored:
        """The review with its status; ClusterError when it cannot be answered."""
        body.pop("status", None)
        self._answers[body["kind"]](body, request.identity)
        return Stored(encode(body), 0, body["metadata"])

    def _token(self, body: Body, _asking: Identity) -> None:
        spec = body.get("spec") or {}
        if not spec.get("token"):
            raise refusals.bad_request("token is required for TokenReview in authentication")
        audiences = spec.get("audiences") or [AUDIENCE]
        identity = self.authenticate(spec["token"]) if AUDIENCE in audiences else None
        if identity is None:
            body["status"] = {"user": {}, "error": "invalid bearer token"}
            return
        body["status"] = {
            "authenticated": True,
            "user": _user_info(identity),
            "audiences": [AUDIENCE],
        }

    def _self(self, body: Body, asking: Identity) -> None:
        body["metadata"] = {"creationTimestamp": format_time(self._clock.now())}
        body["status"] = {"userInfo": _user_info(asking)}

    def _self_access(self, body: Body, asking: Identity) -> None:
        _refuse(_attribute_errors(body) + _metadata_errors(body))
        body["status"] = _status(self._access.decide(asking, _attributes(body)))

    def _subject_access(self, body: Body, _asking: Identity) -> None:
        spec = body.get("spec") or {}
        errors = _attribute_errors(body)
        if not spec.get("user") and not spec.get("groups"):
            detail = "at least one of user or group must be specified"
            errors.append(field_errors.invalid("spec.user", "", detail))
        _refuse(errors + _metadata_errors(body))
        subject = Identity(spec.get("user") or "", tuple(spec.get("groups") or ()))
        body["status"] = _status(self._access.decide(subject, _attributes(body)))

    def _self_rules(self, body: Body, asking: Identity) -> None:
        namespace = (body.get("spec") or {}).get("namespace")
        if not namespace:
            raise refusals.bad_request("no namespace on request")
        granted = self._access.granted(asking, namespace)
        rules: Iterable[PolicyRule] = granted.rules
        if asking.is_master:
            everything = frozenset("*")
            rules = [
                PolicyRule(everything, everything, everything),
                PolicyRule(everything, paths=everything),
            ]
        body["spec"] = {}  # as a real server answers
        body["status"] = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [_path_rule(rule) for rule in rules if rule.paths],
            "incomplete": bool(granted.problems),
        }
        if granted.problems:
            body["status"]["evaluationError"] = ", ".join(granted.problems)


def _attributes(body: Body) -> RequestAttributes:
    spec = body["spec"]
    if path := spec.get("nonResourceAttributes"):
        return RequestAttributes(path.get("verb", ""), path=path.get("path", ""))
    given = spec["resourceAttributes"]
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    wanted = RequestAttributes(*(given.get(field) or "" for field in fields))
    # A review without a resource asks for none, and not for a path.
    return wanted if wanted.resource else wanted._replace(resource=" ")


def _attribute_errors(body: Body) -> list[FieldError]:
    spec = body.get("spec") or {}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if body["kind"] == "LocalSubjectAccessReview":
        if path is not None:
            detail = "disallowed on this kind of request"
            return [field_errors.invalid("spec.nonResourceAttributes", path, detail)]
        where = "spec.resourceAttributes.namespace"
        given = (resource or {}).get("namespace")
        if resource is not None and given != body["metadata"].get("namespace"):
            return [field_errors.invalid(where, given, "must match metadata.namespace")]
    if resource is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        return [field_errors.invalid("spec.nonResourceAttributes", path, detail)]
    if resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [field_errors.invalid("spec.resourceAttributes", None, detail)]
    return []


def _metadata_errors(body: Body) -> list[FieldError]:
    given = {field: value for field, value in body["metadata"].items() if field != "namespace"}
    if not given:
        return []
    return [field_errors.invalid("metadata", given, "must be empty")]


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        # A real server names neither the kind nor an object here.
        raise refusals.invalid("", AUTHORIZATION, "", errors)


def _status(decision: AccessDecision) -> Body:
    return {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})


def _user_info(identity: Identity) -> Body:
    given: Body = {
        "username": identity.name,
        "uid": identity.uid,
        "groups": list(identity.groups) or [AUTHENTICATED],
    }
    return {field: value for field, value in given.items() if value}


def _resource_rule(rule: PolicyRule) -> Body:
    given: Body = {
        "verbs": sorted(rule.verbs),
        "apiGroups": sorted(rule.groups),
        "resources": sorted(rule.resources),
        "resourceNames": sorted(rule.names),
    }
    return {field: value for field, value in given.items() if value}


def _path_rule(rule: PolicyRule) -> Body:
    return {"verbs": sorted(rule.verbs), "nonResourceURLs": sorted(rule.paths)}
