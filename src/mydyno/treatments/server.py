"""The server itself as the treatment: a build per arm, verified by SQL and by the file of the process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, TypeAdapter

from mydyno.hosts.local import LocalHost
from mydyno.model.experiment import ArmSpec, Frozen, ServerSpec
from mydyno.model.problems import nearest
from mydyno.model.records import Evidence
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_build, known_servers
from mydyno.servers.running.base import RunningServer
from mydyno.servers.running.private import as_private
from mydyno.servers.sources.tarball import is_archive
from mydyno.servers.version import ServerVersion
from mydyno.treatments.base import Treatment


def _in_catalogue(name: str) -> str:
    known = known_servers()
    if name not in known:
        guess = nearest(name, known)
        raise ValueError(f"one of {', '.join(known)}" + (f"; did you mean {guess!r}?" if guess else ""))
    return name


class BasedirSetting(Frozen):
    """An installed server: { basedir = "/usr/local/mysql" }."""

    basedir: str = Field(min_length=1)


SETTING: TypeAdapter[Any] = TypeAdapter(Annotated[str, AfterValidator(_in_catalogue)] | BasedirSetting)


def server_of(arm: ArmSpec, otherwise: ServerSpec) -> ServerSpec:
    """The server of an arm: its own, or the experiment's. Variables are the experiment's in both cases."""
    value = arm.treatments.get("server")
    if value is None:
        return otherwise
    place = {"name": value} if isinstance(value, str) else {"basedir": value["basedir"]}
    return ServerSpec.model_validate({**place, "variables": otherwise.variables})


class ServerTreatment(Treatment):
    """One arm's server."""

    name = "server"

    def __init__(self, value: str | dict[str, Any]) -> None:
        self._spec = server_of(ArmSpec(name="arm", treatments={"server": value}), ServerSpec())
        self._build: ServerBuild | None = None

    @property
    def touches_client(self) -> bool:
        """Another version may send other packets for the same query."""
        return True

    def obstacle(self, server: ServerSpec) -> str | None:
        """An external server cannot be exchanged; a base directory, or its archive, must exist."""
        if server.dsn is not None:
            return "an external server (dsn) cannot be exchanged; use server.name or server.basedir"
        if self._spec.basedir is not None:
            path = Path(self._spec.basedir).expanduser()
            if not (path.is_dir() or is_archive(path)):
                return f"{self._spec.basedir} is neither a folder nor a tar archive"
        return None

    async def get(self, cache: Path, host: LocalHost) -> dict[str, str]:
        """Provide the build; returns its version. Raises HostError."""
        self._build = await get_build(self._spec, cache, host)
        return {f"server {self._build.name}": self._build.version.text}

    async def apply(self, instance: RunningServer) -> None:
        """Set the build before all other settings of the instance."""
        assert self._build is not None
        as_private(instance).build = self._build

    async def evidence(self, instance: RunningServer) -> Evidence:
        """The version reported by the server and by its program, and the file of the live process."""
        assert self._build is not None
        reported = await instance.reported_version()
        running = ServerVersion.parse(reported)
        program = self._build.program.resolve()
        mapped = program_of(instance.pid, bool(self._build.loader), program)
        command = instance.version_command
        reasons = []
        if (running.flavour, running.number) != (self._build.version.flavour, self._build.version.number):
            reasons.append(f"{command} returns {reported}, the program says {self._build.version.text}")
        if mapped != program:
            reasons.append(f"the process runs {mapped or 'a file that cannot be read'}, not {program}")
        text = "; ".join(reasons) or f"{command} returns {reported}, run from {program}"
        facts = {
            "version": reported,
            "program": str(program),
            "loader": list(self._build.loader),
            "notes": list(as_private(instance).notes),
        }
        return Evidence(treatment=self.name, holds=not reasons, text=text, facts=facts, instance=instance.number)


def program_of(pid: int, through_loader: bool, expected: Path) -> Path | None:
    """The file that a process executes; started by a private loader, the mapped file that is the program."""
    try:
        if not through_loader:
            return Path(f"/proc/{pid}/exe").readlink()
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return None
    files = {Path(line.split(maxsplit=5)[5]) for line in lines if " r-xp " in line and "/" in line}
    return expected if expected in files else Path(f"/proc/{pid}/exe").readlink()
