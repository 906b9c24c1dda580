"""The certificate, token and port of an embedded server, and the kubeconfig that has all three.

They are made at the first start and kept, so that a kubeconfig stays valid over restarts. The token
gives full access, so only the owner of the folder can read its files.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import secrets
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from swell.cluster.home import KUBECONFIG
from swell.cluster.private import write_private

HOST = "127.0.0.1"
CONTEXT = "swell"
_VALID_DAYS = 3650  # the certificate is renewed by `swell rotate certificate` alone


class PortError(Exception):
    """The server cannot listen on a port; the message says why."""


@dataclass(frozen=True, slots=True)
class Files:
    """The paths of the credentials in the state folder. Making one creates no file."""

    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / KUBECONFIG

    @property
    def certificate(self) -> Path:
        return self.folder / "server.crt"

    @property
    def key(self) -> Path:
        return self.folder / "server.key"

    @property
    def token_file(self) -> Path:
        return self.folder / "token"

    @property
    def port_file(self) -> Path:
        return self.folder / "port"

    @property
    def users_file(self) -> Path:
        return self.folder / "users.json"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"


def token_of(files: Files) -> str:
    """The token of the folder's owner, who may do everything; it is made on first use."""
    if not files.token_file.exists():
        write_private(files.token_file, secrets.token_urlsafe(32))
    return files.token_file.read_text().strip()


def server_tls(files: Files) -> ssl.SSLContext:
    """A TLS context with the certificate of this folder, which is made on first use."""
    if not (files.certificate.exists() and files.key.exists()):
        certificate, key = self_signed()
        write_private(files.key, key)
        write_private(files.certificate, certificate)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client could ask for handshakes without end on one connection.
    tls.options |= ssl.OP_NO_RENEGOTIATION
    tls.load_cert_chain(files.certificate, files.key)
    return tls


def listening_socket(files: Files, port: int | None) -> socket.socket:
    """A loopback socket on the given port, else on the one used last, else on any free one."""
    last = last_port(files)
    for wanted in [port] if port is not None else [last, 0]:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # A restarted server must get its port back although old connections are in TIME_WAIT.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, wanted))
        except OSError as error:
            made.close()
            # Only the port of an earlier run may be replaced by another one.
            if wanted == port:
                raise PortError(f"{HOST}:{port}: {error.strerror}") from error
        else:
            made.listen(1024)
            write_private(files.port_file, str(made.getsockname()[1]))
            return made
    raise PortError(f"{HOST}: no free port")


def write_kubeconfig(files: Files, port: int) -> None:
    """Write the kubeconfig of this server, in one step so that no client reads half of it."""
    write_private(files.kubeconfig, kubeconfig_text(files, port, token_of(files)))


def kubeconfig_text(
    files: Files, port: int, token: str, user: str = CONTEXT, namespace: str = ""
) -> str:
    """A kubeconfig for the bearer of a token, in JSON, which every reader of YAML takes."""
    authority = base64.b64encode(files.certificate.read_bytes()).decode()
    cluster = {"server": f"https://{HOST}:{port}", "certificate-authority-data": authority}
    context = {"cluster": CONTEXT, "user": user} | ({"namespace": namespace} if namespace else {})
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": context}],
        "current-context": CONTEXT,
    }
    return json.dumps(config, indent=2) + "\n"


def replace_token(files: Files) -> None:
    """Make a new token of the owner, in its file and in the kubeconfig."""
    write_private(files.token_file, secrets.token_urlsafe(32))
    if files.kubeconfig.exists():
        write_kubeconfig(files, last_port(files))


def replace_certificate(files: Files) -> None:
    """Make a new certificate with a new key, and a kubeconfig that trusts it alone."""
    certificate, key = self_signed()
    # A server that reads between the two finds that they do not fit, and reads again.
    write_private(files.key, key)
    write_private(files.certificate, certificate)
    if files.kubeconfig.exists():
        write_kubeconfig(files, last_port(files))


def last_port(files: Files) -> int:
    """The port that the server has, or had when it ran last; 0 when it never did."""
    try:
        return int(files.port_file.read_text())
    except (OSError, ValueError):
        return 0


def self_signed() -> tuple[str, str]:
    """A new certificate for loopback, which is its own authority, and its key, both as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "swell")])
    # Valid since yesterday, so that a client whose clock is behind accepts it, too.
    begin = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    # The server is also a client: it shows this certificate to node agents when it fetches logs.
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    usage = x509.ExtendedKeyUsage(purposes)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # Its own authority: kubeconfig and node agents trust this very certificate.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), secret.decode()
