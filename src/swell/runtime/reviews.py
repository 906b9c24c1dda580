"""Asks the API server whose token a client shows, and whether that user may do something.

These are Kubernetes' TokenReview and SubjectAccessReview. An endpoint of ours that shows them to
the server needs no accounts of its own: rights are granted by the cluster's roles.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from swell.api.meta import Body
from swell.api.resource import Resource
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import ClusterError, OutcomeUnknownError, UnreachableError

TOKEN_REVIEWS: Resource[Body] = Resource(
    "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", dict, namespaced=False
)
ACCESS_REVIEWS: Resource[Body] = Resource(
    "authorization.k8s.io",
    "v1",
    "SubjectAccessReview",
    "subjectaccessreviews",
    dict,
    namespaced=False,
)
# The facts about a pod that a server tells of a token that is bound to it.
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
# Prometheus asks every 15 to 60 s: most scrapes cost no review, and a revoked token is soon out.
_VALID_S = 60.0
# More clients than any cluster has for metrics; guessed tokens cannot fill the memory.
_ANSWERS_MAX = 256
# Guessed tokens must not become a load on the API server.
_REVIEWS_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class ReviewedUser:
    """The user that the API server knows a token or a certificate as."""

    name: str
    groups: tuple[str, ...] = ()


async def token_user(cluster: Cluster, token: str) -> ReviewedUser | None:
    """Returns the user of a token; None when the API server does not accept it."""
    review = {"metadata": {}, "spec": {"token": token}}
    status = (await cluster.create(TOKEN_REVIEWS, review)).get("status") or {}
    if not status.get("authenticated"):
        return None
    user = status.get("user") or {}
    return ReviewedUser(user.get("username", ""), tuple(user.get("groups") or ()))


@dataclass(frozen=True, slots=True)
class ReviewedPod:
    """The pod that a token is bound to."""

    namespace: str
    name: str
    uid: str


async def token_pod(cluster: Cluster, token: str, audience: str) -> ReviewedPod | None:
    """Returns the pod of a token that is meant for an audience; None for any other token.

    The API server soon refuses a token whose pod is gone.
    """
    review = {"metadata": {}, "spec": {"token": token, "audiences": [audience]}}
    status = (await cluster.create(TOKEN_REVIEWS, review)).get("status") or {}
    # A server that knows nothing of audiences does not say for which one it accepts a token.
    if not status.get("authenticated") or audience not in (status.get("audiences") or ()):
        return None
    user = status.get("user") or {}
    extra, account = user.get("extra") or {}, str(user.get("username", "")).split(":")
    names, uids = extra.get(_POD_NAME) or (), extra.get(_POD_UID) or ()
    if account[:2] != ["system", "serviceaccount"] or len(account) != 4 or not names or not uids:
        return None
    return ReviewedPod(account[2], names[0], uids[0])


async def is_allowed(cluster: Cluster, user: ReviewedUser, attributes: Body) -> bool:
    """Whether a user may do what a SubjectAccessReview's attributes describe."""
    spec: Body = {"user": user.name, "groups": list(user.groups), **attributes}
    answer = await cluster.create(ACCESS_REVIEWS, {"metadata": {}, "spec": spec})
    return bool((answer.get("status") or {}).get("allowed"))


@dataclass(slots=True)
class PathAccess:
    """Decides whether the bearer of a token may get one path of this process.

    Answers are kept for a minute, by the digest of the token and never by the token itself.
    """

    cluster: Cluster
    clock: Clock
    path: str
    _answers: OrderedDict[bytes, tuple[float, int]] = field(default_factory=OrderedDict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_REVIEWS_AT_ONCE))

    async def status(self, headers: Mapping[str, str]) -> int:
        """Returns the HTTP status of the request.

        200, 401 (not known to the API server), 403 (known, and without the right), or 503 (the API
        server could not be asked, which is not remembered).
        """
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return 401
        digest = hashlib.sha256(token.strip().encode()).digest()
        until, status = self._answers.get(digest, (0.0, 0))
        if self.clock.monotonic() < until:
            return status
        try:
            async with self._turns:
                status = await self._ask(token.strip())
        except (ClusterError, UnreachableError, OutcomeUnknownError, TimeoutError):
            return 503
        self._answers[digest] = (self.clock.monotonic() + _VALID_S, status)
        while len(self._answers) > _ANSWERS_MAX:
            self._answers.popitem(last=False)
        return status

    async def _ask(self, token: str) -> int:
        user = await token_user(self.cluster, token)
        if user is None:
            return 401
        attributes: Body = {"nonResourceAttributes": {"path": self.path, "verb": "get"}}
        return 200 if await is_allowed(self.cluster, user, attributes) else 403
