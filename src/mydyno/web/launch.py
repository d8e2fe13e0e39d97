"""Starts a study for `serve --allow-run`: `mydyno run` as a process of its own, one at a time.

The study continues when the server ends, like one started in another terminal: its output is a file, and it has a
session of its own, so that neither Ctrl-C nor the end of the terminal reaches it. Its live page, of this server or of
the next, stops it.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from mydyno.errors import HostError
from mydyno.hosts.commands import DetachedCommand, redacted, start_detached
from mydyno.hosts.lock import another_study, lock_holder
from mydyno.store.live_log import LIVE_FILE
from mydyno.web.designing import Draft

MOST_OUTPUT_BYTES = 64 * 1024
"""How much of the end of the output is shown."""


@dataclass(frozen=True)
class LaunchStatus:
    """What has become of the study that was started last."""

    state: str
    """none, preparing, running (it has a live page), ended."""
    study: str = ""
    exit_code: int | None = None
    output: str = ""
    """What it printed: progress and errors."""


class Launcher:
    """Starts studies into one folder, and knows the last one. Safe in several threads."""

    def __init__(self, studies: Path, folder: Path, lock_address: str) -> None:
        self._studies = studies.resolve()
        self._folder = folder
        self._lock_address = lock_address
        self._mutex = threading.Lock()
        self._command: DetachedCommand | None = None
        self._output = Path()
        self._study = ""

    def start(self, draft: Draft) -> None:
        """Start a study of this experiment. Raises HostError while one runs on this host, or where it cannot start."""
        with self._mutex:
            if self._command is not None and self._command.poll() is None:
                raise HostError(
                    "the study that was started here last has not ended", "wait for it to end, or stop it on its page"
                )
            if (holder := lock_holder(self._lock_address)) is not None:
                raise another_study(holder)
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                place = Path(mkdtemp(prefix="study-", dir=self._folder))  # mode 0700: a file may have a password
                file = place / draft.file_name
                file.write_text(draft.toml, encoding="utf-8")
                self._output = place / "output.txt"
                argv = [sys.executable, "-m", "mydyno.cli", "run", str(file), "--studies", str(self._studies)]
                self._command = start_detached([*argv, *draft.options], self._output)
            except OSError as error:
                raise HostError(f"the study cannot be started: {error}") from error
            self._study = ""

    def status(self) -> LaunchStatus:
        """The state of the last study, and what it printed."""
        with self._mutex:
            if self._command is None:
                return LaunchStatus("none")
            exit_code = self._command.poll()
            if not self._study and (holder := lock_holder(self._lock_address)) and holder.pid == self._command.pid:
                self._study = holder.study
            is_live = bool(self._study) and (self._studies / self._study / LIVE_FILE).is_file()
            state = "ended" if exit_code is not None else "running" if is_live else "preparing"
            return LaunchStatus(state, self._study if is_live else "", exit_code, self._read_output())

    def _read_output(self) -> str:
        try:
            with self._output.open("rb") as file:
                file.seek(max(0, self._output.stat().st_size - MOST_OUTPUT_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(redacted(line) for line in text.splitlines())
