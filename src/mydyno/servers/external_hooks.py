"""Commands of the user that restore and restart an external server before a run, here or on the server's host.

A command's whole output is kept in the run's folder (hooks.log). A command that fails, or a server that does not
answer, ends the study: every further run would meet the same. That a restart was one is read from the server's Uptime.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mydyno.errors import HostError, ServerError
from mydyno.hosts.commands import report_start
from mydyno.hosts.local import Completed
from mydyno.model.definition.experiment import HooksSpec
from mydyno.servers.sql import Address, Control

LOG = "hooks.log"
SHOWN_CHARACTERS = 500
POLL_S = 0.2
UPTIME_SLACK_S = 2.0
"""Uptime counts whole seconds."""


class Runner(Protocol):
    """The host on which commands run."""

    async def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """Run a command to its end; exit code 124: it took too long."""


class UserCommands:
    """Commands of the user on this host: a server that they start is the user's, and is left alone at the end."""

    async def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """Run a command until it ends itself, whatever programs it leaves."""
        started = report_start(argv)
        with tempfile.TemporaryFile() as output:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            try:
                code = await asyncio.wait_for(process.wait(), timeout_s)
            except TimeoutError:
                code = 124
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
            started.ended(code)
            output.seek(0)
            return Completed(tuple(argv), code, output.read().decode(errors="replace"))


@dataclass(frozen=True)
class ExternalHooks:
    """The hooks of a study."""

    spec: HooksSpec
    host: Runner
    where: str
    """Where the commands run, for messages: "this host" or user@host."""
    address: Address

    async def before_run(self, folder: Path) -> None:
        """Restore, then restart. Raises HostError with the command and the end of its output."""
        if self.spec.restore is not None:
            await self._command("restore", self.spec.restore, folder)
        if self.spec.restart is not None:
            began_s = time.monotonic()
            await self._command("restart", self.spec.restart, folder)
            await self._await_new_server(began_s)

    async def _command(self, name: str, command: str, folder: Path) -> None:
        began_s = time.monotonic()
        done = await self.host.run(["sh", "-c", command], timeout_s=self.spec.timeout)
        took_s = time.monotonic() - began_s
        with (folder / LOG).open("a") as log:
            log.write(f"== {name} on {self.where}: {command}\n{done.output}\n")
            log.write(f"== exit code {done.exit_code} after {took_s:.1f} s\n")
        if done.exit_code == 124 and took_s >= self.spec.timeout:
            raise HostError(
                f"server.hooks.{name} was not finished after {self.spec.timeout:g} s on {self.where}: {command}",
                "raise server.hooks.timeout, or see why it waits",
            )
        if done.exit_code:
            words = done.output.strip()[-SHOWN_CHARACTERS:] or "it printed nothing"
            raise HostError(
                f"server.hooks.{name} failed with exit code {done.exit_code} on {self.where}: {command}\n  {words}",
                f"its whole output is in {folder / LOG}",
            )

    async def _await_new_server(self, began_s: float) -> None:
        deadline_s = time.monotonic() + self.spec.timeout
        last = ""
        while True:
            try:
                async with Control(self.address, timeout_s=10) as control:
                    uptime_s = float((await control.status()).get("Uptime", 0.0))
                break
            except ServerError as error:
                last = error.message
            if time.monotonic() > deadline_s:
                raise HostError(
                    f"the server does not answer {self.spec.timeout:g} s after server.hooks.restart: {last}",
                    "see its error log on its host",
                )
            await asyncio.sleep(POLL_S)
        since_s = time.monotonic() - began_s
        if uptime_s > since_s + UPTIME_SLACK_S:
            raise HostError(
                f"server.hooks.restart did not restart the server: it has been up for {uptime_s:.0f} s, the command "
                f"began {since_s:.0f} s ago",
                "is it the server of server.dsn that the command restarts?",
            )
