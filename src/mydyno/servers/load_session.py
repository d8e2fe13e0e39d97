"""One session on the load's own path (namespace, TLS, compression), for reading what the server negotiated.

PyMySQL speaks TLS but not the compressed protocol; the frames of that are put under it here. A client may send frames
that are not compressed, so only what comes in is ever unpacked.
"""

from __future__ import annotations

import socket
import ssl
import struct
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow
import pymysql
from pymysql.constants import CLIENT

from mydyno.errors import ServerError
from mydyno.hosts.namespace import inside
from mydyno.servers.sql import Address, ClientTls, Control

ZSTD_FLAG = 1 << 26
"""CLIENT_ZSTD_COMPRESSION_ALGORITHM of MySQL >= 8.0.18."""
FRAME_HEADER_BYTES = 7
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class LoadSession(Control):
    """Like Control, but by the load's account and path. Use as an async context manager."""

    def __init__(self, address: Address, timeout_s: float = 30.0, context: ssl.SSLContext | None = None) -> None:
        super().__init__(address, timeout_s)
        self._context = context
        """None: one made from the address."""

    def _connect(self) -> pymysql.connections.Connection[pymysql.cursors.Cursor]:
        address = self._address
        algorithm, _, level = address.compression.partition(":")
        try:
            connection = _Connection(
                algorithm,
                int(level or 3),
                user=address.user,
                password=address.password,
                host=address.host,
                port=address.port,
                database=address.database or None,
                read_timeout=self._timeout_s,
                charset="utf8",
                autocommit=True,
                defer_connect=True,
                client_flag={"zlib": CLIENT.COMPRESS, "zstd": ZSTD_FLAG}.get(algorithm, 0),
                **_tls(address, self._context),
            )
            connection.connect(self._socket())
        except (pymysql.MySQLError, OSError) as error:
            raise ServerError(f"a session on the load's path: {error}") from error
        return connection

    def _socket(self) -> socket.socket:
        address = self._address
        if address.socket is not None:
            found = socket.socket(socket.AF_UNIX)
            found.connect(address.socket)
            return found
        return inside(
            address.namespace, lambda: socket.create_connection((address.host, address.port), self._timeout_s)
        )

    def raw_socket(self) -> socket.socket:
        """The connection's socket, for one who goes on in the protocol by himself; the session is then spent."""
        assert self._connection is not None
        found: socket.socket = self._connection._sock  # type: ignore[attr-defined]  # the stubs leave it out
        return found

    async def session_status(self, *names: str) -> dict[str, str]:
        """SHOW SESSION STATUS of these names; what the server does not have is absent."""
        found = {}
        for name in names:
            for key, value in await self.rows("SHOW SESSION STATUS LIKE %s", name):
                found[str(key)] = str(value)
        return found


def _tls(address: Address, context: ssl.SSLContext | None) -> dict[str, Any]:
    tls = address.tls
    if tls is None or tls.mode == "disabled":
        return {"ssl_disabled": True}
    return {"ssl": context or tls_context(tls)}


def tls_context(tls: ClientTls) -> ssl.SSLContext:
    """A client's context with these limits. Suites of TLS 1.3 are left to the server: Python cannot choose them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    limit_context(context, tls)
    return context


def limit_context(context: ssl.SSLContext, tls: ClientTls) -> None:
    """Set these limits on a client's context."""
    context.check_hostname = tls.mode == "verify_identity"
    context.verify_mode = ssl.CERT_NONE if tls.mode == "required" else ssl.CERT_REQUIRED
    if tls.authority is not None:
        context.load_verify_locations(tls.authority)
    if tls.versions:
        context.minimum_version = VERSIONS[min(tls.versions)]
        context.maximum_version = VERSIONS[max(tls.versions)]
    if tls.ciphers and "1.2" in tls.versions:
        context.set_ciphers(":".join(tls.ciphers))


if TYPE_CHECKING:
    _PlainConnection = pymysql.connections.Connection[pymysql.cursors.Cursor]
else:
    _PlainConnection = pymysql.connections.Connection  # generic in the stubs alone


class _Connection(_PlainConnection):
    """PyMySQL's connection, with the compressed protocol where it is asked for."""

    def __init__(self, algorithm: str, level: int, **arguments: Any) -> None:
        self._algorithm = algorithm
        self._level = level
        self._authenticating = False
        super().__init__(**arguments)

    def _request_authentication(self) -> None:
        flag = {"zlib": CLIENT.COMPRESS, "zstd": ZSTD_FLAG}.get(self._algorithm, 0)
        if flag and not self.server_capabilities & flag:  # type: ignore[attr-defined]  # the stubs leave it out
            raise pymysql.err.OperationalError(2000, f"the server does not offer {self._algorithm} compression")
        self._authenticating = self._algorithm == "zstd"
        super()._request_authentication()  # type: ignore[misc]  # the stubs leave it out
        if flag:
            # The stubs know neither; PyMySQL reads by the one and writes by the other.
            self._rfile: Any = CompressedReader(self._rfile, self._algorithm)
            self._sock: Any = _CompressedSocket(self._sock)

    def write_packet(self, payload: bytes) -> None:
        """As PyMySQL does it; the handshake's response gets zstd's level behind it."""
        if self._authenticating and len(payload) > 32:  # not the request for TLS, which has 32 bytes
            self._authenticating = False
            payload += bytes([self._level])
        super().write_packet(payload)


class _CompressedSocket:
    """Puts each command in one frame that is not compressed."""

    def __init__(self, under: Any) -> None:
        self._under = under

    def sendall(self, data: bytes) -> None:
        # Every command begins a new count of frames, and one frame is enough for what is sent here.
        self._under.sendall(struct.pack("<I", len(data))[:3] + b"\0" + b"\0\0\0" + data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._under, name)


class CompressedReader:
    """Unpacks frames: 3 bytes length, 1 number, 3 length unpacked (0: not packed), then the data."""

    def __init__(self, under: Any, algorithm: str) -> None:
        self._under = under
        self._algorithm = algorithm
        self._plain = b""

    def read(self, count: int) -> bytes:
        """So many bytes, or fewer where the connection ends."""
        while len(self._plain) < count:
            header = self._under.read(FRAME_HEADER_BYTES)
            if len(header) < FRAME_HEADER_BYTES:
                break
            length = int.from_bytes(header[:3], "little")
            unpacked = int.from_bytes(header[4:7], "little")
            data = self._under.read(length)
            self._plain += self._unpack(data, unpacked) if unpacked else data
        found, self._plain = self._plain[:count], self._plain[count:]
        return found

    def _unpack(self, data: bytes, size: int) -> bytes:
        if self._algorithm == "zlib":
            return zlib.decompress(data, bufsize=size)
        return bytes(pyarrow.Codec("zstd").decompress(data, decompressed_size=size, asbytes=True))

    def close(self) -> None:
        """Close what is below."""
        self._under.close()
