"""A server on disk, ready to be started: the program, its folders, the environment it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.model.server_version import ServerVersion
from mydyno.servers.compiled.record import BuildRecord

_OPTION = re.compile(r"^  (?:-\S, )?--([a-z][\w.-]*)", re.MULTILINE | re.IGNORECASE)
_VARIABLE = re.compile(r"[a-z][a-z0-9_.]*")


@dataclass(frozen=True)
class ServerBuild:
    """One build of MySQL or MariaDB."""

    name: str
    program: Path
    basedir: Path
    messages: Path
    plugins: Path
    version: ServerVersion
    environment: dict[str, str] = field(default_factory=dict)
    loader: tuple[str, ...] = ()
    """A private dynamic loader with its options, put before the program, where the host's is too old."""
    packages: dict[str, str] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    """Options that it lists, with underscores; empty if it lists none."""
    origin: str = ""
    """The archive or image that it was unpacked from, with its SHA-256, where it was added to the catalogue."""
    compiled: BuildRecord | None = None
    """What it was built from, where mydyno built it."""

    @property
    def command(self) -> list[str]:
        """What starts the program, without options."""
        return [*self.loader, str(self.program)]

    @property
    def folders(self) -> list[Path]:
        """Folders that the server's user must be able to enter."""
        return program_folders(self.basedir, self.loader, self.environment)

    @property
    def identity(self) -> str:
        """Names the build for template keys: path, size and time distinguish a rebuilt server from the previous one."""
        facts = self.program.stat()
        return f"{self.program.resolve()}:{facts.st_size}:{facts.st_mtime_ns}:{self.version.text}"


def program_folders(root: Path, loader: Sequence[str], environment: Mapping[str, str]) -> list[Path]:
    """Folders that a user needs to start a program below the root, with its loader and libraries."""
    libraries = environment.get("LD_LIBRARY_PATH", "")
    return [root, *(Path(word).parent for word in loader[:1]), *(Path(one) for one in libraries.split(":") if one)]


def first_existing(root: Path, *candidates: str) -> Path | None:
    """The first of the candidates (glob patterns) below the root."""
    for candidate in candidates:
        for path in sorted(root.glob(candidate)):
            return path
    return None


async def find_build(
    name: str,
    root: Path,
    host: LocalHost,
    environment: dict[str, str],
    packages: dict[str, str] | None = None,
    loader: tuple[str, ...] = (),
) -> ServerBuild:
    """The build below a root: an unpacked tarball, a package's tree or an installation. Raises UserError.

    Its program runs as the server's user from the first call on: it may be anyone's.
    """
    program = first_existing(
        root, "usr/sbin/mariadbd", "sbin/mariadbd", "bin/mariadbd", "libexec/mariadbd",
        "usr/sbin/mysqld", "sbin/mysqld", "bin/mysqld", "libexec/mysqld",
    )  # fmt: skip
    if program is None:
        raise UserError(f"no mysqld or mariadbd in bin/, sbin/, libexec/ or usr/sbin/ of {root}")
    messages = first_existing(
        root, "usr/share/mysql/english/errmsg.sys", "usr/share/mariadb/english/errmsg.sys", "share/english/errmsg.sys",
        "share/mysql/english/errmsg.sys", "share/mariadb/english/errmsg.sys", "usr/share/mysql*/english/errmsg.sys",
    )  # fmt: skip
    if messages is None:
        raise UserError(
            f"{root} holds {program.name} but no share/…/english/errmsg.sys", "is the server unpacked completely?"
        )
    plugins = first_existing(root, "usr/lib/mysql/plugin", "lib/plugin", "lib/mysql/plugin", "lib64/mysql/plugin")
    command = [*loader, str(program), "--no-defaults"]
    folders = program_folders(root, loader, environment)
    reported = await host.run(
        [*command, "--version"], environment=environment, as_server=True, folders=folders, timeout_s=60
    )
    if reported.exit_code:
        raise UserError(f"{program} does not start: {reported.output.strip()[-500:]}")
    build = ServerBuild(
        name=name,
        program=program,
        basedir=root / "usr" if program.is_relative_to(root / "usr") else root,
        messages=messages.parent.parent,
        plugins=plugins or root / "lib",
        version=ServerVersion.parse(reported.output.strip()),
        environment=environment,
        loader=loader,
        packages=packages or {},
    )
    return replace(build, variables=await _known_variables(build, host))


async def _known_variables(build: ServerBuild, host: LocalHost) -> frozenset[str]:
    """What `mysqld --verbose --help` lists."""
    reported = await host.run(
        [*build.command, "--no-defaults", f"--lc-messages-dir={build.messages}", "--verbose", "--help"],
        environment=build.environment,
        as_server=True,
        folders=build.folders,
        timeout_s=60,
    )
    return listed_variables(reported.output)


def listed_variables(output: str) -> frozenset[str]:
    """The names that `mysqld --verbose --help` lists, with underscores; empty if there is no table of values.

    The options stand first, two spaces before the dashes; then the table of values, below a line of dashes and up to
    the first empty line. A few options are in the first part alone (mysqld's my_print_variables), most are in both.
    """
    above, _, below = output.partition("\n---")
    table = below.partition("\n")[2].partition("\n\n")[0]
    values = [line.split(maxsplit=1)[0] for line in table.splitlines() if line.strip()]
    options = _OPTION.findall(above) if values else []
    names = (name.replace("-", "_").lower() for name in (*options, *values))
    return frozenset(name for name in names if _VARIABLE.fullmatch(name))
