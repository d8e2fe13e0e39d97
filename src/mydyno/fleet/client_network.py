"""`mydyno client-network`: shapes and times the network of this host for a block on another host, until its input ends.

However it ends, everything is undone; after kill -9 by the next one on this host, or by `mydyno clean`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from mydyno.errors import MydynoError
from mydyno.fleet.messages import SILENCE_S
from mydyno.fleet.network_messages import NetworkAnswer, parse_request
from mydyno.hosts.network.load_end import LoadEnd, OwnLoadEnd, PortShaping
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal, clean_up

NAME = "client-network"
"""Name of the undo journal of this program."""
Write = Callable[[str], None]


async def serve_block(paths: HostPaths, write: Write, silence_s: float = SILENCE_S) -> list[str]:
    """Answer requests until standard input ends or is silent for too long; returns what could not be undone."""
    clean_up(paths.undo, lambda text: print(text, file=sys.stderr))
    undo = UndoJournal.begin(paths.undo, NAME, paths.undo)
    try:
        await _serve(OwnLoadEnd(PortShaping(undo)), write, silence_s)
    finally:
        left = await asyncio.to_thread(undo.undo_all)
    return left


async def _serve(end: LoadEnd, write: Write, silence_s: float) -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    )
    try:
        while line := await asyncio.wait_for(reader.readline(), silence_s):
            if line.strip():  # a heartbeat is empty
                write((await answer(end, line.decode())).model_dump_json())
    except TimeoutError:
        return
    finally:
        transport.close()


async def answer(end: LoadEnd, line: str) -> NetworkAnswer:
    """The answer to one request; whatever goes wrong is part of it."""
    try:
        return NetworkAnswer(result=await parse_request(line).perform(end))
    except MydynoError as error:
        return NetworkAnswer(error=error.message, hint=error.hint or "")
    except ValueError as error:
        return NetworkAnswer(error=f"not a request of this version: {error}")
