"""The folders of the controller's cache that a study needs: servers, load programs, allocators."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mydyno.drivers.base import PackagedDriver
from mydyno.execution.environments.builds import get_builds
from mydyno.execution.environments.private_environment import get_drivers
from mydyno.fleet.installation import Say
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.packages.debian import DebianPackages
from mydyno.servers.sources.archive import FOLDER as ADDED_FOLDER
from mydyno.servers.sources.maven import LIBRARIES
from mydyno.treatments.allocator import AllocatorTreatment
from mydyno.treatments.catalogue import treatments_of

PATTERNS = ("debian/*", "debian-releases/*/*", "servers/*", "/".join((*ADDED_FOLDER, "*")))
"""Where packages are unpacked in a cache."""


async def package_folders(experiment: Experiment, paths: HostPaths, say: Say) -> list[Path]:
    """The folders, downloaded now where the cache lacks them. Raises HostError and UserError.

    A server in server.basedir is not among them: it must be at the same path on every host.
    """
    if experiment.server.dsn is not None:
        return []
    host = LocalHost("hosts", paths.server_user)
    used: list[Path] = []
    for build in (await get_builds(experiment, paths, host, say)).values():
        used += [build.program, *build.folders]
    drivers, _ = await get_drivers(experiment, paths, host, say)
    packages = DebianPackages(paths.cache, host)
    of_drivers = [(one.package,) for one in drivers.values() if isinstance(one, PackagedDriver)]
    for names in (*of_drivers, LIBRARIES):
        found = packages.present(names)
        if found is not None and (names != LIBRARIES or any(found.root in path.parents for path in used)):
            used.append(found.root)
    for arm in experiment.arms:
        for treatment in treatments_of(arm):
            await treatment.get(paths, host)
            if isinstance(treatment, AllocatorTreatment):
                used.append(treatment.library)
    return folders_with(used, paths.cache)


def folders_with(used: Iterable[Path], cache: Path) -> list[Path]:
    """The folders of packages in the cache that contain any of these files."""
    used = list(used)
    return [
        folder
        for pattern in PATTERNS
        for folder in sorted(cache.glob(pattern))
        if folder.is_dir()
        and not folder.name.startswith(".")
        and folder != cache.joinpath(*ADDED_FOLDER)
        and any(path.is_relative_to(folder) for path in used)
    ]
