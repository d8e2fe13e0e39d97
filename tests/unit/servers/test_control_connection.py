"""The control connection: closed even where its user is cancelled while it is being made."""

from __future__ import annotations

import asyncio
import gc
import struct
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mydyno.errors import HostError, ServerError
from mydyno.servers.sql import Address, Control
from tests.support.patience import HANG_S


class FakeConnection:
    """Counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def close(self) -> None:
        self.closed.set()


async def test_a_connection_that_is_made_after_its_user_was_cancelled_is_closed() -> None:
    connection, begun, go_on = FakeConnection(), threading.Event(), threading.Event()

    class Slow(Control):
        def _connect(self) -> Any:
            begun.set()
            assert go_on.wait(HANG_S)
            return connection

    user = asyncio.ensure_future(Slow(Address(user="dyno", password=b"x", socket="/nowhere")).__aenter__())
    await asyncio.to_thread(begun.wait, HANG_S)
    user.cancel()
    with pytest.raises(asyncio.CancelledError):
        await user
    assert not connection.closed.is_set()
    go_on.set()
    await asyncio.wait_for(connection.closed.wait(), HANG_S)


async def test_a_connection_that_fails_leaves_no_socket_to_the_garbage_collector(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ResourceWarning)
        with pytest.raises(ServerError, match="No such file or directory"):
            await Control(Address(user="dyno", password=b"x", socket=str(tmp_path / "missing.sock"))).__aenter__()
        gc.collect()
    assert [str(warning.message) for warning in found] == []


GREETING = (
    b"\x0a10.11.6-MariaDB\0" + struct.pack("<I", 7) + b"saltsalt\0" + struct.pack("<HBHH", 0xF7FF, 33, 2, 0x1F)
    + b"\x15" + bytes(10) + b"saltsaltsalt\0" + b"mysql_native_password\0"
)  # fmt: skip

COLUMN = b"\x03def\0\x01t\x01t\x01a\x01a\x0c\x21\0\x64\0\0\0\xfd\0\0\0\0\0"
END, OK = b"\xfe\0\0\x02\0", b"\0\0\0\x02\0\0\0"


def packet(number: int, payload: bytes) -> bytes:
    return struct.pack("<I", len(payload))[:3] + bytes([number]) + payload


async def error_from(server_bytes: list[bytes], folder: Path) -> str:
    """What a control connection says of a server that sends these bytes, each after something of the client's."""
    path = str(folder / "s.sock")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for one in server_bytes:
            writer.write(one)
            await reader.read(4096)
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        with pytest.raises((HostError, ServerError)) as raised:
            await Control(Address(user="dyno", password=b"x", socket=path), timeout_s=HANG_S).__aenter__()
    assert isinstance(raised.value, HostError) == (len(server_bytes) > 1)
    return str(raised.value)


@pytest.mark.parametrize(
    "plugin", ["client_ed25519", "parsec", "mysql_clear_password", "mysql_old_password", "dialog", "auth_gssapi_client"]
)
async def test_an_account_whose_plug_in_no_part_has_is_refused_by_its_name(plugin: str, tmp_path: Path) -> None:
    switch = packet(2, b"\xfe" + plugin.encode() + b"\0" + bytes(32))
    words = await error_from([packet(0, GREETING), switch], tmp_path)
    assert words.startswith(f"the account uses the authentication plug-in {plugin}, which mydyno does not have\n")
    assert "use an account with mysql_native_password or caching_sha2_password" in words


@pytest.mark.parametrize(
    "first_bytes",
    [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", packet(0, b"\x0a"), packet(0, b"\x0a8.0\0")],
)
async def test_what_is_no_mysql_server_is_one_line(first_bytes: bytes, tmp_path: Path) -> None:
    words = await error_from([first_bytes], tmp_path)
    assert words.startswith("control connection: ")
    assert "b'" not in words
    assert "\n" not in words


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([b"\x01", COLUMN, END], "an answer of more than 64 MiB"),
        ([b"\xff\x7a\x04#42S02near\r\n" + b"E" * 100_000], "1146 near E"),
    ],
)
async def test_an_answer_without_end_is_not_kept(answer: list[bytes], words: str, tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    rows = b"".join(packet((number + len(answer) + 1) % 256, b"\xfc\x60\xea" + b"x" * 60_000) for number in range(256))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            for one in (packet(0, GREETING), packet(2, OK), packet(1, OK)):
                writer.write(one)
                await reader.read(4096)
            writer.write(b"".join(packet(number, one) for number, one in enumerate(answer, 1)))
            while len(answer) > 1:
                writer.write(rows)
                await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        with pytest.raises(ServerError, match=words) as raised:
            await Control(Address(user="dyno", password=b"x", socket=path), timeout_s=HANG_S).__aenter__()
    assert len(str(raised.value)) < 2200
    assert "\n" not in str(raised.value)
