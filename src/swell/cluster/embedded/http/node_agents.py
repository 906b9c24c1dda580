"""The HTTPS servers of node agents, as an API server knows kubelets.

Agents know the server by its certificate, which a ConfigMap tells them to trust, so that the server
sends no secret, not even to a process that has taken over an agent's port.
"""

from __future__ import annotations

import ssl
from urllib.parse import quote

from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.http.credentials import Files, server_tls
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.verbs.requests import RequestContext

ACTOR = "logs"
# A real API server publishes in this ConfigMap which authorities its back ends may trust.
AUTHORITIES = Key("kube-system", "extension-apiserver-authentication")
AUTHORITY = "client-ca-file"


class NodeAgents:
    """Finds the agents of nodes, which must trust this server: `publish` first."""

    def __init__(self, api: ApiServer, files: Files) -> None:
        self._api = api
        self._files = files

    def publish(self) -> None:
        """Write the ConfigMap by which agents trust this server's certificate.

        The certificate is made now if there is none.
        """
        server_tls(self._files)
        kind = self._api.registry.stored("configmaps")
        if kind is None:
            raise AssertionError("configmaps are built in")
        namespace, name = AUTHORITIES
        body: Body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
            "data": {AUTHORITY: self._files.certificate.read_text()},
        }
        if self._api.storage.get("configmaps", AUTHORITIES) is None:
            self._api.create(kind, namespace, body, RequestContext(ACTOR))
        else:
            self._api.update(kind, AUTHORITIES, body, RequestContext(ACTOR))

    def url(self, pod: Body, what: str, container: str) -> str:
        """The address of something of a container at the agent of its node.

        Raises ClusterError when the node is not there or has no such agent.
        """
        node, meta = pod["spec"].get("nodeName") or "", pod["metadata"]
        found = self._api.storage.get("nodes", Key("", node))
        if found is None:
            raise refusals.not_found("nodes", "", node)
        status = found.body.get("status") or {}
        endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        addresses = {a.get("type"): a.get("address") for a in status.get("addresses") or ()}
        if not endpoint.get("Port") or not addresses.get("InternalIP"):
            raise bad_request(f"node {node} serves no logs and runs no commands")
        parts = (what, meta["namespace"], meta["name"], container)
        path = "/".join(quote(part, "") for part in parts)
        return f"https://{addresses['InternalIP']}:{endpoint['Port']}/{path}"

    def tls(self) -> ssl.SSLContext:
        """A client that shows its certificate and checks none.

        Agents sign their own certificates, so checking one would prove nothing.
        """
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        tls.load_cert_chain(self._files.certificate, self._files.key)
        return tls
