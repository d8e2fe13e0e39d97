"""The compressed protocol's frames, and a client's TLS limits."""

from __future__ import annotations

import io
import ssl
import struct
import zlib

import pyarrow
import pytest

from mydyno.servers.load_session import CompressedReader, _CompressedSocket, tls_context
from mydyno.servers.sql import ClientTls

TEXT = b"68487932199-96439406143-" * 20


def frame(data: bytes, unpacked: int, number: int = 0) -> bytes:
    return struct.pack("<I", len(data))[:3] + bytes([number]) + struct.pack("<I", unpacked)[:3] + data


@pytest.mark.parametrize(
    ("algorithm", "packed"),
    [("zlib", zlib.compress(TEXT)), ("zstd", pyarrow.Codec("zstd").compress(TEXT, asbytes=True))],
)
def test_frames_are_unpacked_across_their_borders(algorithm: str, packed: bytes) -> None:
    stream = io.BytesIO(frame(packed, len(TEXT)) + frame(b"plain", 0, 1))
    reader = CompressedReader(stream, algorithm)
    assert reader.read(4) == TEXT[:4]
    assert reader.read(len(TEXT)) == TEXT[4:] + b"plai"
    assert reader.read(10) == b"n", "the end of the stream"


def test_a_command_goes_out_in_one_frame_that_is_not_packed() -> None:
    class Under:
        sent = b""

        def sendall(self, data: bytes) -> None:
            self.sent += data

    under = Under()
    _CompressedSocket(under).sendall(b"\x01\x00\x00\x00\x0e")
    assert under.sent == b"\x05\x00\x00\x00\x00\x00\x00" + b"\x01\x00\x00\x00\x0e"


def test_a_clients_context_allows_one_version() -> None:
    context = tls_context(ClientTls("required", versions=("1.2",), ciphers=("ECDHE-RSA-AES128-GCM-SHA256",)))
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    assert "ECDHE-RSA-AES128-GCM-SHA256" in [cipher["name"] for cipher in context.get_ciphers()]
    assert context.verify_mode == ssl.CERT_NONE
    assert tls_context(ClientTls("verify_ca")).verify_mode == ssl.CERT_REQUIRED
    assert tls_context(ClientTls("verify_identity")).check_hostname
