"""The two Python distributions: mydyno-engine, built by maturin, and mydyno, built by hatchling."""

from __future__ import annotations

import sys
from pathlib import Path

from release.sbom import make_sbom_reproducible
from release.source import Source, run

LOWEST_GLIBC = "manylinux_2_28"
"""What the programs run with: RHEL 8, Debian 11, Ubuntu 20.04 and later. Also the lowest of the packages of others."""

RELEASE_OPTIONS = ("--release", "--zig", "--compatibility", LOWEST_GLIBC)
"""Options of maturin for programs that are published."""


def build_engine(source: Source, target: Path, out: Path) -> Path:
    """The wheel, which is returned. Some five minutes of CPU time for an empty target folder."""
    # Cargo must have unpacked the crates before their folders can be named.
    run(["cargo", "fetch", "--locked"], source.folder / "engine", source.plain_environment())
    return _build_wheel(source, list(RELEASE_OPTIONS), source.environment(target), out)


def build_unoptimized_engine(source: Source, environment: dict[str, str], out: Path) -> Path:
    """A wheel with the same files for tests: the programs are slow and need the glibc of this host.

    The target folder of the environment must not be one in which other builds are made or run: programs have the same
    names there.
    """
    environment = {**source.plain_environment(), **environment}
    del environment["SOURCE_DATE_EPOCH"]  # crates are compiled again for it
    return _build_wheel(source, ["--profile", "dev"], environment, out)


def _build_wheel(source: Source, options: list[str], environment: dict[str, str], out: Path) -> Path:
    command = ["maturin", "build", "--locked", "--strip", *options, "--out", str(out)]
    run(command, source.folder / "engine/mydyno-engine", environment)
    wheel = engine_wheel(out)
    make_sbom_reproducible(source, wheel)
    return wheel


def build_engine_sdist(source: Source, out: Path) -> None:
    """The sdist: the whole Cargo workspace."""
    run(["maturin", "sdist", "--out", str(out)], source.folder / "engine/mydyno-engine", source.plain_environment())


def build_mydyno(source: Source, out: Path) -> None:
    """The wheel and the sdist of the Python program."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--sdist", "--wheel", "--outdir", str(out), "."]
    run(command, source.folder, source.plain_environment())


def engine_wheel(out: Path) -> Path:
    """The engine's wheel in a folder with the files of one release."""
    (wheel,) = out.glob("mydyno_engine-*.whl")
    return wheel
