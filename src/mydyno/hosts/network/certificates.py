"""Certificates of one study: an authority, and a server's certificate for its addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mydyno.files.atomic import Owner, write_private

VALID = timedelta(days=30)
PUBLIC = 0o644
CLOCK_DIFFERENCE = timedelta(days=1)
"""The clock of another host may be slow by this much."""
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
KEYS: dict[str, Callable[[], PrivateKey]] = {
    "rsa-2048": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ecdsa-p256": lambda: ec.generate_private_key(ec.SECP256R1()),
}


@dataclass(frozen=True)
class Certificates:
    """PEM files in one folder."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate, which a client trusts."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "server-cert.pem"

    @property
    def key(self) -> Path:
        """The server's private key."""
        return self.folder / "server-key.pem"


def make_certificates(folder: Path, key: str, addresses: Sequence[str], owner: Owner | None = None) -> Certificates:
    """Make them for `owner`, in a folder that exists; existing files are kept. The authority's key is not stored.

    Takes a tenth of a second for RSA.
    """
    made = Certificates(folder)
    if made.certificate.is_file():
        return made
    authority_key, server_key = KEYS[key](), KEYS[key]()
    authority_name, server_name = _name("mydyno authority"), _name("mydyno server")
    authority = (
        _builder(authority_name, authority_name, authority_key, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    server = (
        _builder(server_name, authority_name, server_key, authority_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        # Suites without forward secrecy, which old servers have, encrypt the session's key for an RSA key.
        .add_extension(_usage(digital_signature=True, key_encipherment=key.startswith("rsa")), critical=True)
        .add_extension(x509.SubjectAlternativeName([*names, x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    write_private(made.authority, authority.public_bytes(Encoding.PEM), owner, PUBLIC)
    write_private(made.key, server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), owner)
    write_private(made.certificate, server.public_bytes(Encoding.PEM), owner, PUBLIC)
    return made


def _usage(
    digital_signature: bool = False, key_encipherment: bool = False, key_cert_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_encipherment=key_encipherment,
        key_cert_sign=key_cert_sign,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: PrivateKey, issuer_key: PrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_DIFFERENCE)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
