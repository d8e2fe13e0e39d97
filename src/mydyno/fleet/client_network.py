"""`mydyno client-network`: shapes and times the network of this host for a block on another host, until its input ends.

Its requests and answers are JSON lines, in order. However it ends, everything is undone; after kill -9 by the next one
on this host, or by `mydyno clean`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter

from mydyno.errors import MydynoError
from mydyno.fleet.messages import SILENCE_S
from mydyno.hosts.network.load_end import LoadEnd, OwnLoadEnd, PortShaping
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal, clean_up
from mydyno.model.definition.experiment import Frozen

NetworkMethod = Literal["examine", "shape", "state", "unshape", "transfer", "reach"]
"""The methods of LoadEnd."""


class NetworkRequest(Frozen):
    """A call of a method of LoadEnd."""

    method: NetworkMethod
    arguments: dict[str, Any]


class NetworkAnswer(Frozen):
    """The answer to one request; answers come in the order of the requests."""

    result: Any = None
    error: str = ""
    """Empty if it was done."""
    hint: str = ""


@cache
def types_of(method: str) -> dict[str, TypeAdapter[Any]]:
    """{argument: its type} of a method of LoadEnd, and "return"."""
    return {name: TypeAdapter(kind) for name, kind in get_type_hints(getattr(LoadEnd, method)).items()}


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
        request = NetworkRequest.model_validate_json(line)
        types = types_of(request.method)
        given = {name: types[name].validate_python(value) for name, value in request.arguments.items()}
    except (KeyError, ValueError) as error:
        return NetworkAnswer(error=f"not a request of this version: {error}")
    try:
        found = await getattr(end, request.method)(**given)
    except MydynoError as error:
        return NetworkAnswer(error=error.message, hint=error.hint or "")
    except (TypeError, ValueError) as error:  # without an argument, or output of a program that cannot be read
        return NetworkAnswer(error=f"{request.method}: {error}")
    return NetworkAnswer(result=types["return"].dump_python(found, mode="json"))
