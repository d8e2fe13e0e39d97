"""A process's libraries as reported by the dynamic linker and the kernel (ld.so(8), proc(5))."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.local import LocalHost
from mydyno.hosts.root import text_of

_BINDING = re.compile(r"binding file (.+?) \[\d+\] to (.+?) \[\d+\]: \w+ symbol `([^']+)'")
_LINKED = re.compile(r"^\s*(\S+) => (/.+?)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
_REFUSED = re.compile(r"object '([^']+)' from LD_PRELOAD cannot be preloaded[^:]*(?:: ignored\.)?")
MALLOC_SYMBOLS = (
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "_Znwm",
    "_ZdlPv",
    "_Znam",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZnwmSt11align_val_t",
)
"""The C allocation interface, and C++'s operator new and delete, which the C++ library or the allocator serves."""
PASSED_ON = {"_ZdlPvm": "_ZdlPv"}
"""Sized delete → delete: compilers put a sized delete that only calls the other into libraries (libprotobuf-lite of
MySQL 8.0 has one).
"""
STATISTICS_SYMBOLS = ("mallinfo2", "mallinfo")
"""The functions by which a server reads its allocator's figures (mallinfo(3)); the first one that it uses counts."""
OPERATOR_PREFIXES = ("_Zn", "_Zd")


@dataclass(frozen=True)
class Bindings:
    """Who serves the allocation symbols of a program, as the dynamic linker resolved them."""

    providers: dict[str, dict[str, list[str]]]
    """symbol → provider library → the files that bind to it."""
    refused: tuple[str, ...]
    """Libraries named in LD_PRELOAD that the linker did not load."""
    exit_code: int
    output: str

    def of(self, symbol: str) -> dict[str, list[str]]:
        """provider → users of one symbol; empty if none binds it."""
        return self.providers.get(symbol, {})

    def served_by(self, symbol: str, program: Path) -> set[Path]:
        """The libraries that serve the symbol in the end.

        A program that takes a function's address, and is not position-independent, lends it the address of its own
        jump table: libraries then bind to the program, and the program to the library that serves it (ELF, "canonical
        PLT"). Such a detour over the program is not a provider of its own, and neither is a library that passes a sized
        delete on to the delete that another one serves.
        """
        users = {Path(provider).resolve(): by for provider, by in self.of(symbol).items()}
        own = program.resolve()
        detour = any(path != own and any(Path(user).resolve() == own for user in by) for path, by in users.items())
        passing = {
            Path(user).resolve()
            for provider, by in self.of(PASSED_ON.get(symbol, "")).items()
            for user in by
            if Path(user).resolve() != Path(provider).resolve()
        }
        return {path for path in users if not (detour and path == own) and path not in passing}


PYTHON_FOLDERS = (Path(sys.prefix), Path(sys.base_prefix))
"""What the server's user needs to run the present Python, which loads a library that may be anyone's."""


async def bindings(
    command: Sequence[str], environment: Mapping[str, str], host: LocalHost, folders: Sequence[Path]
) -> Bindings:
    """Run `command --no-defaults --version` under LD_DEBUG=bindings: the same binary, user and environment.

    LD_BIND_NOW makes the linker bind what it would otherwise bind at first use.
    """
    debugged = {**environment, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
    done = await host.run(
        [*command, "--no-defaults", "--version"], environment=debugged, as_server=True, folders=folders, timeout_s=60
    )
    return parse_bindings(done.output, done.exit_code)


def parse_bindings(output: str, exit_code: int = 0) -> Bindings:
    """Read the output of LD_DEBUG=bindings."""
    providers: dict[str, dict[str, list[str]]] = {}
    for user, provider, symbol in _BINDING.findall(output):
        if symbol in MALLOC_SYMBOLS or symbol in STATISTICS_SYMBOLS:
            users = providers.setdefault(symbol, {}).setdefault(provider, [])
            if user not in users:
                users.append(user)
    refused = tuple(dict.fromkeys(_REFUSED.findall(output)))
    rest = "\n".join(line for line in output.splitlines() if "binding file" not in line)
    return Bindings(providers, refused, exit_code, rest[-2000:])


async def linked_libraries(
    program: Path, loader: Sequence[str], environment: Mapping[str, str], host: LocalHost, folders: Sequence[Path]
) -> dict[str, Path]:
    """{soname: file} of everything that the dynamic linker loads for a program by itself (ldd(1))."""
    command = [*loader, "--list", str(program)] if loader else ["ldd", str(program)]
    reported = await host.run(command, environment=environment, as_server=True, folders=folders, timeout_s=30)
    return {name: Path(path).resolve() for name, path in _LINKED.findall(reported.output)}


def preload_obstacle(path: Path) -> str | None:
    """Why LD_PRELOAD cannot name a library at this path, or below it; None if it can (ld.so(8))."""
    if not set(str(path)) & set(" :"):
        return None
    return f"{path} has a space or a colon, at which LD_PRELOAD is split; use a path without (cache: MYDYNO_CACHE)"


def mapped_libraries(pid: int) -> list[str] | None:
    """Shared objects mapped into the live process; None if the kernel does not permit reading them."""
    paths = mapped_files(pid)
    return None if paths is None else [path for path in paths if ".so" in path]


def mapped_files(pid: int) -> list[str] | None:
    """Files mapped into the live process; None if the kernel does not permit reading them."""
    text = text_of(Path(f"/proc/{pid}/maps"))
    if not text:
        return None
    paths = (line.split(maxsplit=5)[5] for line in text.splitlines() if line.count(" ") >= 5 and "/" in line)
    return sorted(set(paths))


def secure_execution_reason(program: Path) -> str | None:
    """Why the linker runs this program in secure-execution mode and ignores LD_PRELOAD; None if it does not."""
    try:
        mode = program.stat().st_mode
    except OSError:
        return None
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return f"{program} is setuid or setgid"
    try:
        os.getxattr(program, "security.capability")
    except OSError:
        return None
    return f"{program} carries file capabilities (see getcap); remove them from a copy with setcap -r"
