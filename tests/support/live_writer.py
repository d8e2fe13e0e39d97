"""A process that writes a study's live.jsonl as a study does: `python -m tests.support.live_writer FOLDER`.

Each line of its standard input is a JSON object with the fields of a record to append; SIGINT ends it as Ctrl-C ends a
study.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mydyno.hosts.identity import ProcessIdentity, boot_id, pid_namespace
from mydyno.model.stored.live import LiveEnded, LiveNote, LiveOpened, LivePrecision, LiveRecord, LiveRun, LiveSecond
from mydyno.store.logs import LiveLog
from tests.support import ROOT
from tests.support.patience import first_line

KINDS: dict[str, type[LiveRecord]] = {
    "second": LiveSecond, "note": LiveNote, "run": LiveRun, "precision": LivePrecision, "ended": LiveEnded,
}  # fmt: skip


class LiveWriter:
    """The process, from a test's side. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> LiveWriter:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.live_writer", str(self.folder)], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )  # fmt: skip
        first_line(self.process, "the writer of live.jsonl", "open\n")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def write(self, record: str, **fields: Any) -> None:
        """Append a record, and wait until it is written."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"record": record, **fields}) + "\n")
        self.process.stdin.flush()
        first_line(self.process, "the writer of live.jsonl", "written\n")

    def kill(self) -> None:
        """As kill -9 does."""
        self.process.kill()
        self.process.wait()


def main() -> None:
    folder = Path(sys.argv[1])
    log = LiveLog(folder)
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    log.append(
        LiveOpened(
            unix_ns=time.time_ns(),
            study=folder.name,
            pid=own.pid,
            start_ticks=own.start_ticks,
            boot_id=boot_id(),
            pid_namespace=pid_namespace(),
            hostname=platform.node(),
            design="interleaved",
        )
    )

    def interrupted(*_: object) -> None:
        log.append(LiveEnded(unix_ns=time.time_ns(), state="interrupted", text="interrupted; finished runs are kept"))
        sys.exit(130)

    signal.signal(signal.SIGINT, interrupted)
    print("open", flush=True)
    for line in sys.stdin:
        fields = json.loads(line)
        kind = KINDS[fields["record"]]
        log.append(kind.model_validate({"unix_ns": time.time_ns(), **fields}))
        print("written", flush=True)


if __name__ == "__main__":
    main()
