"""The server itself as the treatment: name, "image:REGISTRY/NAME:TAG", { basedir = "…" }, { build = { ref = "…" } }.

Verified by the version that the server reports and by the file of the live process. An image is fetched once and stays
in the cache (`mydyno servers remove`); its digest is part of the evidence. A build from source is verified by
that file's inode, SHA-256 and build id, which are those of the build in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag, TypeAdapter

from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ArmSpec, Frozen, ServerSpec
from mydyno.model.definition.problems import with_guess
from mydyno.model.definition.source_build import BuildSpec
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import Evidence
from mydyno.packages.oci_layout import check_reference
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_alternating, known_servers
from mydyno.servers.compiled.record import BuildRecord, file_identity, sha256_of_running
from mydyno.servers.compiled.source import source_obstacle
from mydyno.servers.running.base import RunningServer
from mydyno.servers.running.private import as_private
from mydyno.servers.sources.archive import PREFIX, is_archive, is_image
from mydyno.treatments.base import Treatment


def _in_catalogue(name: str) -> str:
    known = known_servers()
    if is_image(name):
        try:
            check_reference(name.removeprefix(PREFIX))
        except UserError as error:
            raise ValueError(f"image:{error.hint}") from error
    elif name not in known:
        raise ValueError(with_guess(f"one of {', '.join(known)}", name, known))
    return name


class BasedirSetting(Frozen):
    """An installed server: { basedir = "/usr/local/mysql" }."""

    basedir: str = Field(min_length=1)


class BuildSetting(Frozen):
    """A server built from source: { build = { ref = "10.11.9" } }; what it does not set is [server.build]'s."""

    build: BuildSpec


def _form(value: object) -> str:
    if isinstance(value, str):
        return "Name"
    return "Build" if isinstance(value, dict) and "build" in value else "Basedir"


SETTING: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        Annotated[str, AfterValidator(_in_catalogue), Tag("Name")]
        | Annotated[BasedirSetting, Tag("Basedir")]
        | Annotated[BuildSetting, Tag("Build")],
        Discriminator(_form),
    ]
)


def server_of(arm: ArmSpec, otherwise: ServerSpec) -> ServerSpec:
    """The server of an arm: its own, or the experiment's. Variables are the experiment's in both cases."""
    value = arm.treatments.get("server")
    if value is None:
        return otherwise
    place = {"name": value} if isinstance(value, str) else value
    return ServerSpec.model_validate({**place, "variables": otherwise.variables})


class ServerTreatment(Treatment):
    """One arm's server."""

    name = "server"

    def __init__(self, value: str | dict[str, Any]) -> None:
        self._spec = server_of(ArmSpec(name="arm", treatments={"server": value}), ServerSpec())
        self._builds: list[ServerBuild] = []

    def obstacle(self, server: ServerSpec) -> str | None:
        """An external server cannot be exchanged; a base directory, or its archive, must exist."""
        if server.dsn is not None:
            return "an external server (dsn) cannot be exchanged; use server.name or server.basedir"
        if self._spec.build is not None:
            return source_obstacle(self._spec.build)
        if self._spec.basedir is not None:
            path = Path(self._spec.basedir).expanduser()
            if not (path.is_dir() or is_archive(path)):
                return f"{self._spec.basedir} is neither a folder nor a tar archive"
        return None

    async def get(self, paths: HostPaths, host: LocalHost) -> dict[str, str]:
        """Provide the build; returns its version. Raises HostError."""
        if not self._builds:
            self._builds = await get_alternating(self._spec, paths.cache, host)
        return {f"server {build.name}": build.version.text for build in self._builds}

    async def apply(self, instance: RunningServer) -> None:
        """Set the build before all other settings of the instance."""
        as_private(instance).build = self._of(instance)

    def _of(self, instance: RunningServer) -> ServerBuild:
        """The instance's build: of several, the one of its run."""
        return self._builds[(instance.build_number - 1) % len(self._builds)]

    async def evidence(self, instance: RunningServer) -> Evidence:
        """The version reported by the server and by its program, and the file of the live process."""
        build = self._of(instance)
        reported = await instance.reported_version()
        running = ServerVersion.parse(reported)
        program = build.program.resolve()
        mapped = program_of(instance.pid, bool(build.loader), program)
        command = instance.version_command
        reasons = []
        if (running.flavour, running.number) != (build.version.flavour, build.version.number):
            reasons.append(f"{command} returns {reported}, the program says {build.version.text}")
        if mapped != program:
            reasons.append(f"the process runs {mapped or 'a file that cannot be read'}, not {program}")
        facts: dict[str, Any] = {
            "version": reported,
            "program": str(program),
            "loader": list(build.loader),
            "notes": list(as_private(instance).notes),
        }
        text = f"{command} returns {reported}, run from {program}"
        if build.origin:
            facts["origin"] = build.origin
            text += f" of {build.origin}"
        if build.compiled is not None:
            proof = prove_build(instance.pid, program, build.compiled)
            facts |= {"build": build.compiled.facts, **proof.facts}
            reasons += proof.reasons
            text = f"{command} returns {reported}; {proof.text}"
        text = "; ".join(reasons) or text
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


@dataclass(frozen=True)
class BuildProof:
    """What was read of a process; `reasons` why it is not the build, empty if it is."""

    text: str
    facts: dict[str, Any]
    reasons: list[str] = field(default_factory=list)


def prove_build(pid: int, program: Path, record: BuildRecord) -> BuildProof:
    """Compare the process's file with the build's program and record. Never raises: what cannot be read is a reason."""
    running = Path(f"/proc/{pid}/exe")
    try:
        same_file = file_identity(running) == file_identity(program)
        sha256 = sha256_of_running(running)
    except OSError as error:
        return BuildProof("", {}, [f"the program of process {pid} cannot be read: {error.strerror}"])
    reasons = []
    if not same_file:
        reasons.append(f"the process does not run the file {program}")
    if sha256 != record.sha256:
        reasons.append(f"the process runs a file with SHA-256 {sha256[:16]}…, the build has {record.sha256[:16]}…")
    build_id = f", build id {record.build_id[:12]}…" if record.build_id else ""
    text = (
        f"the process runs {record.words} of {record.name.rpartition('-')[0].rpartition('-')[0]}: "
        f"SHA-256 {sha256[:12]}…{build_id}"
    )
    facts = {"running_sha256": sha256, "running_file_is_the_builds": same_file}
    return BuildProof(text, facts, reasons)
