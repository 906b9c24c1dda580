"""Identities, and what a request asks for, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MASTERS = "system:masters"  # members may do everything, whatever the roles say
AUTHENTICATED = "system:authenticated"
SERVICE_ACCOUNTS = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated user with the groups it is in."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups


# The bearer of the state folder's own token, and every part of Swell in the server's process.
ADMIN = Identity("swell-admin", (MASTERS, AUTHENTICATED))


class RequestAttributes(NamedTuple):
    """A verb on a resource, or on a path that is no resource; parts that are not given are empty.

    For the object of a namespace itself, `namespace` and `name` are both its name.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""  # of a request for no resource

    @property
    def combined(self) -> str:
        """The resource as rules name it: `pods`, or `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class AccessDecision(NamedTuple):
    """Whether a request is allowed, and why: in words of a real server, which clients may show."""

    allowed: bool
    reason: str = ""


def service_account(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def denial(identity: Identity, wanted: RequestAttributes) -> str:
    """The sentence that tells a user what it cannot do."""
    who = f'User "{identity.name}" cannot {wanted.verb}'
    if not wanted.resource:
        return _harmless(f'{who} path "{wanted.path}"')
    what = f'{who} resource "{wanted.combined}" in API group "{wanted.group}"'
    if wanted.namespace:
        return _harmless(f'{what} in the namespace "{wanted.namespace}"')
    return _harmless(f"{what} at the cluster scope")


def _harmless(text: str) -> str:
    """The text as a real server sends it: a browser that shows it finds no markup of a caller's."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
