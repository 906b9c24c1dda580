"""The control plane of a test cluster: certificates, and the flags its programs start with.

The API server has the first address of the services, on the port that every pod is told, so that
programs in pods find it without a proxy. Pods reach nothing else of the control plane but DNS.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path

from testbed import daemons
from testbed.build import bin_dir
from testbed.site import NODES, Site

ADMIN = "admin"
DAYS_VALID = "7"
API_SERVER = "kube-apiserver"
API_PORT = 443
DNS_READY_PORT = 8181
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
  - {level: Metadata, userGroups: ["system:serviceaccounts"]}
  - {level: None}
"""


def api_url(site: Site) -> str:
    return f"https://{site.api_address}:{API_PORT}"


def store_url(site: Site) -> str:
    return f"http://{site.loopback}:2379"


def write_certificates(site: Site) -> None:
    """An authority, the API server's certificate, its identity for nodes, and a signing key."""
    _certificate(site, "ca", "/CN=swell-testbed-ca")
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    alternatives = [*(f"DNS:{name}" for name in names), f"IP:{site.api_address}"]
    alternatives.append(f"IP:{site.loopback}")
    extensions = ["-addext", f"subjectAltName={','.join(alternatives)}"]
    _certificate(site, "server", "/CN=swell-testbed", *_signed(site), *extensions)
    _certificate(site, "kubelet-client", "/O=system:masters/CN=kube-apiserver", *_signed(site))
    _certificate(site, "service-account", "/CN=service-account")


def write_identities(site: Site) -> None:
    """A token for the administrator and one for each node, and a kubeconfig with each."""
    tokens = {name: secrets.token_hex(16) for name in (ADMIN, *NODES)}
    lines = [f"{tokens[ADMIN]},admin,admin,system:masters"]
    lines += [f"{tokens[node]},system:node:{node},{node},system:nodes" for node in NODES]
    write_private(site.folder / "tokens.csv", "\n".join(lines) + "\n")
    write_private(site.kubeconfig, _kubeconfig(site, tokens[ADMIN]))
    for node in NODES:
        write_private(site.node_folder(node) / "kubeconfig", _kubeconfig(site, tokens[node]))


def admin_token(site: Site) -> str:
    return (site.folder / "tokens.csv").read_text(encoding="ascii").partition(",")[0]


def start_store(site: Site) -> None:
    """Start etcd, for which the API server waits by itself."""
    store = store_url(site)
    _start(
        site,
        "etcd",
        {
            "data-dir": site.folder / "etcd",
            "listen-client-urls": store,
            "advertise-client-urls": store,
            "listen-peer-urls": f"http://{site.loopback}:2380",
            "unsafe-no-fsync": "true",  # nothing here outlives the machine's next start
            "log-level": "warn",
        },
    )


def start_server(site: Site) -> None:
    """Start the API server; it notes what programs in pods ask of it."""
    (site.folder / "audit.yaml").write_text(AUDIT_POLICY, encoding="ascii")
    _start(site, API_SERVER, _api_server_flags(site, store_url(site)))


def kill_server(site: Site) -> None:
    """Kill the API server as a crash would."""
    daemons.kill([daemons.tracking_cgroup(site) / daemons.DAEMONS / API_SERVER])


def start_controllers(site: Site) -> None:
    """Start what needs an API server that answers: controllers, the usual scheduler, and DNS."""
    client = {"kubeconfig": site.kubeconfig, "leader-elect": "false"}
    served = {
        "bind-address": site.loopback,
        "tls-cert-file": site.folder / "server.crt",
        "tls-private-key-file": site.folder / "server.key",
    }
    signing = {
        "root-ca-file": site.folder / "ca.crt",
        "service-account-private-key-file": site.folder / "service-account.key",
        "use-service-account-credentials": "true",
        "cluster-signing-cert-file": site.folder / "ca.crt",
        "cluster-signing-key-file": site.folder / "ca.key",
    }
    # Tests wait for lost nodes and would wait for a busy client's turn.
    speed = {"node-monitor-grace-period": "10s", "node-monitor-period": "1s"}
    quick = {"kube-api-qps": "200", "kube-api-burst": "400"}
    _start(site, "kube-controller-manager", {**client, **served, **signing, **speed, **quick})
    _start(site, "kube-scheduler", {**client, **served, **quick})
    zones = site.folder / "Corefile"
    zones.write_text(_zones(site), encoding="utf-8")
    daemons.start(site, "coredns", [str(bin_dir() / "coredns"), "-conf", str(zones)])


def write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")


def _api_server_flags(site: Site, store: str) -> Mapping[str, object]:
    folder = site.folder
    return {
        "etcd-servers": store,
        "bind-address": site.api_address,
        "advertise-address": site.api_address,
        "secure-port": API_PORT,
        "cert-dir": folder,
        "tls-cert-file": folder / "server.crt",
        "tls-private-key-file": folder / "server.key",
        "client-ca-file": folder / "ca.crt",
        "kubelet-client-certificate": folder / "kubelet-client.crt",
        "kubelet-client-key": folder / "kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP",
        "token-auth-file": folder / "tokens.csv",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": folder / "service-account.crt",
        "service-account-signing-key-file": folder / "service-account.key",
        "service-cluster-ip-range": site.services,
        "audit-policy-file": folder / "audit.yaml",
        "audit-log-path": site.audit_log,
    }


def _zones(site: Site) -> str:
    return f""".:53 {{
    bind {site.dns_address}
    errors
    ready {site.loopback}:{DNS_READY_PORT}
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {site.kubeconfig} testbed
        ttl 1
    }}
}}
"""


def _start(site: Site, name: str, flags: Mapping[str, object]) -> None:
    command = [str(bin_dir() / name), *(f"--{flag}={value}" for flag, value in flags.items())]
    daemons.start(site, name, command)


def _signed(site: Site) -> list[str]:
    return ["-CA", str(site.folder / "ca.crt"), "-CAkey", str(site.folder / "ca.key")]


def _certificate(site: Site, name: str, subject: str, *options: str) -> None:
    key, certificate = site.folder / f"{name}.key", site.folder / f"{name}.crt"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    made = ["openssl", "req", "-x509", *curve, "-days", DAYS_VALID, "-subj", subject, *files]
    subprocess.run([*made, *options], check=True, capture_output=True)


def _kubeconfig(site: Site, token: str) -> str:
    """A kubeconfig in JSON, which every reader of YAML takes."""
    name = "testbed"
    cluster = {"server": api_url(site), "certificate-authority": str(site.folder / "ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(config, indent=2) + "\n"
