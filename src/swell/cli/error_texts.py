"""Turns errors into a sentence for people and a hint what to do about it. Pure."""

from __future__ import annotations

import errno
import socket
import ssl
from pathlib import Path

from swell.cli.command_line import CommandError
from swell.cluster.kube.answers import LostError
from swell.runtime.errors import (
    ClusterError,
    ForbiddenError,
    MalformedError,
    NotFoundError,
    OutcomeUnknownError,
    UnauthorizedError,
    UnreachableError,
)

START_IT = "is it running? start it with: swell up"
CHECK_KUBECONFIG = "check the kubeconfig and its context"
# The body of an API server's answer for a path that it does not serve: plain text, no Status.
NO_PATH = "404 page not found"
# The embedded server's message when its disk did not take a write.
NOT_WRITTEN = "the store could not be written"

# A word behind `get` that is no kind is taken for the name of a job. These kinds of Kubernetes,
# which the embedded cluster does not have, are more likely to be meant.
_OWN_KIND = "aitrainingjobs"
_OTHER_KINDS = frozenset(
    {
        *("componentstatuses", "cronjob", "cronjobs", "daemonset", "daemonsets", "deploy"),
        *("deployment", "deployments", "horizontalpodautoscalers", "hpa", "ingress", "ingresses"),
        *("limitranges", "networkpolicies", "quota", "resourcequota", "resourcequotas"),
        *("serviceaccount", "serviceaccounts", "statefulset", "statefulsets", "sts"),
    }
)

ClusterFailure = ClusterError | UnreachableError | OutcomeUnknownError | MalformedError
CLUSTER_FAILURES = (ClusterError, UnreachableError, OutcomeUnknownError, MalformedError)


def from_cluster_failure(error: ClusterFailure, server: str, *, embedded: bool) -> CommandError:
    """Return the error of a command whose cluster refused, or could not be reached."""
    usual = START_IT if embedded else CHECK_KUBECONFIG
    match error:
        case UnreachableError():
            return _unreachable(error, server, usual)
        case OutcomeUnknownError() if NOT_WRITTEN in str(error):
            cause = str(error).partition(NOT_WRITTEN)[2].strip(": ")
            hint = "make room on its disk, then try again"
            return CommandError(f"the cluster could not write it down: {cause}", hint)
        case OutcomeUnknownError():
            hint = "it may have been done; look with: swell get"
            return CommandError(f"the answer was lost: {error}", hint)
        case UnauthorizedError():
            hint = usual if embedded else "log in again, or fetch a new kubeconfig: tokens expire"
            return CommandError(f"{server} does not know this user", hint)
        case MalformedError():
            return CommandError(f"not understood: {error}", "is this the newest version of Swell?")
        case ClusterError():
            return _refused(error, server)


def from_os_error(error: OSError, state: Path) -> CommandError:
    """Return the error of a command that the operating system refused something.

    `state` is the folder of the embedded cluster: for files in it, SWELL_HOME is the remedy.
    """
    name = str(error.filename or "")
    message = error.strerror or str(error)
    is_state = name.startswith(str(state))
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            hint = "make room there" if name else "make room where it is written to"
        case errno.EACCES | errno.EPERM | errno.EROFS if is_state:
            hint = "it is not yours to write: set SWELL_HOME to a folder that is"
        case _ if is_state:
            hint = "set SWELL_HOME to a folder of yours"
        case errno.EACCES | errno.EPERM:
            hint = "check whose it is, and what its mode allows"
        case _:
            hint = ""
    return CommandError(f"{name}: {message}" if name else message, hint)


def _unreachable(error: UnreachableError, server: str, usual: str) -> CommandError:
    cause = error.__cause__
    match cause:
        case ssl.SSLCertVerificationError():
            message = f"the certificate of {server} is not trusted: {cause.verify_message}"
            hint = "has the cluster been made anew? fetch its kubeconfig again"
        case ssl.SSLError():
            message = f"{server} does not speak TLS ({cause.reason or cause})"
            hint = "is the port right? a server without TLS is written http://"
        # A TLS server answers plain HTTP with bytes that are none, or not at all.
        case LostError() | ConnectionResetError() if server.startswith("http:"):
            message, hint = f"{server} does not speak plain HTTP", "write it as https://"
        case ConnectionRefusedError():
            message, hint = f"nothing answers at {server}", usual
        case socket.gaierror():
            message, hint = f"{server}: there is no host of that name", usual
        case TimeoutError():
            message, hint = f"{server} does not answer in time", usual
        case _:
            message, hint = f"cannot reach {server}: {error}", usual
    return CommandError(message, hint)


def _refused(error: ClusterError, server: str) -> CommandError:
    status = error.status
    # A Kubernetes API server gives every refusal a reason, except for paths it does not serve.
    if not status.reason:
        if status.message == NO_PATH:
            hint = "install our kinds first: swell crds | kubectl apply -f -"
            return CommandError(f"{server} does not serve this kind of object", hint)
        message = f"{server} does not answer as a Kubernetes API server does (HTTP {status.code})"
        return CommandError(message, CHECK_KUBECONFIG)
    kind = status.details.kind if status.details else ""
    name = status.details.name if status.details else ""
    if isinstance(error, NotFoundError) and kind == _OWN_KIND and name in _OTHER_KINDS:
        hint = "the kinds that there are: swell api-resources"
        return CommandError(f"the cluster has no kind {name!r}, and no job of this name", hint)
    if isinstance(error, NotFoundError) and kind:
        return CommandError(str(error), f"see: swell get {kind}")
    if isinstance(error, ForbiddenError):
        return CommandError(str(error), "ask for the right, or use another context")
    return CommandError(str(error))
