"""The memory allocator, chosen by LD_PRELOAD and proved: by the dynamic linker's own bindings of malloc for the same
binary, user and environment, and by the maps of the live process.

glibc is preloaded like the others, because some builds link tcmalloc. A preload that silently failed does not hold.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from mydyno.errors import BugError, HostError, UserError
from mydyno.hosts.local import LocalHost
from mydyno.model.experiment import Frozen, Scalar, ServerSpec, Text
from mydyno.model.records import Evidence
from mydyno.parts.debian import DebianPackages
from mydyno.servers.instance import Instance
from mydyno.treatments.dynamic_linker import Bindings, bindings, mapped_libraries, secure_execution_reason

AllocatorName = Literal["glibc", "jemalloc", "tcmalloc", "mimalloc"]


class AllocatorSetting(Frozen):
    """An allocator with options: { name = "jemalloc", library = "/path/libjemalloc.so", environment = {…} }."""

    name: AllocatorName
    library: Text | None = Field(None, description="a library of your own, instead of the packaged one")
    environment: dict[Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")], Scalar] = Field(
        default_factory=dict, description="the allocator's own variables, e.g. MALLOC_CONF"
    )


SETTING: TypeAdapter[Any] = TypeAdapter(AllocatorName | AllocatorSetting)


@dataclass(frozen=True)
class Package:
    """Where an allocator's library comes from and how it tells its version."""

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
MUST_BIND = ("malloc", "free", "calloc", "realloc")


class AllocatorTreatment:
    """One arm's allocator."""

    name = "allocator"

    def __init__(self, value: str | dict[str, Any]) -> None:
        setting = {"name": value} if isinstance(value, str) else value
        self.setting = AllocatorSetting.model_validate(setting)
        self._library: Path | None = None
        self._version = ""
        self._bindings: Bindings | None = None

    def obstacle(self, server: ServerSpec) -> str | None:
        """An external server was started by others; a library of one's own must exist."""
        if server.dsn is not None:
            return "the allocator of an external server (dsn) cannot be chosen; use server.name or server.basedir"
        if self.setting.library is not None and not Path(self.setting.library).is_file():
            return f"allocator library {self.setting.library}: no such file"
        return None

    def host_changes(self) -> list[str]:
        """None: the library is preloaded into the server alone."""
        return []

    async def get(self, cache: Path, host: LocalHost) -> dict[str, str]:
        """The library, from Debian's package, the user's path, or the system (glibc); asks it for its version.

        Raises HostError where it cannot be had, UserError where the user's library tells no version of its kind.
        """
        if self.setting.library is not None:
            self._library = Path(self.setting.library).resolve()
        elif self.setting.name == "glibc":
            self._library = await _system_libc(host)
        else:
            package = PACKAGES[self.setting.name]
            self._library = (await DebianPackages(cache, host).get([package.package])).find(package.library)
        self._version = await self._ask_version(host)
        return {self.setting.name: self._version}

    @property
    def library(self) -> Path:
        """The preloaded library; known after get()."""
        if self._library is None:
            raise BugError("an allocator was used before get()")
        return self._library

    async def _ask_version(self, host: LocalHost) -> str:
        call = PACKAGES[self.setting.name].version_call if self.setting.name in PACKAGES else GLIBC_VERSION_CALL
        # In a process that has it from the start: jemalloc's static TLS does not fit into one that runs already.
        code = f"import ctypes, json, sys; library = ctypes.CDLL(sys.argv[1]); {call}; print(json.dumps(version))"
        told = await host.run(
            [sys.executable, "-c", code, str(self.library)], environment={"LD_PRELOAD": str(self.library)}, timeout_s=60
        )
        try:
            return str(json.loads(told.output.strip().splitlines()[-1]))
        except (ValueError, IndexError):
            words = told.output.strip().splitlines()[-1:] or [f"exit code {told.exit_code}"]
            raise UserError(
                f"{self.library} does not tell its version as {self.setting.name} does: {words[0]}"
            ) from None

    async def apply(self, instance: Instance) -> None:
        """Preload it into the server's own process."""
        instance.settings.environment["LD_PRELOAD"] = str(self.library)
        instance.settings.environment.update({name: str(value) for name, value in self.setting.environment.items()})
        instance.settings.folders.append(self.library.parent)

    async def evidence(self, instance: Instance) -> Evidence:
        """The linker's bindings, and the live process's maps."""
        folders = [*instance.build.folders, *instance.settings.folders]
        found = await bindings(instance.build.command, instance.environment, instance.host, folders)
        maps = mapped_libraries(instance.pid)
        reasons = self._binding_reasons(found, instance) + self._map_reasons(maps)
        users = _with_program_first(found.of("malloc").get(self._provider(found), []), instance.build.program)
        facts: dict[str, Any] = {
            "library": str(self.library),
            "version": self._version,
            "malloc_bindings": {symbol: {p: len(u) for p, u in by.items()} for symbol, by in found.providers.items()},
            "mapped_allocators": _allocators_in(maps or []),
            "preload_refused": list(found.refused),
        }
        if reasons:
            return Evidence(
                treatment=self.name, holds=False, text="; ".join(reasons), facts=facts, instance=instance.number
            )
        text = (
            f"malloc of {', '.join(users[:3])}{' …' if len(users) > 3 else ''} binds to "
            f"{self.library.name} ({self.setting.name} {self._version}), mapped in the live process"
        )
        return Evidence(treatment=self.name, holds=True, text=text, facts=facts, instance=instance.number)

    def _provider(self, found: Bindings) -> str:
        """The name by which the linker knows our library (paths can differ by links)."""
        for provider in found.of("malloc"):
            if Path(provider).resolve() == self.library.resolve():
                return provider
        return str(self.library)

    def _binding_reasons(self, found: Bindings, instance: Instance) -> list[str]:
        secure = secure_execution_reason(instance.build.program)
        if secure:
            return [f"LD_PRELOAD is dropped in silence: {secure}"]
        if found.refused:
            return [f"the dynamic linker could not preload {', '.join(found.refused)}"]
        reasons = []
        for symbol in MUST_BIND:
            others = [p for p in found.of(symbol) if Path(p).resolve() != self.library.resolve()]
            others = [other for other in others if not self._passes_on(other, symbol, found, instance.build.program)]
            if others:
                reasons.append(f"{symbol} is served by {', '.join(Path(other).name for other in others)}")
        if not found.of("malloc"):
            words = found.output[-200:].strip()
            reasons.append(f"the dynamic linker shows no binding of malloc (exit code {found.exit_code}): {words}")
        return reasons

    def _passes_on(self, provider: str, symbol: str, found: Bindings, program: Path) -> bool:
        """Whether the provider is the program's own procedure linkage table, which leads to our library.

        A program that is not position-independent and takes malloc's address gives its table's entry for it to all
        (System V ABI, AMD64, "Function addresses"). One with an allocator of its own inside binds nothing to us.
        """
        users = found.of(symbol).get(self._provider(found), [])
        return Path(provider).resolve() == program.resolve() and provider in users

    def _map_reasons(self, maps: list[str] | None) -> list[str]:
        if maps is None:
            return ["the live process's maps cannot be read"]
        if not any(Path(path).resolve() == self.library.resolve() for path in maps):
            return [f"{self.library.name} is not mapped in the live process"]
        return []

    async def undo(self) -> None:
        """Nothing outside the instance was changed."""


def _with_program_first(users: Sequence[str], program: Path) -> list[str]:
    """The names of the files that bind, the server itself first, then the C++ library, by which it allocates most."""
    names = sorted({Path(user).name for user in users})
    return sorted(names, key=lambda name: (name != program.name, not name.startswith("libstdc++"), name))


def _allocators_in(maps: Sequence[str]) -> list[str]:
    return [path for path in maps if Path(path).name.startswith(OTHER_ALLOCATORS)]


async def _system_libc(host: LocalHost) -> Path:
    """The libc that programs of this host use, as the dynamic linker itself finds it."""
    told = await host.run(["ldd", "/bin/sh"], timeout_s=30)
    for line in told.output.splitlines():
        if "libc.so.6 =>" in line:
            return Path(line.split("=>")[1].split("(")[0].strip()).resolve()
    raise HostError("ldd does not name the host's libc.so.6", "is this a glibc system?")
