"""Keys and certificates made for one control plane: an authority, a server, service accounts.

Valid for a few days and on loopback only; never meant for anything but tests.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = dt.timedelta(days=3)
CLOCK_SKEW = dt.timedelta(hours=1)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
AUTHORITY_USES = {"key_cert_sign", "crl_sign"}
SERVER_USES = {"digital_signature"}


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in one folder, all PEM."""

    ca_file: Path
    server_cert_file: Path
    server_key_file: Path
    service_account_key_file: Path


def write_certificates(folder: Path) -> Certificates:
    """Make everything anew and write it, keys readable by nobody else."""
    made = Certificates(
        ca_file=folder / "ca.crt",
        server_cert_file=folder / "server.crt",
        server_key_file=folder / "server.key",
        service_account_key_file=folder / "service-account.key",
    )
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key)
    server = _server(server_key, authority_key, authority.subject)
    made.ca_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    made.server_cert_file.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    _write_key(server_key, made.server_key_file)
    _write_key(ec.generate_private_key(ec.SECP256R1()), made.service_account_key_file)
    return made


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name("swell-testbed-ca")
    return (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(AUTHORITY_USES), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _server(
    key: ec.EllipticCurvePrivateKey, authority_key: ec.EllipticCurvePrivateKey, issuer: x509.Name
) -> x509.Certificate:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    server_use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        _builder(_name("swell-testbed"), issuer, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(SERVER_USES), critical=True)
        .add_extension(server_use, critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(authority_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(uses: set[str]) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature="digital_signature" in uses,
        key_cert_sign="key_cert_sign" in uses,
        crl_sign="crl_sign" in uses,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(key: ec.EllipticCurvePrivateKey, file: Path) -> None:
    file.touch(mode=0o600)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
