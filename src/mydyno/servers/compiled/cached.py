"""The builds in the cache: got, listed and removed by name."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from mydyno.errors import BuildError, HostError
from mydyno.hosts.local import LocalHost
from mydyno.model.definition.source_build import BuildSpec
from mydyno.packages.progress import Say
from mydyno.servers.build import ServerBuild
from mydyno.servers.compiled.compile import Compilation, recognise
from mydyno.servers.compiled.record import RECORD_FILE, TREE, BuildRecord, recipe_hash
from mydyno.servers.compiled.source import Source, get_source, known_source
from mydyno.servers.compiled.toolchain import Toolchain, find_toolchain


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
