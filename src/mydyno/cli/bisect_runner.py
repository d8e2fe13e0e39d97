"""Runs the bisection of `mydyno bisect`, prints its answer, writes its files, and exits with its code."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import typer

from mydyno import __version__, clock
from mydyno.bisect.bisection import count_commits, describe, run_bisection
from mydyno.bisect.compare import ENDS_LONGER, BisectFolder, Tools, build_of, comparisons_needed, rate_of_study
from mydyno.bisect.document import bisect_document, share_words
from mydyno.cli import ExitCode
from mydyno.cli.streams import warn
from mydyno.cli.study_runner import ProgressWatcher, shown_path, with_signals
from mydyno.document.printers import Paper, printed
from mydyno.errors import MydynoError, StudyError, UserError
from mydyno.execution.environments.open_environment import open_environment
from mydyno.files.atomic import write_text
from mydyno.hosts.local import LocalHost
from mydyno.hosts.lock import folder_lock
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.quantities import format_duration
from mydyno.model.definition.source_build import BuildSpec
from mydyno.model.stored.bisection import BisectOptions, BisectRecord, BisectResult, Commit
from mydyno.servers.compiled.compile import get_compiled, planned_builds, read_builds
from mydyno.servers.compiled.source import commit_in, fetched

MOST_LISTED = 40
"""Commits that a dry run prints."""


def begin(
    asked: BisectOptions, refs: tuple[str, str], bisections: Path, paths: HostPaths, dry_run: bool, as_json: bool
) -> None:
    """A new bisection between two commits, (good, bad), or what it would do."""
    build = build_of(asked.experiment)
    if build is None:
        control = asked.experiment.control
        raise UserError(
            f"the control {control} of {asked.experiment.name} is not built from a git repository",
            'set server.build = { git = "…", command = "…" }, and no other server for this arm',
        )
    host = LocalHost("bisect", paths.server_user)
    record = asyncio.run(_record(asked, refs, build, paths, host))
    if dry_run:
        asyncio.run(_print_plan(record, build, paths, host))
        return
    _check_others(record)
    folder = BisectFolder.create(bisections.resolve() / record.bisection, record)
    _run(folder, build, paths, host, as_json)


def go_on(path: Path, paths: HostPaths, as_json: bool) -> None:
    """Continue a bisection; print one that is complete again."""
    folder = BisectFolder.open(path.resolve())
    build = build_of(folder.record().experiment)
    assert build is not None
    _run(folder, build, paths, LocalHost("bisect", paths.server_user), as_json)


async def _record(
    asked: BisectOptions, refs: tuple[str, str], build: BuildSpec, paths: HostPaths, host: LocalHost
) -> BisectRecord:
    ends = []
    for ref in refs:
        clone = await fetched(build.model_copy(update={"ref": ref}), paths.cache, host, warn)
        ends.append(await _commit(build, ref, clone, host))
    good, bad = ends
    now_ns = clock.unix_ns()
    stamp = datetime.fromtimestamp(now_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%SZ")
    return BisectRecord(
        **dict(asked),
        bisection=f"{asked.experiment.name}-{stamp}",
        created_unix_ns=now_ns,
        mydyno_version=__version__,
        command=("mydyno", *sys.argv[1:]),
        good=good,
        bad=bad,
        commits=await count_commits(good.hash, bad.hash, clone, host, asked.first_parent),
    )


async def _commit(build: BuildSpec, ref: str, clone: Path, host: LocalHost) -> Commit:
    # Names are looked up as a build does it: a branch is the origin's.
    found = await commit_in(build, ref, clone, host)
    return await describe(found.commit, clone, host)


def _check_others(record: BisectRecord) -> None:
    others = [arm.name for arm in record.experiment.arms if arm.name != record.experiment.control]
    if others:
        warn(f"arms that are not compared: {', '.join(others)}; every commit has the settings of "
             f"{record.experiment.control}")  # fmt: skip


async def _print_plan(record: BisectRecord, build: BuildSpec, paths: HostPaths, host: LocalHost) -> None:
    clone = await fetched(build, paths.cache, host, warn)
    experiment, needed = record.experiment, comparisons_needed(record.commits)
    one_s = experiment.design.time
    print(f"{experiment.name} ({experiment.scale}): {experiment.question}\n")
    print(f"good      {record.good.short} {record.good.subject}")
    print(f"bad       {record.bad.short} {record.bad.subject}")
    print(f"commits   {record.commits} after good, up to and with bad")
    print(f"metric    {record.metric}, at {record.step or 'the load level at which the ends differ most clearly'}")
    if record.threshold is None:
        print("bad if    worse than half of the difference of the ends, or the near end of its interval if it is less")
    else:
        print(f"bad if    worse than good by more than {record.threshold * 100:.3g} %")
    share = share_words(rate_of_study(record.error_rate, record.commits, 0))
    print(f"error     at most {share_words(record.error_rate)} for a wrong commit: {share} for each of {needed} "
          "studies, less for each further one")  # fmt: skip
    took = [one.took_s for one in read_builds(paths.cache).values() if one.command == build.command]
    refs = (record.good.hash, record.bad.hash)
    there = [await planned_builds(build.model_copy(update={"ref": ref}), paths.cache, host) for ref in refs]
    missing = sum(one.record is None for _, _, builds in there for one in builds) + (needed - 1) * build.builds
    each = f", about {format_duration(sum(took) / len(took))} each by the builds in the cache" if took else ""
    print(f"builds    up to {missing}{each}, below {paths.cache / 'builds'}: {build.command}")
    print(f"studies   {needed}, more where commits are skipped: the ends, then about {needed - 1} in between")
    if one_s is None:
        print(f"time      {experiment.design.blocks} blocks for each study (mydyno plan prints how long that is)")
    else:
        most = record.longest_s
        longest = ""
        if most is not None:
            longest = f"; undecided: {format_duration(most)}, the ends {format_duration(ENDS_LONGER * most)}"
        print(f"time      at most {format_duration(one_s)} for each study, {format_duration(needed * one_s)} in all, "
              f"besides the builds{longest}")  # fmt: skip
    listed = await host.run(
        ["git", "log", "--format=%h %s", "--max-count", str(MOST_LISTED), *(["--first-parent"] if record.first_parent
         else []), f"{record.good.hash}..{record.bad.hash}"], cwd=clone,
    )  # fmt: skip
    print("\nnewest first:")
    for line in listed.output.splitlines():
        print(f"  {line}")
    if record.commits > MOST_LISTED:
        print(f"  … {record.commits - MOST_LISTED} more")


def _run(folder: BisectFolder, build: BuildSpec, paths: HostPaths, host: LocalHost, as_json: bool) -> None:
    record = folder.record()

    @contextmanager
    def watch(experiment: Experiment) -> Iterator[ProgressWatcher]:
        with ProgressWatcher(experiment) as watcher:
            yield watcher

    async def compiled(spec: BuildSpec) -> object:
        return await get_compiled(spec, paths.cache, host, warn)

    async def work() -> BisectResult:
        clone = await fetched(build.model_copy(update={"ref": record.bad.hash}), paths.cache, host, warn)
        return await run_bisection(folder, clone, host, Tools(paths, watch, compiled, open_environment, warn))

    hint = f"to continue: mydyno bisect {shown_path(folder.path)}"
    try:
        with folder_lock(folder.path):
            result = asyncio.run(with_signals(work()))
    except asyncio.CancelledError:
        warn(f"interrupted; what is finished is kept; {hint}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except OSError as error:
        raise StudyError(f"{error.strerror or error}: {error.filename or 'while the bisection ran'}", hint) from error
    except MydynoError as error:
        if isinstance(error, UserError) and folder.ends() is None and not folder.studies.exists():
            shutil.rmtree(folder.path)  # nothing was started, and it cannot be continued as it was asked for
        else:
            warn(hint)
        raise
    _finish(folder, record, result, as_json)


def _finish(folder: BisectFolder, record: BisectRecord, result: BisectResult, as_json: bool) -> None:
    document = bisect_document(record, result)
    write_text(folder.path / "report.html", document.page)
    write_text(folder.path / "report.md", printed(document, "report.html"))
    if as_json:
        sys.stdout.write(result.model_dump_json(indent=1) + "\n")
    else:
        print()
        Paper(sys.stdout).document(document)
        print(f"\nreport: {shown_path(folder.path / 'report.html')}")
    if result.state != "found" or result.remainder is not None:
        raise typer.Exit(ExitCode.GATE_OPEN)
