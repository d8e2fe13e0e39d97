"""dynoprobe beside a run: started, told of drivers and marks, read back as samples."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

from mydyno.errors import StudyError
from mydyno.hosts.local import Process
from mydyno.running.workbench import Workbench
from mydyno.servers.instance import CONTROL_USER, Instance
from mydyno.store.samples import Sample

INTERVAL_MS = 1000
FORMAT_VERSION = 1


class Probe:
    """One dynoprobe process. Its standard input is its leash: when it closes, the probe ends."""

    def __init__(self, bench: Workbench, instance: Instance, output: Path) -> None:
        self._bench = bench
        self._instance = instance
        self._output = output
        self._process: Process | None = None

    async def start(self) -> None:
        """Begin to sample host, instance and the data's disk."""
        password_file = self._bench.sockets / "control.password"
        password_file.touch(mode=0o600)
        password_file.write_text(self._instance.credentials.control)
        target = (
            f"1:{self._instance.pid},socket={self._instance.socket},user={CONTROL_USER},password-file={password_file}"
        )
        command = [
            str(self._bench.settings.program("dynoprobe")),
            f"--interval-ms={INTERVAL_MS}",
            "--output",
            str(self._output),
            "--instance",
            target,
            "--disk",
            str(self._instance.data),
        ]
        log = self._output.with_suffix(".log")
        with log.open("wb") as file:
            self._process = await self._bench.host.start(command, stdin=asyncio.subprocess.PIPE, stdout=file.fileno())

    def tell(self, line: str) -> None:
        """One command on its standard input, e.g. `driver 1 4711` or `mark step …`."""
        if self._process is None or self._process.exit_code is not None:
            return
        stdin = self._process.streams.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):
            stdin.write(f"{line}\n".encode())

    async def stop(self) -> list[str]:
        """End it; gives warnings on what it could not sample."""
        if self._process is None:
            return []
        died = self._process.exit_code
        stdin = self._process.streams.stdin
        if stdin is not None:
            stdin.close()
        try:
            await self._process.wait(5)
        except TimeoutError:
            await self._process.end(2)
        if died is not None:
            words = self._output.with_suffix(".log").read_text(errors="replace").strip()[-300:]
            return [f"dynoprobe ended by itself with exit code {died}: {words}"]
        return []


def read_samples(path: Path) -> tuple[list[Sample], list[str]]:
    """The probe's samples and its own complaints. Raises StudyError for an unknown format."""
    samples: list[Sample] = []
    warnings: list[str] = []
    if not path.exists():
        return samples, ["dynoprobe wrote no samples"]
    for line in path.read_text(errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the last line of a probe that was killed
        kind = record.get("record")
        if kind == "header" and record["format_version"] != FORMAT_VERSION:
            raise StudyError(f"dynoprobe writes format {record['format_version']}, not {FORMAT_VERSION}")
        if kind == "sample":
            for scope, metrics in record["metrics"].items():
                samples += [Sample(record["unix_ns"], scope, name, float(value)) for name, value in metrics.items()]
        elif kind == "failure":
            warnings.append(f"dynoprobe: {record['scope']} {record['family']}: {record['message']}")
    return samples, list(dict.fromkeys(warnings))
