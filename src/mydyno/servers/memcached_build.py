"""A memcached on disk as a ServerBuild."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.local import LocalHost
from mydyno.model.server_version import ServerVersion
from mydyno.servers.build import ServerBuild, program_folders


async def memcached_build(
    name: str, program: Path, root: Path, host: LocalHost, environment: Mapping[str, str], packages: Mapping[str, str]
) -> ServerBuild:
    """The build of this program, with the version that it reports. Raises HostError if it does not start."""
    folders = program_folders(root, (), environment)
    reported = await host.run(
        [str(program), "--version"], environment=environment, as_server=True, folders=folders, timeout_s=30
    )
    if reported.exit_code:
        raise HostError(f"{program} does not start: {reported.output.strip()[-500:]}")
    return ServerBuild(
        name=name,
        program=program,
        basedir=root,
        messages=root,
        plugins=root,
        version=ServerVersion.parse(reported.output.strip()),
        environment=dict(environment),
        packages=dict(packages),
    )
