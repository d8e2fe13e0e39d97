"""What a build in the cache was made from: build.json, its program, and the compilers, by name from PATH, with wrappers
that put ccache and another layout before them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from mydyno.errors import HostError
from mydyno.files.atomic import sha256_of
from mydyno.hosts.local import LocalHost
from mydyno.model.definition.source_build import BuildSpec
from mydyno.model.frozen_record import Record
from mydyno.servers.compiled import link_order
from mydyno.servers.compiled.source import Source

COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++")
PADDING_STEP_BYTES = 16
"""Alignment of functions: less would misalign them all, which no compiler does."""
PADDING_MOST_BYTES = 4096


class Compiler(Record):
    """One compiler as it reports itself."""

    name: str
    path: str
    version: str


class Toolchain(Record):
    """What a build was made with."""

    compilers: tuple[Compiler, ...]
    ccache: str = ""
    """The path of ccache, if it is used."""

    @property
    def words(self) -> str:
        """E.g. "cc and c++ (Debian 12.2.0-14) 12.2.0, ccache"."""
        names: dict[str, list[str]] = {}
        for compiler in self.compilers:
            program, _, rest = compiler.version.partition(" ")
            names.setdefault(rest, []).append(program)
        versions = [f"{' and '.join(programs)} {rest}" for rest, programs in names.items()]
        return ", ".join([*versions, *(["ccache"] if self.ccache else [])])


async def find_toolchain(environment: Mapping[str, str], host: LocalHost) -> Toolchain:
    """The compilers of CC and CXX, else cc and c++. Raises HostError if there is no C compiler."""
    found = []
    for variable, usual in (("CC", "cc"), ("CXX", "c++")):
        words = shlex.split(environment.get(variable, usual))
        name, where = words[0] if words else "", environment.get("PATH")
        path = _compiler(name, where) or shutil.which(name, path=where)
        if path is None:
            continue
        reported = await host.run([path, "--version"], timeout_s=60)
        version = reported.output.strip().partition("\n")[0]
        found.append(Compiler(name=name, path=str(Path(path).resolve()), version=version))
    if not found or (environment.get("CC") and found[0].name != shlex.split(environment["CC"])[0]):
        raise HostError(
            f"server.build: no compiler {environment.get('CC', 'cc')} on PATH",
            "Debian and Ubuntu: apt-get install build-essential",
        )
    return Toolchain(compilers=tuple(found), ccache=shutil.which("ccache") or "")


def _compiler(name: str, path: str | None) -> str | None:
    """The first on PATH that is no link to ccache, which would look for it again and find a wrapper."""
    for folder in (path or os.environ.get("PATH") or os.defpath).split(os.pathsep):
        found = shutil.which(name, path=folder)
        if found is not None and not Path(found).resolve().name.startswith("ccache"):
            return found
    return None


async def write_wrappers(
    folder: Path, environment: Mapping[str, str], toolchain: Toolchain, layout: int, host: LocalHost
) -> Path | None:
    """Wrappers of the compilers on the environment's PATH, to be put first on it; None where neither ccache nor a
    layout needs them.

    Layout 1 is the program as its own recipe links it. Raises HostError if the padding cannot be assembled.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if layout == 1 and not toolchain.ccache:
        return None
    folder.mkdir(parents=True)
    before = [toolchain.ccache] if toolchain.ccache else []
    linking: list[str] = []
    if layout > 1:
        padding = await _padding(folder, toolchain, layout, host)
        linking = [sys.executable, "-I", "-S", str(Path(link_order.__file__)), str(layout), str(padding)]
    for name in COMPILERS:
        path = _compiler(name, environment.get("PATH"))
        if path is None:
            continue
        lines = ["#!/bin/sh", f"[ $# -gt 0 ] || exec {shlex.quote(path)}"]
        plain = shlex.join([*before, path])
        if linking:
            lines.append(f'for word; do case $word in -c|-S|-E|-M|-MM) exec {plain} "$@";; esac; done')
            lines.append(f'exec {shlex.join([*linking, path])} -- "$@"')
        else:
            lines.append(f'exec {plain} "$@"')
        wrapper = folder / name
        wrapper.write_text("\n".join(lines) + "\n")
        wrapper.chmod(0o755)
    return folder


def padding_bytes(layout: int) -> dict[str, int]:
    """Section → by how much this layout moves what is linked into it after the padding; the same for every commit."""
    random = Random(f"mydyno-layout-1-{layout}")
    sections = ("text", "data", "rodata", "bss")
    if layout == 1:
        return dict.fromkeys(sections, 0)
    return {name: random.randrange(PADDING_STEP_BYTES, PADDING_MOST_BYTES, PADDING_STEP_BYTES) for name in sections}


async def _padding(folder: Path, toolchain: Toolchain, layout: int, host: LocalHost) -> Path:
    sizes = padding_bytes(layout)
    source, made = folder / "padding.s", folder / "padding.o"
    source.write_text(
        f".text\n.globl {link_order.PADDING_SYMBOL}\n{link_order.PADDING_SYMBOL}:\n.skip {sizes['text']}, 0x90\n"
        f".data\n.skip {sizes['data']}\n.section .rodata\n.skip {sizes['rodata']}\n.bss\n.skip {sizes['bss']}\n"
        '.section .note.GNU-stack,"",@progbits\n'
    )
    compiler = toolchain.compilers[0].path
    done = await host.run([compiler, "-c", str(source), "-o", str(made)], cwd=folder, timeout_s=60)
    if done.exit_code:
        raise HostError(f"builds = {layout}: {compiler} cannot assemble the padding: {done.output.strip()[-300:]}")
    return made


def with_wrappers(environment: Mapping[str, str], wrappers: Path | None) -> dict[str, str]:
    """The command's environment with the wrappers first on its PATH."""
    path = environment.get("PATH") or os.environ.get("PATH") or os.defpath
    return {**environment, "PATH": path if wrappers is None else f"{wrappers}:{path}"}


RECORD_FILE = "build.json"
TREE = "tree"
LOG_FILE = "build.log"
RECIPE_FORMAT = 1
"""Raised when mydyno builds in another way, so that builds of before are not taken for it."""
_BUILD_ID = re.compile(r"Build ID: ([0-9a-f]+)")
_COMMENT = re.compile(r"^\s*\[\s*[0-9a-f]+\]\s+(.+)$", re.MULTILINE)


class BuildRecord(Source):
    """build.json: the source, under the build's own name, and what was made of it."""

    format: int = 1
    ref: str = ""
    """As the experiment named the commit when it was built."""
    command: str
    environment: dict[str, str]
    toolchain: Toolchain
    platform: str
    layout: int
    """1: as the command links it; others are linked in another order, with padding."""
    padding_bytes: dict[str, int]
    recipe: str
    """SHA-256 of everything above that decides about the program."""
    program: str
    """Path of the program below the build's tree."""
    version: str
    """As the program reports it."""
    has_sql: bool
    sha256: str
    """SHA-256 of the program."""
    build_id: str = ""
    """Build ID of the program (ld --build-id); empty if it was linked without one."""
    compiled_by: tuple[str, ...] = ()
    """The compilers that the program names in its section .comment."""
    size_bytes: int
    """Size of the whole tree, in bytes."""
    built_unix_ns: int
    took_s: float

    @property
    def words(self) -> str:
        """E.g. "a1b2c3d4e5f6 (Speed up gets), build 2": commit, subject, and the layout where it is not the first."""
        subject = f" ({self.subject})" if self.subject else ""
        layout = f", build {self.layout}" if self.layout > 1 else ""
        patched = f" with {self.patch.rpartition('/')[2]}" if self.patch else ""
        return f"{self.commit.removeprefix('tree-')[:12]}{subject}{patched}{layout}"

    @property
    def facts(self) -> dict[str, Any]:
        """What evidence and reports say of it."""
        kept = ("name", "origin", "ref", "commit", "subject", "author", "date", "patch", "patch_sha256", "command",
                "environment", "layout", "padding_bytes", "recipe", "sha256", "build_id", "compiled_by",
                "took_s")  # fmt: skip
        compilers = [compiler.version for compiler in self.toolchain.compilers]
        return {
            **self.model_dump(mode="json", include=set(kept)),
            "compilers": compilers,
            "ccache": bool(self.toolchain.ccache),
        }


def recipe_hash(source: Source, spec: BuildSpec, toolchain: Toolchain, layout: int) -> str:
    """SHA-256 of what decides about the program; ccache does not."""
    facts = {
        "format": RECIPE_FORMAT + ("PATH" in spec.environment),  # earlier wrappers ignored it
        "commit": source.commit,
        "command": spec.command,
        "environment": dict(sorted(spec.environment.items())),
        "compilers": [compiler.model_dump() for compiler in toolchain.compilers],
        "platform": platform_words(),
        "layout": layout,
        "padding": padding_bytes(layout),
    }
    if source.patch_sha256:
        facts["patch"] = source.patch_sha256
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def platform_words() -> str:
    """E.g. "x86_64, glibc 2.36"."""
    name, version = platform.libc_ver()
    return f"{platform.machine()}, {name} {version}".strip(", ")


async def identify(program: Path, host: LocalHost) -> tuple[str, str, tuple[str, ...]]:
    """(SHA-256, build id, compilers) of a program; the latter two as far as readelf finds them."""
    sha256 = sha256_of(program)
    notes = await host.run(["readelf", "--notes", str(program)], timeout_s=60)
    comment = await host.run(["readelf", "--string-dump=.comment", str(program)], timeout_s=60)
    build_id = found[1] if notes.exit_code == 0 and (found := _BUILD_ID.search(notes.output)) else ""
    compilers = tuple(dict.fromkeys(_COMMENT.findall(comment.output))) if comment.exit_code == 0 else ()
    return sha256, build_id, compilers


def file_identity(path: Path) -> tuple[int, int]:
    """(device, inode) of a file, or of the file that /proc/PID/exe names. Raises OSError."""
    facts = path.stat()
    return facts.st_dev, facts.st_ino


def sha256_of_running(path: Path) -> str:
    """SHA-256 of a file that does not change, such as a process's program; remembered by its identity. OSError."""
    facts = path.stat()
    return _sha256((facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns), path)


@lru_cache(maxsize=256)
def _sha256(identity: tuple[int, ...], path: Path) -> str:
    del identity
    return sha256_of(path)
