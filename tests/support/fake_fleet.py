"""Host groups without hosts: each executes blocks inside this process, on fake servers, and fails as it is told."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mydyno.cli import exit_code_of
from mydyno.errors import HostError, MydynoError
from mydyno.evaluation.facts import Precision
from mydyno.execution.environments.environment import Opener
from mydyno.execution.interleaved.order import BlockOrder
from mydyno.execution.interleaved.study_time import StudyTime
from mydyno.execution.study_record import Request
from mydyno.fleet.block import execute_block, prepare_host
from mydyno.fleet.controller import run_on_groups
from mydyno.fleet.installation import Say
from mydyno.fleet.study_files import FOLDER, StudyFiles
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.host_groups import HostGroup
from mydyno.model.stored.summary import Summary
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_script import experiment


@dataclass
class Mishaps:
    """What goes wrong on one group."""

    unreachable: bool = False
    loses_block: Callable[[int], bool] = lambda _block: False
    """Whether the connection ends while this block is executed."""
    refuses_block: str = ""
    """Why `mydyno block` ends with exit code 3."""
    damages_copy: bool = False
    before_prepare: Callable[[str], Any] = lambda _study: None
    """Receives the study's name when the host is about to be prepared for it."""
    before_block: Callable[[int], Any] = lambda _block: None
    """Awaited if it is awaitable, when the block begins on the host."""


@dataclass
class FakeProcess:
    """`mydyno block`, as a task of this process."""

    link: FakeLink
    arguments: list[str]
    stderr_tail: str = ""
    _lines: asyncio.Queue[str | HostError | None] = field(default_factory=asyncio.Queue)
    _code: int | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        if self.arguments == ["clean"]:
            self.link.cleanings += 1
            self._code = 0
            self._lines.put_nowait(None)
            return
        folder = Path(self.arguments[1])
        paths, opener, mishaps = self.link.paths, self.link.opener, self.link.mishaps

        def emit(message: Any) -> None:
            self._lines.put_nowait(message.model_dump_json())

        try:
            if "--prepare" in self.arguments:
                mishaps.before_prepare(folder.name)
                await prepare_host(StudyFolder.open(folder).study(), folder, paths, emit, opener)
            else:
                block = int(self.arguments[self.arguments.index("--block") + 1])
                self.link.began.append(block)
                if "--length" in self.arguments:
                    self.link.lengths_s.append(
                        float(self.arguments[self.arguments.index("--length") + 1].removesuffix("s"))
                    )
                waiting = mishaps.before_block(block)
                if waiting is not None:
                    await waiting
                if mishaps.loses_block(block):
                    self._lines.put_nowait(HostError("the SSH connection ended"))
                    return
                if mishaps.refuses_block:
                    raise HostError(mishaps.refuses_block)
                await execute_block(folder, BlockOrder(block), paths, emit, opener)
            self._code = 0
        except MydynoError as error:
            self._code, self.stderr_tail = int(exit_code_of(error)), f"mydyno: error: {error}"
        finally:
            self._lines.put_nowait(None)

    async def write(self, text: str) -> None:
        del text

    async def lines(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            if isinstance(line, HostError):
                raise line
            yield line

    def close_stdin(self) -> None:
        return None

    async def wait(self) -> int:
        await self._task
        assert self._code is not None
        return self._code

    async def end(self) -> None:
        self._task.cancel()


@dataclass
class FakeLink:
    """A group; its host's folder is below `root`."""

    group: HostGroup
    root: Path
    paths: HostPaths
    opener: Opener
    mishaps: Mishaps
    began: list[int] = field(default_factory=list)
    lengths_s: list[float] = field(default_factory=list)
    processes: list[FakeProcess] = field(default_factory=list)
    cleanings: int = 0
    """How often `mydyno clean` was started."""

    async def open(self) -> None:
        if self.mishaps.unreachable:
            raise HostError(f"{self.group.name}: no route to host")

    @property
    def connected(self) -> bool:
        return not self.mishaps.unreachable

    async def write_files(self, study: str, files: dict[str, str]) -> str:
        folder = self.root / study
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        return str(folder)

    async def copy_files(self, study: str, files: StudyFiles, say: Say) -> str | None:
        del say
        root = self.root / study / FOLDER
        for one in files.files:
            (root / one.name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(one.path, root / one.name)
        return str(root)

    async def start(self, arguments: Sequence[str]) -> FakeProcess:
        process = FakeProcess(self, list(arguments))
        self.processes.append(process)
        process.begin()
        return process

    async def fetch(self, folder: str, to: Path) -> None:
        shutil.copytree(folder, to)
        if self.mishaps.damages_copy:
            next(to.rglob("run.json")).write_text("{}")

    async def remove(self, study: str) -> None:
        await self.open()
        shutil.rmtree(self.root / study, ignore_errors=True)

    async def close(self) -> None:
        for process in self.processes:
            await process.end()


@dataclass
class FakeHosts:
    """Makes the links of a study's groups, and keeps them."""

    folder: Path
    paths: HostPaths
    opener: Opener
    mishaps: dict[str, Mishaps] = field(default_factory=dict)
    openers: dict[str, Opener] = field(default_factory=dict)
    """Groups whose servers are others than `opener`'s."""
    links: dict[str, FakeLink] = field(default_factory=dict)

    def __call__(self, group: HostGroup, _paths: HostPaths) -> FakeLink:
        root = self.folder / group.name
        own = replace(
            self.paths,
            cache=root / "cache",
            data=root / "data",
            study_lock_address=f"\0test-{self.folder}-{group.name}",
        )
        self.links[group.name] = FakeLink(
            group,
            root / "studies",
            own,
            self.openers.get(group.name, self.opener),
            self.mishaps.get(group.name, Mishaps()),
        )
        return self.links[group.name]


@dataclass
class FleetWatched:
    """Keeps what a fleet's study says."""

    said: list[str] = field(default_factory=list)
    leased: list[tuple[str, int]] = field(default_factory=list)
    committed: list[tuple[str, int]] = field(default_factory=list)
    lost: list[tuple[str, str, bool]] = field(default_factory=list)

    def kept_in(self, folder: Path) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)

    def group_says(self, group: str, text: str, lasting: bool) -> None:
        if lasting:
            self.said.append(f"{group}: {text}")

    def block_leased(self, group: str, block: int, of: int) -> None:
        self.leased.append((group, block))

    def block_committed(self, group: str, block: int, made: int, of: int, precision: Precision | None) -> None:
        self.committed.append((group, block))

    def group_lost(self, group: str, why: str, for_good: bool) -> None:
        self.lost.append((group, why, for_good))


def groups(*names: str) -> tuple[HostGroup, ...]:
    """With a server of its own for each."""
    return tuple(HostGroup(name=name, server=f"bench@{name}") for name in names)


def interleaved(blocks: int = 4, **design: object) -> Experiment:
    """Two arms, three cycles a block."""
    plain = {"kind": "interleaved", "blocks": blocks, "cycles": 3, "quiet_wait": 0, "slice": 2, "washout": 0.5}
    return experiment(("glibc", "jemalloc"), design={**plain, **design})


async def study(
    hosts: FakeHosts,
    paths: HostPaths,
    names: tuple[str, ...],
    asked: Experiment | None = None,
    timing: type[StudyTime] = StudyTime,
) -> tuple[StudyFolder, Summary, FleetWatched]:
    """A new one over groups of these names: (folder, summary, what its watcher saw)."""
    watcher = FleetWatched()
    studies = hosts.folder.parent / "studies"
    request = Request(asked or interleaved(), "name = 'fake'", studies, timing=timing)
    folder, summary = await run_on_groups(request, groups(*names), paths, watcher, hosts)  # type: ignore[arg-type]
    return folder, summary, watcher


def journal(folder: StudyFolder, event: str) -> list[dict[str, object]]:
    """The events of one kind in the study's journal."""
    return [one for one in folder.journal.read() if one["event"] == event]
