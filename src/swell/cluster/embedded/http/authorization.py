"""The verb and resource that a request asks for, as roles name them, and on whose behalf. Pure.

The attributes are made of the same parts of the path that the request is answered by, so that no
spelling of a path is judged as another one.
"""

from __future__ import annotations

from multidict import CIMultiDict, CIMultiDictProxy

from swell.cluster.embedded import refusals
from swell.cluster.embedded.access.attributes import (
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    SERVICE_ACCOUNTS,
    Identity,
    RequestAttributes,
)
from swell.cluster.embedded.access.index import AccessIndex
from swell.cluster.embedded.http.options import is_true, parse_query
from swell.cluster.embedded.http.routing import ResourcePath
from swell.cluster.embedded.selectors import SelectorError, exact_value

Headers = CIMultiDict[str] | CIMultiDictProxy[str]

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_COLLECTIONS = {"get": "list", "delete": "deletecollection"}
_NAME = "metadata.name"
_AS_USER, _AS_GROUP, _AS_UID = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid"


def wanted_by(
    method: str, segments: tuple[str, ...], resource: ResourcePath | None, query: str
) -> RequestAttributes:
    """The attributes of a request for a resource, or for a path that is none."""
    if resource is None or not resource.plural:
        return RequestAttributes(method.lower(), path="/" + "/".join(segments))
    verb, name, namespace = _VERBS.get(method, ""), resource.name, resource.namespace
    if not name:
        given = parse_query(query)
        verb = _OF_COLLECTIONS.get(verb, verb)
        if verb == "list" and is_true(given, "watch"):
            verb = "watch"
        if verb in {"list", "watch", "deletecollection"}:
            name = _selected_name((given.get("fieldSelector") or [""])[0])
    elif resource.group == "" and resource.plural == "namespaces":
        namespace = name
    return RequestAttributes(
        verb, resource.group, resource.plural, resource.subresource, namespace, name
    )


def _selected_name(selector: str) -> str:
    """The only name that a field selector lets pass; empty when it lets others pass, too."""
    try:
        return exact_value(selector, _NAME) if _NAME in selector else ""
    except SelectorError:
        return ""  # refused when it is read again, if the request is allowed at all


def impersonated(headers: Headers, identity: Identity, access: AccessIndex) -> Identity:
    """The identity that a request is made as: its own, or one that it asks for and may assume."""
    user = headers.get(_AS_USER)
    if user is None:
        if _AS_GROUP in headers or _AS_UID in headers:
            raise refusals.bad_request("impersonation without a user name")
        return identity
    known = {_AS_USER.lower(), _AS_GROUP.lower()}
    if any(_is_impersonation(name) and name.lower() not in known for name in headers):
        raise refusals.bad_request("only users and groups can be impersonated here")
    groups = tuple(headers.getall(_AS_GROUP, []))
    for wanted in _impersonations(user, groups):
        decision = access.decide(identity, wanted)
        if not decision.allowed:
            raise refusals.not_allowed(identity, wanted, decision.reason)
    if user.startswith(SERVICE_ACCOUNT_PREFIX) and not groups:
        namespace = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")[0]
        groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")
    if AUTHENTICATED not in groups:
        groups += (AUTHENTICATED,)
    return Identity(user, groups)


def _is_impersonation(header: str) -> bool:
    return header[:12].lower() == "impersonate-"


def _impersonations(user: str, groups: tuple[str, ...]) -> list[RequestAttributes]:
    """The rights that assuming an identity takes: on its user, and on each of its groups."""
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if user.startswith(SERVICE_ACCOUNT_PREFIX):
        whom = RequestAttributes(
            "impersonate", resource="serviceaccounts", namespace=namespace, name=name
        )
    else:
        whom = RequestAttributes("impersonate", resource="users", name=user)
    return [whom, *(RequestAttributes("impersonate", resource="groups", name=g) for g in groups)]
