"""Certificates of one study: a client that verifies accepts the server, and no other name."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from mydyno.hosts.network.certificates import KEYS, Certificates, make_certificates

ADDRESS = "127.0.0.9"


def handshake(made: Certificates, name: str) -> None:
    """A TLS handshake with a server that has the certificates, by a client that checks everything it can."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(made.certificate, made.key)
    client = ssl.create_default_context(cafile=made.authority)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()

    def serve() -> None:
        # The client may refuse.
        with theirs, contextlib.suppress(OSError):
            server.wrap_socket(theirs, server_side=True).close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours:
            client.wrap_socket(ours, server_hostname=name).close()
    finally:
        thread.join()


@pytest.mark.parametrize("key", KEYS)
def test_a_client_that_verifies_accepts_the_server_by_its_addresses_alone(key: str, tmp_path: Path) -> None:
    made = make_certificates(tmp_path, key, [ADDRESS, "fd00::1"])
    for name in (ADDRESS, "fd00::1", "localhost"):
        handshake(made, name)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"127\.0\.0\.8"):
        handshake(made, "127.0.0.8")
    other = tmp_path / "other"
    other.mkdir()
    stranger = make_certificates(other, key, [ADDRESS])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(Certificates(mixed(tmp_path, made, stranger)), ADDRESS)


def mixed(folder: Path, authority_of: Certificates, server_of: Certificates) -> Path:
    """One study's authority with another study's server."""
    target = folder / "mixed"
    target.mkdir()
    for path in (authority_of.authority, server_of.certificate, server_of.key):
        (target / path.name).write_bytes(path.read_bytes())
    return target


@pytest.mark.parametrize(
    ("key", "kind", "bits"), [("rsa-2048", rsa.RSAPublicKey, 2048), ("ecdsa-p256", ec.EllipticCurvePublicKey, 256)]
)
def test_the_key_is_the_one_that_was_chosen_and_for_its_owner_only(
    key: str, kind: type, bits: int, tmp_path: Path
) -> None:
    made = make_certificates(tmp_path, key, [ADDRESS])
    public = x509.load_pem_x509_certificate(made.certificate.read_bytes()).public_key()
    assert isinstance(public, kind)
    assert public.key_size == bits  # type: ignore[attr-defined]
    assert made.key.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"ca.pem", "server-cert.pem", "server-key.pem"}


def test_existing_files_are_kept(tmp_path: Path) -> None:
    first = make_certificates(tmp_path, "ecdsa-p256", [ADDRESS]).certificate.read_bytes()
    assert make_certificates(tmp_path, "ecdsa-p256", [ADDRESS]).certificate.read_bytes() == first
