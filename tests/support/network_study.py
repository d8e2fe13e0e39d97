"""Real studies over namespaces: the program itself, with a cache of its own, and what it may not leave behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mydyno.failpoints import STOP_AT
from mydyno.hosts.network.namespace import network_capabilities
from mydyno.hosts.paths import HostPaths
from tests.support.not_run import note_not_run
from tests.support.patience import HANG_S
from tests.support.processes import processes
from tests.support.real import STUDY_LOCK


def means_or_words() -> bool:
    """Whether links can be made here; where not, lists it, and checks that mydyno says why."""
    missing = network_capabilities().obstacle(bandwidth=True, latency=False)
    if missing is None:
        return True
    assert "need" in missing or "CONFIG_" in missing or "namespace" in missing
    note_not_run(f"links between namespaces: {missing}")
    return False


@contextmanager
def network_study(name: str, text: str, prefix: Sequence[str] = ()) -> Iterator[NetworkStudy]:
    """One experiment in a folder that the server's user can enter (pytest's own are closed to others).

    `prefix` is put before its commands, to run them in namespaces of the tests' own.
    """
    folder = Path(tempfile.mkdtemp(prefix="mydyno-test-"))
    folder.chmod(0o755)
    try:
        yield NetworkStudy(folder, name, text, prefix)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class NetworkStudy:
    """One experiment file with a cache of its own; the parts of the real cache are lent."""

    folder: Path
    name: str
    text: str
    prefix: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.cache = self.folder / "cache"
        self.cache.mkdir(parents=True)
        parts = HostPaths.resolve().cache / "debian"
        if parts.is_dir():
            (self.cache / "debian").symlink_to(parts)
        self.file = self.folder / f"{self.name}.toml"
        self.file.write_text(self.text)
        self.studies = self.folder / "studies"

    @property
    def environment(self) -> dict[str, str]:
        engine = str(HostPaths.resolve().engine)
        source = str(Path(__file__).parents[2] / "src")
        own = {"MYDYNO_CACHE": str(self.cache), "MYDYNO_ENGINE": engine, "MYDYNO_TEST_STUDY_LOCK": STUDY_LOCK}
        return {**os.environ, "PYTHONPATH": source, **own}

    def start(self, *arguments: str, stop_at: str = "") -> subprocess.Popen[str]:
        """`stop_at`: see mydyno.failpoints."""
        command = [*self.prefix, sys.executable, "-m", "mydyno.cli", *arguments]
        environment = {**self.environment, STOP_AT: stop_at}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, *arguments: str) -> tuple[int, str]:
        """Run to the end."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=HANG_S)
        return process.returncode, output

    def namespaces(self) -> list[Path]:
        found = self.entering("find", "/run/netns", "-name", f"mydyno-{self.name}-*")
        return sorted(map(Path, found.stdout.splitlines()))

    def entering(self, *command: str) -> subprocess.CompletedProcess[str]:
        """What a command says where the study's commands run."""
        return subprocess.run([*self.prefix, *command], capture_output=True, text=True, check=False)

    def processes(self) -> list[int]:
        """Every process that carries a study's cookie of this experiment."""
        cookie = f"MYDYNO_STUDY={self.name}-".encode()
        return [pid for pid, _, environment in processes() if cookie in environment]
