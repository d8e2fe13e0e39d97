"""build.json: what a build in the cache was made from, how, and what its program is."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from mydyno.files.atomic import sha256_of
from mydyno.hosts.local import LocalHost
from mydyno.model.definition.source_build import BuildSpec
from mydyno.servers.compiled.source import Source
from mydyno.servers.compiled.toolchain import Toolchain, padding_bytes

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
        "format": RECIPE_FORMAT,
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
