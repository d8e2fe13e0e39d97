"""What is built: a checkout with its version, its commit, and the environment that makes builds of it reproducible."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path


class ReleaseError(Exception):
    """A release cannot be made; the message is for the person who makes it."""


@dataclass(frozen=True)
class Source:
    """A folder with the files of one commit."""

    folder: Path
    commit: str
    epoch_s: int
    """The commit's time, in seconds since 1970: of every file in every archive."""

    @classmethod
    def of_checkout(cls, folder: Path, with_changes: bool) -> Source:
        """Raises ReleaseError if there are changes that are not committed, unless they are wanted."""
        commit, epoch = _git(folder, "log", "-1", "--format=%H %ct").split()
        if not with_changes and (changes := _git(folder, "status", "--porcelain")):
            raise ReleaseError(f"not committed: {', '.join(changes.split()[1::2])}\ncommit it, or give --dirty")
        return cls(folder, commit, int(epoch))

    def must_be_unchanged(self, with_changes: bool) -> None:
        """Raises ReleaseError if the folder is now at another commit, or has changes that are not wanted."""
        if Source.of_checkout(self.folder, with_changes) != self:
            raise ReleaseError("the checkout is at another commit than when the build began")

    def copy(self, folder: Path) -> Source:
        """The commit's files in another folder, which is made. Changes that are not committed are not copied."""
        folder.mkdir(parents=True)
        packed = subprocess.run(["git", "archive", self.commit], cwd=self.folder, stdout=subprocess.PIPE, check=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        return Source(folder, self.commit, self.epoch_s)

    @property
    def version(self) -> str:
        """As Cargo has it."""
        workspace = tomllib.loads((self.folder / "engine/Cargo.toml").read_text())["workspace"]
        return str(workspace["package"]["version"])

    def environment(self, target: Path) -> dict[str, str]:
        """Variables for the build of the engine below a target folder: no path of this host gets into a program."""
        cargo_home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
        names = {self.folder: "/mydyno", target: "/target", Path(sys.prefix): "/tools"}
        # One folder for each registry, below a folder with the registry's name.
        names |= dict.fromkeys(sorted((cargo_home / "registry/src").glob("*/")), "/cargo")
        return {
            **self.plain_environment(),
            "CARGO_TARGET_DIR": str(target),
            "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(
                f"--remap-path-prefix={path}={name}" for path, name in names.items()
            ),
            "CFLAGS": " ".join(f"-ffile-prefix-map={path}={name}" for path, name in names.items()),
            # LuaJIT unwinds the stack, and its build links a program; zig links no unwinder unless it is named.
            "TARGET_LIBS": "-lunwind",
            "ZIG_GLOBAL_CACHE_DIR": str(target / "zig"),
            "CARGO_ZIGBUILD_CACHE_DIR": str(target / "zigbuild"),
        }

    def plain_environment(self) -> dict[str, str]:
        """Variables for every other build."""
        return {
            **os.environ,
            "PATH": f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}",
            "SOURCE_DATE_EPOCH": str(self.epoch_s),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }


def run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a build with its output on standard error. Raises ReleaseError."""
    print(f"release: {' '.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr, check=False)
    if done.returncode:
        raise ReleaseError(f"{command[0]} failed with exit code {done.returncode}")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()
