"""What the controller does with one host group: prepare it, have it execute blocks, fetch and check the results."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from mydyno.errors import HostError, UserError
from mydyno.execution.interleaved.order import BlockOrder
from mydyno.fleet.cluster import GroupLostError
from mydyno.fleet.links import CLEAN_TIMEOUT_S, ClientHosts, HostLink, HostProcess, undo_left
from mydyno.fleet.messages import (
    HEARTBEAT_S,
    SILENCE_S,
    AnyMessage,
    Closed,
    Finished,
    Lived,
    Opened,
    Prepared,
    Progressed,
    Said,
    Sent,
    manifest,
    parse_message,
)
from mydyno.fleet.study_files import StudyFiles, on_host
from mydyno.model.definition.host_groups import LoadHosts
from mydyno.model.definition.plan import Plan
from mydyno.model.stored.live import LiveSecond
from mydyno.model.stored.records import StudyRecord

MOST_SILENCE_S = 900.0
"""Without any line of a block but its state: servers that start, or data that is made, may take minutes."""
LATE_FACTOR, LATE_S = 3.0, 600.0
"""A block that takes longer than so many times its length, and so much more, counts as lost."""

SENT = '"sent"'


class Report(Protocol):
    """Receives what a group says of itself."""

    def group_says(self, group: str, text: str, lasting: bool) -> None:
        """A line to keep (lasting), or what is under way now."""

    def group_second(self, group: str, second: LiveSecond) -> None:
        """What its block does in this second."""


Result = TypeVar("Result", Prepared, Finished)


class GroupUnfitError(GroupLostError):
    """The host cannot execute blocks of this study at all; it is not retried."""


class GroupRunner:
    """One host group."""

    def __init__(
        self,
        name: str,
        link: HostLink,
        report: Report,
        load_hosts: LoadHosts | None = None,
        clients: ClientHosts | None = None,
        files: StudyFiles | None = None,
        data: str | None = None,
    ) -> None:
        """`load_hosts` and `clients`: where the load runs; None: on the server's host. `files`: of the experiment.

        `data`: the folder of data on the server's host; None: as the host's environment sets it.
        """
        self.name = name
        self._link = link
        self._report = report
        self._load_hosts = load_hosts
        self._clients = clients or ClientHosts({})
        self._files = files or StudyFiles()
        self._data = data
        self._there: dict[str, str] | None = None
        """What the experiment calls a file → its path on the server's host; None: not copied since the connection."""

    async def open(self) -> None:
        """Connect, or connect again. Raises GroupLostError."""
        self._there = None
        with _losing():
            await asyncio.gather(self._link.open(), self._clients.open())

    async def prepare(self, study: StudyRecord) -> Prepared:
        """Fetch servers and make data on the host. Raises GroupLostError, GroupUnfitError, UserError."""
        folder = await self._push(study, None)
        found = await self._ask(["block", folder, "--prepare", *self._group_arguments], Prepared, None)
        here = {path: called for called, path in (self._there or {}).items()}
        return found.model_copy(
            update={"versions": {here.get(name, name): version for name, version in found.versions.items()}}
        )

    async def execute(self, study: StudyRecord, plan: Plan, order: BlockOrder, aside: Path) -> Finished:
        """Have a block executed, and fetch its folder into `aside`, every file checked against its hash.

        Raises GroupLostError, GroupUnfitError, UserError.
        """
        folder = await self._push(study, plan)
        arguments = ["block", folder, "--block", str(order.block), *self._group_arguments]
        if order.length_s is not None:
            arguments += ["--length", f"{order.length_s:.0f}s"]
        if order.washout_s is not None:
            arguments += ["--washout", f"{order.washout_s * 1000:.0f}ms"]
        for arm in sorted(order.skipped_arms):
            arguments += ["--skip-arm", arm]
        limit_s = None if order.length_s is None else LATE_FACTOR * order.length_s + LATE_S
        finished = await self._ask(arguments, Finished, limit_s)
        if finished.block != order.block:
            raise GroupLostError(f"the host executed block {finished.block} instead of {order.block}")
        with _losing():
            await self._link.fetch(f"{folder}/blocks/{order.block:02d}", aside)
        found = await asyncio.to_thread(manifest, aside)
        if found != finished.files:
            shutil.rmtree(aside, ignore_errors=True)
            wrong = sorted(set(found.items()) ^ set(finished.files.items()))
            raise GroupLostError(f"the copy of block {order.block} is damaged: {wrong[0][0]}")
        return finished

    async def undo_left(self) -> None:
        """Undo what killed programs left on this group's hosts; connects if need be. Raises GroupLostError."""
        with _losing():
            if not (self._link.connected and self._clients.connected):
                await self.open()
            await asyncio.gather(undo_left(self._link), self._clients.undo_left())

    async def clean(self, study: str, was_lost: bool = False) -> None:
        """Remove the study's folder on the host, and (`was_lost`) what else it may have left. Raises GroupLostError."""
        try:
            with _losing():
                async with asyncio.timeout(CLEAN_TIMEOUT_S):
                    if was_lost:
                        await self.undo_left()
                    await self._link.remove(study)
                    await self._clients.remove(study)
        except TimeoutError:
            raise GroupLostError(f"no answer within {CLEAN_TIMEOUT_S:.0f} s") from None

    async def close(self) -> None:
        """Disconnect; what runs on the hosts ends and undoes its changes."""
        await self._link.close()
        await self._clients.close()

    @property
    def _group_arguments(self) -> list[str]:
        data = [] if self._data is None else [f"--data={self._data}"]
        load = self._load_hosts
        if load is None:
            return data
        return [*data, f"--listen={load.address}", *(f"--load-host={name}" for name in load.names)]

    async def _push(self, study: StudyRecord, plan: Plan | None) -> str:
        with _losing():
            if self._there is None:
                await self._copy_files(study.study)
            record = on_host(study, self._there or {})
            files = {"study.json": record.model_dump_json(by_alias=True, indent=1)}
            if plan is not None:
                files["plan.json"] = plan.model_dump_json(by_alias=True, indent=1)
            return await self._link.write_files(study.study, files)

    async def _copy_files(self, study: str) -> None:
        def say(text: str) -> None:
            self._report.group_says(self.name, text, False)

        root = await self._link.copy_files(study, self._files, say)
        await self._clients.copy_files(study, self._files, say)
        self._there = {} if root is None else self._files.at(root)

    async def _ask(self, arguments: Sequence[str], kind: type[Result], limit_s: float | None) -> Result:
        """Run `mydyno` on the host to its end, and return its last message."""
        with _losing():
            process = await self._link.start([*arguments, "--heartbeat", f"{SILENCE_S:.0f}s"])
        heart = asyncio.create_task(_beat(process))
        session = self._clients.session(process)
        result: Result | None = None
        try:
            with _losing():
                async with asyncio.timeout(limit_s):
                    lines = process.lines()
                    heard_s = time.monotonic()
                    while True:
                        try:
                            line = await asyncio.wait_for(anext(lines), heard_s + MOST_SILENCE_S - time.monotonic())
                        except StopAsyncIteration:
                            break
                        message = self._read(line)
                        if not isinstance(message, Lived):  # they come from a block that hangs, too
                            heard_s = time.monotonic()
                        if isinstance(message, kind):
                            result = message
                        elif isinstance(message, Opened | Sent | Closed):
                            await session.take(message)
                    code = await process.wait()
        except TimeoutError:
            await process.end()
            raise GroupLostError(f"no answer in time: {' '.join(arguments[2:])}") from None
        finally:
            heart.cancel()
            await session.close()
        if session.lost:
            raise GroupLostError(session.lost)
        if code == 0 and result is not None:
            return result
        raise _failure(code, process.stderr_tail)

    def _read(self, line: str) -> AnyMessage | None:
        """A message of the block; what is one for a person is reported."""
        try:
            message = parse_message(line)
        except ValueError:
            # A damaged line for a client host may have a password.
            self._report.group_says(self.name, "a line that is no message" if SENT in line else line[:500], True)
            return None
        if isinstance(message, Said | Progressed):
            self._report.group_says(self.name, message.text, isinstance(message, Said))
        elif isinstance(message, Lived):
            self._report.group_second(self.name, message.second)
        return message


@contextmanager
def _losing() -> Iterator[None]:
    """An error of a host loses its group."""
    try:
        yield
    except HostError as error:
        raise GroupLostError(f"{error.message} ({error.hint})" if error.hint else error.message) from error


def _failure(code: int, tail: str) -> Exception:
    words = tail.strip().removeprefix("mydyno: error: ") or f"mydyno block ended with exit code {code}"
    if code == 2:
        return UserError(words)
    if code == 3:
        return GroupUnfitError(words)
    return GroupLostError(words)


async def _beat(process: HostProcess) -> None:
    """Tell the block that its controller lives."""
    with suppress(HostError):
        while True:
            await process.write("\n")
            await asyncio.sleep(HEARTBEAT_S)
