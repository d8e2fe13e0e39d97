"""The host as mydyno reads and changes it: files of the kernel, programs, user, CPUs, memory, clock.

Functions take it as `root`. HERE is this host; a test passes a folder with the files that it needs
(tests/support/fake_host.py).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence, Set
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.commands import Done, run_command


def text_of(path: Path) -> str:
    """The text of a file such as those of /proc; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


class HostRoot:
    """This host, read anew each time."""

    folder = Path("/")

    @property
    def proc(self) -> Path:
        """proc(5)."""
        return self.folder / "proc"

    @property
    def sys(self) -> Path:
        """sysfs(5)."""
        return self.folder / "sys"

    @property
    def netns(self) -> Path:
        """The network namespaces that ip-netns(8) lists."""
        return self.folder / "run/netns"

    @property
    def is_root(self) -> bool:
        """Whether mydyno may change the host."""
        return os.geteuid() == 0

    @property
    def cpus(self) -> Set[int]:
        """The CPUs that mydyno may use (sched_setaffinity(2))."""
        return os.sched_getaffinity(0)

    @property
    def cpu_count(self) -> int:
        """The CPUs that the host has."""
        return os.cpu_count() or 1

    @property
    def memory_bytes(self) -> int:
        """The memory that the host has."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def free_bytes(self, folder: Path) -> int:
        """Free space of the file system that holds the folder, or would hold it."""
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free

    def which(self, program: str) -> str | None:
        """The path of a program; None if it is not on PATH."""
        return shutil.which(program)

    def call(self, argv: Sequence[str], timeout_s: float = 30.0) -> Done:
        """Run a short program to its end, as run_command()."""
        return run_command(argv, timeout_s)

    def command(self, argv: Sequence[str]) -> str:
        """Run a short program; returns its output. Raises HostError with its own message."""
        try:
            done = self.call(argv)
        except OSError as error:
            raise HostError(f"{' '.join(argv)}: {error}") from error
        if done.returncode:
            words = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
            raise HostError(f"{' '.join(argv)}: {words}")
        return done.stdout

    def now_s(self) -> float:
        """Seconds of a clock that does not step."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Let time pass."""
        time.sleep(duration_s)


HERE = HostRoot()
