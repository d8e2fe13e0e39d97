"""One build: checked out, built by the user's command, recognised, and put into the cache whole or not at all.

The command is executed as mydyno's own user, in a session of its own; it ends with mydyno, also by kill -9.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from textwrap import shorten

from mydyno.errors import BuildError, HostError, UserError
from mydyno.files.atomic import locked, made_once, write_text
from mydyno.hosts.limits import whole_cpus
from mydyno.hosts.local import LocalHost, Process
from mydyno.model.definition.quantities import format_duration
from mydyno.model.definition.source_build import BuildSpec
from mydyno.packages.progress import Say
from mydyno.servers.build import ServerBuild, find_build, first_existing
from mydyno.servers.compiled.build_log import last_lines, output_to
from mydyno.servers.compiled.record import (
    LOG_FILE,
    RECORD_FILE,
    TREE,
    BuildRecord,
    identify,
    platform_words,
)
from mydyno.servers.compiled.source import QUIET_GIT, Source, check_out, clear, work_folder
from mydyno.servers.compiled.toolchain import Toolchain, padding_bytes, with_wrappers, write_wrappers
from mydyno.servers.memcached import memcached_build

PROGRESS_S = 15.0
LOG_LINES = 15
MEMCACHED = ("bin/memcached", "sbin/memcached", "usr/bin/memcached", "usr/local/bin/memcached")
TERMINATE = 'trap "trap - TERM; kill -KILL 0" TERM; sh -e -c "$1" & wait $!'
"""Ends everything that the command started, compilers of a parallel make included, with the whole process group."""


async def compile_into(
    folder: Path,
    source: Source,
    spec: BuildSpec,
    toolchain: Toolchain,
    recipe: str,
    layout: int,
    cache: Path,
    host: LocalHost,
    say: Say,
) -> None:
    """Make the folder of one build, unless another process has made it meanwhile.

    Raises BuildError with the last lines of the log, which is kept, and its path; HostError if git or a compiler fails.
    """
    work = work_folder(cache, spec)
    async with made_once(folder) as aside:
        if (folder / RECORD_FILE).is_file():
            return
        async with locked(work / ".lock"):
            log = folder.parent / "failed" / f"{folder.name}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            began = time.monotonic()
            try:
                tree = await check_out(source, spec, cache, host)
                prefix = work / "prefix"
                shutil.rmtree(prefix, ignore_errors=True)
                prefix.mkdir(parents=True)
                wrappers = await write_wrappers(work / "wrappers", toolchain, layout, host)
                await _execute(spec, source, tree, prefix, wrappers, folder.name, log, host, say)
                took_s = time.monotonic() - began
                _keep_memcached(tree, prefix)
                await _keep(folder.name, source, spec, toolchain, recipe, layout, prefix, aside, took_s, host, log)
            finally:
                clear(source, spec, cache)
                shutil.rmtree(work / "prefix", ignore_errors=True)
            shutil.move(log, aside / LOG_FILE)


async def _execute(
    spec: BuildSpec,
    source: Source,
    tree: Path,
    prefix: Path,
    wrappers: Path | None,
    name: str,
    log: Path,
    host: LocalHost,
    say: Say,
) -> None:
    """The command, with its output in the log. Raises BuildError."""
    say(f"building {name}: {shorten(spec.command or '', 100, placeholder=' …')}")
    environment = {
        "PREFIX": str(prefix),
        "JOBS": str(whole_cpus()),
        **QUIET_GIT,
        **({"SOURCE_DATE_EPOCH": str(source.unix_s)} if source.unix_s else {}),
        **with_wrappers(spec.environment, wrappers),
    }
    assert spec.command is not None
    with output_to(log) as output:
        process = await host.start(
            ["setpriv", "--pdeathsig", "TERM", "--", "sh", "-c", TERMINATE, "sh", spec.command],
            environment=environment,
            cwd=tree,
            stdout=output,
        )
        began = time.monotonic()
        try:
            while True:
                try:
                    exit_code = await process.wait(min(PROGRESS_S, spec.timeout - (time.monotonic() - began)))
                    break
                except TimeoutError:
                    took_s = time.monotonic() - began
                    if took_s >= spec.timeout:
                        raise _failed(name, f"did not end within {format_duration(spec.timeout)}", log) from None
                    say(f"  {name}: {format_duration(took_s)}, {_last_line(log)}")
        finally:
            _kill_group(process)
            await process.end(0.0)
    if exit_code != 0:
        raise _failed(name, f"ended with exit code {exit_code}", log)


def _kill_group(process: Process) -> None:
    """Everything that the command started and left running; nothing if all of it has ended."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _failed(name: str, what: str, log: Path) -> BuildError:
    shown = "".join(f"\n  | {line}" for line in last_lines(log, LOG_LINES))
    return BuildError(f"the build {name} failed: its command {what}{shown}", f"the whole log: {log}")


def _last_line(log: Path) -> str:
    last = next(iter(last_lines(log, 1)), "no output yet").strip()
    return last if len(last) <= 100 else last[:99] + "…"


def _keep_memcached(tree: Path, prefix: Path) -> None:
    """Where nothing was installed: the memcached that `make` left in the source folder."""
    program = tree / "memcached"
    if not any(prefix.iterdir()) and program.is_file() and os.access(program, os.X_OK):
        (prefix / "bin").mkdir()
        shutil.copy2(program, prefix / "bin" / "memcached")


async def _keep(
    name: str,
    source: Source,
    spec: BuildSpec,
    toolchain: Toolchain,
    recipe: str,
    layout: int,
    prefix: Path,
    aside: Path,
    took_s: float,
    host: LocalHost,
    log: Path,
) -> None:
    tree = aside / TREE
    shutil.move(prefix, tree)
    try:
        build = await recognise(name, tree, host)
    except (UserError, HostError) as error:
        raise _failed(name, f"ended well, but {error.message.replace(str(tree), '$PREFIX')}", log) from error
    sha256, build_id, compiled_by = await identify(build.program, host)
    assert spec.command is not None
    record = BuildRecord(
        name=name,
        origin=source.origin,
        ref=spec.ref or ("HEAD" if spec.git else ""),
        commit=source.commit,
        subject=source.subject,
        author=source.author,
        date=source.date,
        patch=source.patch,
        patch_sha256=source.patch_sha256,
        command=spec.command,
        environment=spec.environment,
        toolchain=toolchain,
        platform=platform_words(),
        layout=layout,
        padding_bytes=padding_bytes(layout),
        recipe=recipe,
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


async def recognise(name: str, tree: Path, host: LocalHost) -> ServerBuild:
    """The server below a build's tree: a mysqld, a mariadbd or a memcached. Raises UserError or HostError."""
    memcached = first_existing(tree, *MEMCACHED)
    if memcached is not None:
        return await memcached_build(name, memcached, tree, host, {}, {})
    if not any(tree.iterdir()):
        raise UserError(f"it installed nothing into {tree}")
    return await find_build(name, tree, host, {})
