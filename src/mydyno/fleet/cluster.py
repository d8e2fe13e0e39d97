"""Host groups as workers of Dask distributed, all inside this process: it decides which group executes which block.

Dask's state is not kept: what is to do is rebuilt from the plan and the journal. A group that is lost has its worker
closed, so that Dask runs its block elsewhere (an exception would leave a worker that takes the next blocks too). Blocks
in flight never exceed the groups that live: Dask assigns eagerly, and with few blocks stealing does not help.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from mydyno.errors import StudyError
from mydyno.hosts.root import HERE

MOST_WAITING_S = 900.0
"""Without any live group, for those that may return."""
Work = Callable[[str, int], Awaitable[Any]]
"""(group, block) → result. Raises GroupLostError where another group must take the block."""

SETTINGS: dict[str, Any] = {
    "distributed.admin.tick.interval": "60s",
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.scheduler.allowed-failures": 1_000_000,  # attempts are counted in the journal
    "distributed.scheduler.idle-timeout": None,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.worker-ttl": None,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
}
SCRATCH = "mydyno-fleet-"
"""Beginning of the names of folders for Dask's lock files; the controller's process ID follows."""
_works: dict[int, tuple[Work, dict[int, Any], asyncio.Event]] = {}
"""Cluster → its work, the results, and what is set when groups change: Dask sends functions by name, and these hold
connections. A worker that is closed takes results with it that were not fetched yet, and Dask would have their blocks
executed again."""
_numbers = itertools.count(1)


class GroupLostError(Exception):
    """A group takes no more blocks: connection lost, host full, version wrong, too many failures."""


def _remove_scratch_of_killed_controllers(folder: Path) -> None:
    for path in folder.glob(f"{SCRATCH}*-*"):
        process = path.name.removeprefix(SCRATCH).partition("-")[0]
        if process.isdigit() and not (HERE.proc / process).exists():
            shutil.rmtree(path, ignore_errors=True)


async def _execute(cluster: int, block: int) -> Any:
    """Runs inside of a group's worker."""
    from distributed import get_worker

    worker = get_worker()
    work, results, changed = _works[cluster]
    try:
        if block not in results:
            results[block] = await work(str(worker.name), block)
        return results[block]
    except GroupLostError:
        closing = asyncio.ensure_future(worker.close(reason="the host group is lost"))
        closing.add_done_callback(lambda _: changed.set())
        await asyncio.shield(closing)
        await asyncio.Event().wait()  # until the closed worker cancels this task
        raise


class Cluster:
    """An async context manager around scheduler, client and one worker for each group."""

    def __init__(
        self,
        groups: Collection[str],
        work: Work,
        returning: Callable[[], Collection[str]] = tuple,
        say: Callable[[str], None] = lambda _: None,
        study: Path = Path(),
        *,
        most_waiting_s: float | None = None,
        scratch: Path | None = None,
    ) -> None:
        """`returning`: the lost groups that may be back, by add(). `say`: receives that they are waited for.

        `study`: the study's folder, for messages. `most_waiting_s`: MOST_WAITING_S. `scratch`: for Dask's lock files.
        """
        self._most_waiting_s = MOST_WAITING_S if most_waiting_s is None else most_waiting_s
        self._scratch = scratch or Path(tempfile.gettempdir())
        self._study = study
        self._returning = returning
        self._say = say
        self._lonely_since_s: float | None = None
        """Since when no group is live."""
        self._number = next(_numbers)
        self._changed = asyncio.Event()
        _works[self._number] = (work, {}, self._changed)
        self._names = list(groups)
        self._workers: dict[str, Any] = {}
        self._scheduler: Any = None
        self._client: Any = None
        self._stack = ExitStack()

    @property
    def live(self) -> list[str]:
        """Groups that take blocks."""
        return [name for name, worker in self._workers.items() if worker.status.name == "running"]

    async def __aenter__(self) -> Cluster:
        import dask
        from distributed import Client

        # Dask is slow to load.
        from mydyno.fleet.dask_nodes import QuietScheduler

        for name in ("distributed", "distributed.worker", "distributed.scheduler", "distributed.core"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        _remove_scratch_of_killed_controllers(self._scratch)
        making = tempfile.TemporaryDirectory(prefix=f"{SCRATCH}{os.getpid()}-", dir=self._scratch)
        scratch = self._stack.enter_context(making)
        self._stack.enter_context(dask.config.set({**SETTINGS, "temporary-directory": scratch}))
        with warnings.catch_warnings():
            # Without a network there is no address to name this process by; nothing uses it.
            warnings.filterwarnings("ignore", "Couldn't detect a suitable IP address", RuntimeWarning)
            # Said of a busy host.
            warnings.filterwarnings("ignore", "Creating scratch directories is taking", UserWarning)
            self._scheduler = await QuietScheduler(protocol="inproc://", dashboard=False, validate=False)
            for name in self._names:
                await self.add(name)
        self._client = await Client(  # type: ignore[no-untyped-call]
            self._scheduler.address, asynchronous=True, set_as_default=False
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del _works[self._number]
        with suppress(Exception):
            await self._client.close()
        for worker in self._workers.values():
            with suppress(Exception):
                await worker.close(reason="the study has ended")
        with suppress(Exception):
            await self._scheduler.close()
        self._stack.close()

    async def add(self, name: str) -> None:
        """Let a group take blocks: at the start, or when a lost one is back."""
        # Dask is slow to load.
        from mydyno.fleet.dask_nodes import QuietWorker

        if name in self._workers:  # the scheduler accepts a name once
            await self._workers[name].close(reason="the host group is lost")
        self._workers[name] = await QuietWorker(
            self._scheduler.address,
            name=name,
            nthreads=1,
            protocol="inproc://",
            memory_limit=0,
            dashboard=False,
        )
        self._changed.set()

    async def map(self, blocks: Iterable[int]) -> AsyncIterator[tuple[int, Any]]:
        """(block, result) as they end. Raises StudyError when no group is left, and what the work raises.

        While no group is live, those that may return are waited for, for a limited time.
        """
        waiting = list(blocks)
        waiting.reverse()
        flying: dict[asyncio.Future[Any], tuple[int, Any]] = {}
        try:
            while waiting or flying:
                while waiting and len(flying) < len(self.live):
                    block = waiting.pop()
                    future = self._client.submit(
                        _execute, self._number, block, key=f"block-{block}-{next(_numbers)}", pure=False
                    )
                    flying[asyncio.ensure_future(_result(future))] = (block, future)
                self._check_live()
                self._changed.clear()
                changed = asyncio.ensure_future(self._changed.wait())
                done, _ = await asyncio.wait([*flying, changed], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                for ended in done - {changed}:
                    block, _ = flying.pop(ended)
                    yield block, ended.result()
        finally:
            for ended, (_, future) in flying.items():
                ended.cancel()
                with suppress(Exception):
                    await future.cancel()

    def _check_live(self) -> None:
        """Raises StudyError if there is no live group, and none that is still to be waited for."""
        if self.live:
            self._lonely_since_s = None
            return
        returning = self._returning()
        if self._lonely_since_s is None and returning:
            names = ", ".join(sorted(returning))
            self._say(f"no host group is left: waiting up to {self._most_waiting_s / 60:.0f} min for {names}")
        now_s = time.monotonic()
        self._lonely_since_s = self._lonely_since_s or now_s
        if not returning or now_s - self._lonely_since_s >= self._most_waiting_s:
            raise StudyError(
                "every host group is lost; finished blocks are kept",
                f"when the hosts are back, run: mydyno resume {self._study}",
            )


async def _result(future: Any) -> Any:
    return await future
