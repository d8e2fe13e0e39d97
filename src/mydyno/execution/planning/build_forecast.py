"""What the servers that are built from source add to a plan: how each is built, and the time and disk of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from mydyno.hosts.local import LocalHost
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.quantities import format_bytes, format_duration
from mydyno.model.definition.source_build import BuildSpec
from mydyno.servers.compiled.compile import PlannedBuild, builds_folder, planned_builds, read_builds
from mydyno.servers.compiled.record import BuildRecord
from mydyno.servers.compiled.source import Source, work_folder
from mydyno.servers.compiled.toolchain import Toolchain
from mydyno.servers.templates import folder_bytes
from mydyno.treatments.server import server_of


@dataclass(frozen=True)
class BuildForecast:
    """Lines of a plan; none where nothing is built from source."""

    builds: tuple[str, ...] = ()
    """Which builds are in the cache, and which will be made, where and how."""
    time: tuple[str, ...] = ()
    disk: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Wanted:
    """What one build specification needs. `source` is None while its commit is not known, and `builds` empty."""

    spec: BuildSpec
    source: Source | None
    toolchain: Toolchain
    builds: Sequence[PlannedBuild]

    @property
    def words(self) -> str:
        """The source with its commit, as far as that is known."""
        if self.source is None or self.source.is_folder:
            return self.spec.words
        return f"{self.spec.words} ({self.source.short} {self.source.subject})"

    @property
    def missing(self) -> int:
        """Builds to be made; of a commit that is not known all of them, at most."""
        return self.spec.builds if self.source is None else sum(one.record is None for one in self.builds)


async def forecast_builds(experiment: Experiment, cache: Path, host: LocalHost) -> BuildForecast:
    """What the study needs of builds from source; nothing is fetched or built.

    Raises UserError for a source or commit that is not there, HostError without a compiler.
    """
    specs = [server_of(arm, experiment.server).build for arm in experiment.arms]
    different = [spec for number, spec in enumerate(specs) if spec is not None and spec not in specs[:number]]
    wanted = [_Wanted(spec, *await planned_builds(spec, cache, host)) for spec in different]
    if not wanted:
        return BuildForecast()
    lasts = _last_builds(cache)
    how = dict.fromkeys(line for one in wanted for line in _how(one, cache))
    return BuildForecast(tuple(how), tuple(_time(wanted, lasts)), tuple(_disk(wanted, lasts, cache)))


def _how(wanted: _Wanted, cache: Path) -> Iterator[str]:
    spec = wanted.spec
    if wanted.source is None:
        yield f"{spec.words}: the repository is fetched first, then built below {builds_folder(cache)}"
    for build in wanted.builds:
        what = wanted.words + (f", build {build.layout}" if spec.builds > 1 else "")
        if build.record is not None:
            yield f"{what}: in the cache, {build.folder.name}"
        else:
            yield f"{what}: will be built with {wanted.toolchain.words} into {build.folder}"
    if wanted.missing:
        command, most = (spec.command or "").strip(), format_duration(spec.timeout)
        # Below the columns of the plan.
        shown = f"these commands (at most {most}):\n{indent(command, ' ' * 12)}" if "\n" in command else ""
        yield f"by {shown or f'{command} (at most {most})'}"


def _last_builds(cache: Path) -> dict[str, BuildRecord]:
    """{command: its last build on this host}."""
    records = sorted(read_builds(cache).values(), key=lambda one: one.built_unix_ns)
    return {record.command: record for record in records}


def _time(wanted: Sequence[_Wanted], lasts: dict[str, BuildRecord]) -> Iterator[str]:
    missing = [one for one in wanted if one.missing]
    for command in dict.fromkeys(one.spec.command or "" for one in missing):
        these = [one for one in missing if one.spec.command == command]
        names = ", ".join(dict.fromkeys(one.spec.words for one in these))
        count = sum(one.missing for one in these)
        what = f"{_builds(count)} of {names}, once"
        if (last := lasts.get(command)) is not None:
            whole = format_duration(count * max(1.0, last.took_s))
            yield f"and about {whole} for {what}: the last build by this command took {format_duration(last.took_s)}"
        else:
            timeout = format_duration(max(one.spec.timeout for one in these))
            why = f"the cache has no build by this command; timeout of a build: {timeout}"
            yield f"and an unknown time for {what}: {why}"


def _disk(wanted: Sequence[_Wanted], lasts: dict[str, BuildRecord], cache: Path) -> Iterator[str]:
    present = {build.folder for one in wanted for build in one.builds if build.record is not None}
    words = [f"{format_bytes(sum(map(folder_bytes, present)))} in the cache ({len(present)})"] if present else []
    known = [one for one in wanted if one.missing and one.spec.command in lasts]
    if more := sum(one.missing * lasts[one.spec.command or ""].size_bytes for one in known):
        words.append(f"about {format_bytes(more)} more for {sum(one.missing for one in known)} to be made")
    if unknown := sum(one.missing for one in wanted if one not in known):
        words.append(f"{unknown} to be made, size unknown")
    yield f"builds: {'; '.join(words)}"
    folders = {work_folder(cache, one.spec) for one in wanted}
    there = [folder for folder in folders if folder.is_dir()]
    sources = [f"{format_bytes(sum(map(folder_bytes, there)))} in the cache"] if there else []
    if absent := len(folders) - len(there):
        sources.append(f"{absent} to be copied into the cache")
    yield f"sources: {'; '.join(sources)}"


def _builds(count: int) -> str:
    return "a build" if count == 1 else f"{count} builds"
