"""The memory allocator, chosen by LD_PRELOAD and proved: by the dynamic linker's own bindings of malloc for the same
binary, user and environment, and by the maps of the live process.

glibc is preloaded like the others, because some builds link tcmalloc. The treatment is not in force if the library
rejected an option, the binary has file capabilities (the linker then ignores LD_PRELOAD) or a malloc of its own.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, model_validator

from mydyno.errors import BugError, HostError, UserError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Frozen, Scalar, ServerSpec, Text
from mydyno.model.stored.records import Evidence
from mydyno.packages.debian import DebianPackages
from mydyno.servers.build import ServerBuild
from mydyno.servers.running.base import RunningServer
from mydyno.servers.running.private import as_private
from mydyno.treatments.allocator_memory import StatisticsCall, statistics_call, where_memory_lies
from mydyno.treatments.allocator_options import PREFIXES, ReadBack, foreign_variables, read_back
from mydyno.treatments.base import Treatment
from mydyno.treatments.dynamic_linker import (
    MALLOC_SYMBOLS,
    OPERATOR_PREFIXES,
    PYTHON_FOLDERS,
    Bindings,
    bindings,
    linked_libraries,
    mapped_libraries,
    preload_obstacle,
    secure_execution_reason,
)
from mydyno.treatments.environment import live_environment

AllocatorName = Literal["glibc", "jemalloc", "tcmalloc", "mimalloc"]


class AllocatorSetting(Frozen):
    """An allocator with options: { name = "jemalloc", library = "/path/libjemalloc.so", environment = {…} }."""

    name: AllocatorName
    library: Text | None = Field(None, description="path of a library to use instead of the packaged one")
    environment: dict[Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")], Scalar] = Field(
        default_factory=dict, description="the allocator's own variables, e.g. MALLOC_CONF"
    )

    @model_validator(mode="after")
    def _variables_are_its_own(self) -> AllocatorSetting:
        foreign = foreign_variables(self.name, list(self.environment))
        if foreign:
            raise ValueError(
                f"{self.name} does not read {', '.join(foreign)}; it reads {', '.join(PREFIXES[self.name])}…"
            )
        return self

    @property
    def variables(self) -> dict[str, str]:
        """The allocator's variables as the process gets them."""
        return {name: str(value) for name, value in self.environment.items()}


SETTING: TypeAdapter[Any] = TypeAdapter(AllocatorName | AllocatorSetting)


@dataclass(frozen=True)
class Package:
    """The source of an allocator's library and how to read its version."""

    package: str
    library: str
    version_call: str
    """Python that sets `version` from the loaded `library` (a ctypes.CDLL)."""


PACKAGES: dict[str, Package] = {
    "jemalloc": Package(
        "libjemalloc2",
        "usr/lib/*/libjemalloc.so.2",
        "p = ctypes.c_char_p(); n = ctypes.c_size_t(8); "
        "library.mallctl(b'version', ctypes.byref(p), ctypes.byref(n), None, 0); version = p.value.decode()",
    ),
    "tcmalloc": Package(
        "libtcmalloc-minimal4",
        "usr/lib/*/libtcmalloc_minimal.so.4",
        "library.tc_version.restype = ctypes.c_char_p; version = library.tc_version(None, None, None).decode()",
    ),
    "mimalloc": Package(
        "libmimalloc2.0", "usr/lib/*/libmimalloc.so.2.0", "v = library.mi_version(); "
        "version = f'{v // 100}.{v // 10 % 10}.{v % 10}'",
    ),
}  # fmt: skip
GLIBC_VERSION_CALL = (
    "library.gnu_get_libc_version.restype = ctypes.c_char_p; version = library.gnu_get_libc_version().decode()"
)
OTHER_ALLOCATORS = ("libjemalloc", "libtcmalloc", "libmimalloc", "libhoard", "libsnmalloc", "librpmalloc")


class AllocatorTreatment(Treatment):
    """One arm's allocator."""

    name = "allocator"

    def __init__(self, value: str | dict[str, Any]) -> None:
        setting = {"name": value} if isinstance(value, str) else value
        self.setting = AllocatorSetting.model_validate(setting)
        self._library: Path | None = None
        self._version = ""
        self._preload: list[Path] = []
        self._options = ReadBack({}, (), ())
        self._statistics_call = StatisticsCall("", "its bindings are not known yet")

    @property
    def files(self) -> tuple[str, ...]:
        """A library of one's own."""
        return () if self.setting.library is None else (self.setting.library,)

    def obstacle(self, server: ServerSpec) -> str | None:
        """An external server was started by others; a library of one's own must exist."""
        if server.dsn is not None:
            return "the allocator of an external server (dsn) cannot be chosen; use server.name or server.basedir"
        if self.setting.library is None:
            return None
        if not Path(self.setting.library).is_file():
            return f"allocator library {self.setting.library}: no such file"
        return preload_obstacle(Path(self.setting.library).resolve())

    def cache_obstacle(self, cache: Path) -> str | None:
        """The packaged libraries are in the cache."""
        return preload_obstacle(cache) if self.setting.library is None and self.setting.name in PACKAGES else None

    async def get(self, paths: HostPaths, host: LocalHost) -> dict[str, str]:
        """The library, from Debian's package, the user's path, or the system (glibc); asks it for its version.

        Raises HostError if it cannot be obtained, UserError where the user's library reports no version of its kind.
        """
        if self.setting.library is not None:
            self._library = Path(self.setting.library).resolve()
        elif self.setting.name == "glibc":
            self._library = await _system_libc(host)
        else:
            package = PACKAGES[self.setting.name]
            self._library = (await DebianPackages(paths.cache, host).get([package.package])).find(package.library)
        self._version = await self._read_version(host)
        return {self.setting.library or self.setting.name: self._version}

    @property
    def library(self) -> Path:
        """The preloaded library; known after get()."""
        if self._library is None:
            raise BugError("an allocator was used before get()")
        return self._library

    async def _read_version(self, host: LocalHost) -> str:
        call = PACKAGES[self.setting.name].version_call if self.setting.name in PACKAGES else GLIBC_VERSION_CALL
        # In a process that has it from the start: jemalloc's static TLS does not fit into one that runs already.
        code = f"import ctypes, json, sys; library = ctypes.CDLL(sys.argv[1]); {call}; print(json.dumps(version))"
        reported = await host.run(
            [sys.executable, "-c", code, str(self.library)],
            environment={"LD_PRELOAD": str(self.library)},
            as_server=True,
            folders=[*PYTHON_FOLDERS, self.library.parent],
            timeout_s=60,
        )
        try:
            return str(json.loads(reported.output.strip().splitlines()[-1]))
        except (ValueError, IndexError):
            words = reported.output.strip().splitlines()[-1:] or [f"exit code {reported.exit_code}"]
            raise UserError(
                f"{self.library} does not report its version as {self.setting.name} does: {words[0]}"
            ) from None

    async def apply(self, instance: RunningServer) -> None:
        """Preload it into the server's own process; glibc is that of the server's loader."""
        build, host = as_private(instance).build, instance.host
        self._preload = [self.library]
        if self.setting.name == "glibc" and self.setting.library is None:
            linked = await linked_libraries(build.program, build.loader, build.environment, host, build.folders)
            self._library = linked.get("libc.so.6", self.library)
            if build.loader:
                self._version = await _private_glibc_version(build, self.library, host)
            # Where the build links another allocator, that one may serve operator new unless the C++ library is first.
            beside = linked.get("libstdc++.so.6") if _allocators_in(map(str, linked.values())) else None
            self._preload = [self.library, *([beside] if beside else [])]
        for library in self._preload:
            if obstacle := preload_obstacle(library):
                raise HostError(obstacle)
        instance.settings.environment["LD_PRELOAD"] = ":".join(map(str, self._preload))
        instance.settings.environment.update(self.setting.variables)
        instance.settings.folders += [library.parent for library in self._preload]
        self._options = await read_back(self.setting.name, self.library, self.setting.variables, host, build.loader)

    async def evidence(self, instance: RunningServer) -> Evidence:
        """The linker's bindings, and the live process's maps."""
        server = as_private(instance)
        folders = [*server.build.folders, *server.settings.folders]
        found = await bindings(server.build.command, server.environment, server.host, folders)
        maps = mapped_libraries(instance.pid)
        self._statistics_call = statistics_call(found, server.build.program, self.library)
        reasons = (
            self._binding_reasons(found, server.build.program)
            + self._map_reasons(maps)
            + self._option_reasons(instance)
        )
        users = _with_program_first(found.of("malloc").get(self._provider(found), []), server.build.program)
        facts: dict[str, Any] = {
            "library": str(self.library),
            "version": self._version,
            "malloc_bindings": {
                symbol: {p: len(u) for p, u in by.items()}
                for symbol, by in found.providers.items()
                if symbol in MALLOC_SYMBOLS
            },
            "mapped_allocators": _allocators_in(maps or []),
            "preload_refused": list(found.refused),
            "options": self._options.facts,
            "options_untold": list(self._options.unreported),
        }
        if reasons:
            return Evidence(
                treatment=self.name, holds=False, text="; ".join(reasons), facts=facts, instance=instance.number
            )
        text = (
            f"malloc of {', '.join(users[:3])}{' …' if len(users) > 3 else ''} binds to "
            f"{self.library.name} ({self.setting.name} {self._version}), mapped in the live process"
            + "".join(f"; {name} = {value}" for name, value in self._options.facts.items())
            + "".join(
                f"; {name} is in its environment, but the library does not report it"
                for name in self._options.unreported
            )
        )
        return Evidence(treatment=self.name, holds=True, text=text, facts=facts, instance=instance.number)

    def _provider(self, found: Bindings) -> str:
        """The name by which the linker knows our library (paths can differ by links)."""
        for provider in found.of("malloc"):
            if Path(provider).resolve() == self.library.resolve():
                return provider
        return str(self.library)

    def _binding_reasons(self, found: Bindings, program: Path) -> list[str]:
        secure = secure_execution_reason(program)
        if secure:
            return [f"LD_PRELOAD is silently ignored: {secure}"]
        if found.refused:
            return [f"the dynamic linker could not preload {', '.join(found.refused)}"]
        reasons = []
        for symbol in MALLOC_SYMBOLS:
            others = found.served_by(symbol, program) - {self.library.resolve()}
            if symbol.startswith(OPERATOR_PREFIXES):  # the C++ library's operators call malloc
                others = {path for path in others if not path.name.startswith("libstdc++")}
            if others:
                reasons.append(f"{symbol} is served by {', '.join(sorted(path.name for path in others))}")
        if not found.of("malloc"):
            words = found.output[-200:].strip()
            reasons.append(f"the dynamic linker shows no binding of malloc (exit code {found.exit_code}): {words}")
        return reasons

    def _map_reasons(self, maps: list[str] | None) -> list[str]:
        if maps is None:
            return ["the live process's maps cannot be read"]
        if not any(Path(path).resolve() == self.library.resolve() for path in maps):
            return [f"{self.library.name} is not mapped in the live process"]
        return []

    def _option_reasons(self, instance: RunningServer) -> list[str]:
        actual = live_environment(instance.pid)
        lost = [
            f"{name} is {actual.get(name, 'not set')} in the live process, wanted {value}"
            for name, value in self.setting.variables.items()
            if actual.get(name) != value
        ]
        return [*lost, *self._options.wrong]

    async def account(self, instance: RunningServer) -> Evidence:
        """The use of memory after the load; it is information only, and an unavailable value is not a failure."""
        facts = await where_memory_lies(instance, self._statistics_call)
        unreported = facts.get("untold")
        source = (
            f"{self.setting.name} not read ({unreported})"
            if unreported
            else f"{self.setting.name} read by {self._statistics_call.symbol}"
        )
        text = f"use of memory after the last load level: smaps read, {source}"
        return Evidence(treatment=self.name, holds=True, text=text, facts=facts, instance=instance.number)


def _with_program_first(users: Sequence[str], program: Path) -> list[str]:
    """The names of the files that bind, the server itself first, then the C++ library, by which it allocates most."""
    names = sorted({Path(user).name for user in users})
    return sorted(names, key=lambda name: (name != program.name, not name.startswith("libstdc++"), name))


async def _private_glibc_version(build: ServerBuild, library: Path, host: LocalHost) -> str:
    """A C library is a program that prints its version; its own loader runs it."""
    folders = [*build.folders, library.parent]
    reported = await host.run([*build.loader, str(library)], as_server=True, folders=folders, timeout_s=30)
    match = re.search(r"release version (\d+\.\d+)", reported.output)
    return match[1] if match else "of unknown version"


def _allocators_in(maps: Iterable[str]) -> list[str]:
    return [path for path in maps if Path(path).name.startswith(OTHER_ALLOCATORS)]


async def _system_libc(host: LocalHost) -> Path:
    """The libc that programs of this host use, as the dynamic linker itself finds it."""
    reported = await host.run(["ldd", "/bin/sh"], timeout_s=30)
    for line in reported.output.splitlines():
        if "libc.so.6 =>" in line:
            return Path(line.split("=>")[1].split("(")[0].strip()).resolve()
    raise HostError("ldd does not name the host's libc.so.6", "is this a glibc system?")
