"""One build: checked out, built by the user's command, recognised, and put into the cache whole or not at all.

The command is executed as mydyno's own user, in a session of its own; it ends with mydyno, also by kill -9.

Of its output, which may be gigabytes, the log keeps the beginning and the end; a line between them states how many
bytes were omitted.

The builds in the cache are got, listed and removed by name.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten

from pydantic import ValidationError

from mydyno.errors import BuildError, HostError, UserError
from mydyno.files.atomic import locked, made_once, write_text
from mydyno.files.tree import end_of
from mydyno.hosts.limits import whole_cpus
from mydyno.hosts.local import LocalHost, Process
from mydyno.model.definition.quantities import format_duration
from mydyno.model.definition.source_build import BuildSpec
from mydyno.packages.progress import Say
from mydyno.servers.build import ServerBuild, find_build, first_existing
from mydyno.servers.compiled.record import (
    LOG_FILE,
    RECORD_FILE,
    TREE,
    BuildRecord,
    Toolchain,
    find_toolchain,
    identify,
    padding_bytes,
    platform_words,
    recipe_hash,
    with_wrappers,
    write_wrappers,
)
from mydyno.servers.compiled.source import QUIET_GIT, Source, check_out, clear, get_source, known_source, work_folder
from mydyno.servers.memcached import memcached_build

HEAD_BYTES = 4 << 20
"""Most bytes of the beginning that are kept."""
TAIL_BYTES = 4 << 20
"""Most of the end; what exceeds it is dropped but for KEPT_BYTES."""
KEPT_BYTES = 1 << 20
READ_BYTES = 1 << 16
"""Bytes read at a time: the capacity of a pipe."""
SHOWN_BYTES, SHOWN_LETTERS = 16_000, 300
"""Most bytes of the end of a log, and most letters of one of its lines, in a message."""


class BuildLog:
    """A file that receives output and never has more than HEAD_BYTES + TAIL_BYTES and a line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._size = 0
        self._omitted = 0

    def write(self, data: bytes) -> None:
        """Append, and drop the middle where the log has become too long."""
        self._file.write(data)
        self._size += len(data)
        if self._size <= HEAD_BYTES + TAIL_BYTES:
            return
        self._omitted += self._size - HEAD_BYTES - KEPT_BYTES
        self._file.seek(-KEPT_BYTES, os.SEEK_END)
        kept = self._file.read()
        self._file.seek(HEAD_BYTES)
        self._file.truncate()
        self._file.write(f"\n[mydyno: {self._omitted} bytes omitted]\n".encode() + kept)
        self._size = HEAD_BYTES + KEPT_BYTES

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def output_to(path: Path) -> Iterator[int]:
    """A file descriptor for a program's output, which goes to the log while the event loop runs.

    What a program that was left running writes after the end of the block is not read.
    """
    log, loop = BuildLog(path), asyncio.get_running_loop()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)

    def read() -> bool:
        try:
            data = os.read(reader, READ_BYTES)
        except BlockingIOError:
            return False
        log.write(data)
        if not data:
            loop.remove_reader(reader)
        return bool(data)

    loop.add_reader(reader, read)
    try:
        yield writer
    finally:
        loop.remove_reader(reader)
        read()
        os.close(reader)
        os.close(writer)
        log.close()


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log that are not empty, shortened."""
    lines = [line.rstrip() for line in end_of(path, SHOWN_BYTES).splitlines() if line.strip()]
    return [line if len(line) <= SHOWN_LETTERS else line[: SHOWN_LETTERS - 1] + "…" for line in lines[-count:]]


PROGRESS_S = 15.0
LOG_LINES = 15
MEMCACHED = ("bin/memcached", "sbin/memcached", "usr/bin/memcached", "usr/local/bin/memcached")
TERMINATE = 'trap "trap - TERM; kill -KILL 0" TERM; sh -e -c "$1" & wait $!'
"""Ends everything that the command started, compilers of a parallel make included, with the whole process group."""


@dataclass(frozen=True)
class Compilation:
    """One build to be made."""

    folder: Path
    layout: int
    recipe: str
    source: Source
    spec: BuildSpec
    toolchain: Toolchain
    cache: Path
    host: LocalHost
    say: Say

    @property
    def _log(self) -> Path:
        """Where the log is until the build is in the cache."""
        return self.folder.parent / "failed" / f"{self.folder.name}.log"

    async def make(self) -> None:
        """Make the folder, unless another process has made it meanwhile.

        Raises BuildError with the last lines of the log, which is kept, and its path; HostError if git or a compiler
        fails.
        """
        work = work_folder(self.cache, self.spec)
        async with made_once(self.folder) as aside:
            if (self.folder / RECORD_FILE).is_file():
                return
            async with locked(work / ".lock"):
                self._log.parent.mkdir(parents=True, exist_ok=True)
                began = time.monotonic()
                try:
                    tree = await check_out(self.source, self.spec, self.cache, self.host)
                    prefix = work / "prefix"
                    shutil.rmtree(prefix, ignore_errors=True)
                    prefix.mkdir(parents=True)
                    wrappers = await write_wrappers(
                        work / "wrappers", self.spec.environment, self.toolchain, self.layout, self.host
                    )
                    await self._execute(tree, prefix, wrappers)
                    took_s = time.monotonic() - began
                    _keep_memcached(tree, prefix)
                    await self._keep(prefix, aside, took_s)
                finally:
                    clear(self.source, self.spec, self.cache)
                    shutil.rmtree(work / "prefix", ignore_errors=True)
                shutil.move(self._log, aside / LOG_FILE)

    async def _execute(self, tree: Path, prefix: Path, wrappers: Path | None) -> None:
        """The command, with its output in the log. Raises BuildError."""
        self.say(f"building {self.folder.name}: {shorten(self.spec.command or '', 100, placeholder=' …')}")
        environment = {
            "PREFIX": str(prefix),
            "JOBS": str(whole_cpus()),
            **QUIET_GIT,
            **({"SOURCE_DATE_EPOCH": str(self.source.unix_s)} if self.source.unix_s else {}),
            **with_wrappers(self.spec.environment, wrappers),
        }
        assert self.spec.command is not None
        with output_to(self._log) as output:
            process = await self.host.start(
                ["setpriv", "--pdeathsig", "TERM", "--", "sh", "-c", TERMINATE, "sh", self.spec.command],
                environment=environment,
                cwd=tree,
                stdout=output,
            )
            began = time.monotonic()
            try:
                while True:
                    try:
                        exit_code = await process.wait(min(PROGRESS_S, self.spec.timeout - (time.monotonic() - began)))
                        break
                    except TimeoutError:
                        took_s = time.monotonic() - began
                        if took_s >= self.spec.timeout:
                            raise self._failed(f"did not end within {format_duration(self.spec.timeout)}") from None
                        self.say(f"  {self.folder.name}: {format_duration(took_s)}, {_last_line(self._log)}")
            finally:
                _kill_group(process)
                await process.end(0.0)
        if exit_code != 0:
            raise self._failed(f"ended with exit code {exit_code}")

    async def _keep(self, prefix: Path, aside: Path, took_s: float) -> None:
        tree = aside / TREE
        shutil.move(prefix, tree)
        try:
            build = await recognise(self.folder.name, tree, self.host)
        except (UserError, HostError) as error:
            raise self._failed(f"ended well, but {error.message.replace(str(tree), '$PREFIX')}") from error
        sha256, build_id, compiled_by = await identify(build.program, self.host)
        assert self.spec.command is not None
        record = BuildRecord(
            **self.source.model_dump(exclude={"name"}),
            name=self.folder.name,
            ref=self.spec.ref or ("HEAD" if self.spec.git else ""),
            command=self.spec.command,
            environment=self.spec.environment,
            toolchain=self.toolchain,
            platform=platform_words(),
            layout=self.layout,
            padding_bytes=padding_bytes(self.layout),
            recipe=self.recipe,
            program=str(build.program.relative_to(tree)),
            version=build.version.text,
            has_sql=build.version.has_sql,
            sha256=sha256,
            build_id=build_id,
            compiled_by=compiled_by,
            size_bytes=sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file()),
            built_unix_ns=time.time_ns(),
            took_s=round(took_s, 1),
        )
        write_text(aside / RECORD_FILE, record.model_dump_json(indent=1))

    def _failed(self, what: str) -> BuildError:
        shown = "".join(f"\n  | {line}" for line in last_lines(self._log, LOG_LINES))
        words = f"the build {self.folder.name} failed: its command {what}{shown}"
        return BuildError(words, f"the whole log: {self._log}")


def _kill_group(process: Process) -> None:
    """Everything that the command started and left running; nothing if all of it has ended."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _last_line(log: Path) -> str:
    last = next(iter(last_lines(log, 1)), "no output yet").strip()
    return last if len(last) <= 100 else last[:99] + "…"


def _keep_memcached(tree: Path, prefix: Path) -> None:
    """Where nothing was installed: the memcached that `make` left in the source folder."""
    program = tree / "memcached"
    if not any(prefix.iterdir()) and program.is_file() and os.access(program, os.X_OK):
        (prefix / "bin").mkdir()
        shutil.copy2(program, prefix / "bin" / "memcached")


async def recognise(name: str, tree: Path, host: LocalHost) -> ServerBuild:
    """The server below a build's tree: a mysqld, a mariadbd or a memcached. Raises UserError or HostError."""
    memcached = first_existing(tree, *MEMCACHED)
    if memcached is not None:
        return await memcached_build(name, memcached, tree, host, {}, {})
    if not any(tree.iterdir()):
        raise UserError(f"it installed nothing into {tree}")
    return await find_build(name, tree, host, {})


def builds_folder(cache: Path) -> Path:
    """Where the builds are."""
    return cache / "builds"


@dataclass(frozen=True)
class PlannedBuild:
    """One build that a study needs; `record` is None while the cache lacks it."""

    folder: Path
    layout: int
    recipe: str
    record: BuildRecord | None


async def get_compiled(spec: BuildSpec, cache: Path, host: LocalHost, say: Say) -> list[ServerBuild]:
    """Every build of the commit, in the order of their layouts; built now where the cache lacks them.

    Raises UserError for a source that is not there, BuildError, HostError.
    """
    source = await get_source(spec, cache, host, say)
    toolchain = await find_toolchain(spec.environment, host)
    found = []
    for planned in _planned(spec, source, toolchain, cache):
        if planned.record is None:
            facts = (planned.folder, planned.layout, planned.recipe, source, spec, toolchain, cache, host, say)
            await Compilation(*facts).make()
        found.append(await _load(planned.folder, host))
    _check_layouts(found)
    return found


async def planned_builds(
    spec: BuildSpec, cache: Path, host: LocalHost
) -> tuple[Source | None, Toolchain, list[PlannedBuild]]:
    """(source, compilers, the builds that are needed); nothing is fetched or built.

    The source is None, and there are no builds, where a repository would have to be fetched to find the commit.
    Raises UserError and HostError.
    """
    toolchain = await find_toolchain(spec.environment, host)
    source = await known_source(spec, cache, host)
    return source, toolchain, [] if source is None else _planned(spec, source, toolchain, cache)


async def present_compiled(spec: BuildSpec, cache: Path, host: LocalHost) -> ServerBuild | None:
    """The first build of the commit if the cache has it. Raises UserError and HostError."""
    _, _, builds = await planned_builds(spec, cache, host)
    if not builds or builds[0].record is None:
        return None
    return await _load(builds[0].folder, host)


def _planned(spec: BuildSpec, source: Source, toolchain: Toolchain, cache: Path) -> list[PlannedBuild]:
    found = []
    for layout in range(1, spec.builds + 1):
        recipe = recipe_hash(source, spec, toolchain, layout)
        folder = builds_folder(cache) / f"{source.name}-{source.short}-{recipe[:8]}"
        found.append(PlannedBuild(folder, layout, recipe, _read(folder)))
    return found


def _read(folder: Path) -> BuildRecord | None:
    try:
        return BuildRecord.model_validate_json((folder / RECORD_FILE).read_bytes())
    except (OSError, ValidationError):
        return None


async def _load(folder: Path, host: LocalHost) -> ServerBuild:
    record = _read(folder)
    if record is None:
        raise HostError(f"the build {folder.name} is not in the cache any more")
    build = await recognise(record.name, folder / TREE, host)
    return replace(build, compiled=record)


def _check_layouts(builds: Sequence[ServerBuild]) -> None:
    """Builds that are to differ in layout must not be the same file. Raises BuildError."""
    seen: dict[str, BuildRecord] = {}
    for build in builds:
        record = build.compiled
        assert record is not None
        other = seen.setdefault(record.sha256, record)
        if other is not record:
            raise BuildError(
                f"builds = {len(builds)}: builds {other.layout} and {record.layout} of "
                f"{record.commit[:12]} are the same file: their layout does not differ",
                "the command must link with cc, c++, gcc, g++, clang or clang++ from PATH, not with a compiler's path",
            )


def read_builds(cache: Path) -> dict[str, BuildRecord]:
    """Every build in the cache by name. One whose record cannot be read is left out."""
    found = {path.parent.name: _read(path.parent) for path in sorted(builds_folder(cache).glob(f"[!.]*/{RECORD_FILE}"))}
    return {name: record for name, record in found.items() if record is not None}


def remove_build(name: str, cache: Path) -> None:
    """Remove a build. It is gone at once; its files are deleted after that."""
    folder = builds_folder(cache) / name
    aside = folder.with_name(f".{name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    shutil.rmtree(aside)
