"""The compilers that a build uses, by name from PATH, and wrappers that put ccache and another layout before them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random

from mydyno.errors import HostError
from mydyno.hosts.local import LocalHost
from mydyno.model.frozen_record import Record
from mydyno.servers.compiled import link_order

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
        path = shutil.which(words[0], path=environment.get("PATH")) if words else None
        if path is None:
            continue
        reported = await host.run([path, "--version"], timeout_s=60)
        version = reported.output.strip().partition("\n")[0]
        found.append(Compiler(name=words[0], path=str(Path(path).resolve()), version=version))
    if not found or (environment.get("CC") and found[0].name != shlex.split(environment["CC"])[0]):
        raise HostError(
            f"server.build: no compiler {environment.get('CC', 'cc')} on PATH",
            "Debian and Ubuntu: apt-get install build-essential",
        )
    return Toolchain(compilers=tuple(found), ccache=shutil.which("ccache") or "")


async def write_wrappers(folder: Path, toolchain: Toolchain, layout: int, host: LocalHost) -> Path | None:
    """Wrappers of the compilers, to be put first on PATH; None where neither ccache nor a layout needs them.

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
        path = shutil.which(name)
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
